"""Outputs read whole, as they grow, and to their value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from constrain import InvalidValueError, Vocabulary, json_schema, make_backend, regex
from constrain.grammar import CompiledGrammar
from constrain.output_reader import OutputReader
from constrain.reasoning import Reasoning, ReasoningFormat, compile_reasoning

TOKENS = [b"", *(bytes([i]) for i in range(256))]
VOCABULARY = Vocabulary(TOKENS, stop_token_ids=[0])
THINKS = Reasoning(parser=ReasoningFormat(start="<b>", end="</b>"))
ANYTHING = compile_reasoning(None, VOCABULARY, THINKS)


def ids(text: bytes) -> list[int]:
    return [1 + byte for byte in text]


@pytest.mark.parametrize("compiled", [None, make_backend("trie", VOCABULARY).compile(regex(".*")), ANYTHING])
@pytest.mark.parametrize("text", [b"", b"an \xc3\xa9 and \xf0\x9f\x98\x80", b"broken \xf0\x9f in the middle", b"</b>"])
def test_the_pieces_of_a_growing_output_are_the_whole(compiled: CompiledGrammar | None, text: bytes) -> None:
    reader = OutputReader(VOCABULARY, compiled)
    growing = reader.text_reader()
    pieces = [growing.feed([token_id]) for token_id in [*ids(text), 0]]
    parts = reader.parts([*ids(text), 0])
    assert "".join(piece.text for piece in pieces) == parts.text == text.decode(errors="replace")
    assert parts.reasoning == (None if compiled is not ANYTHING else "")
    assert parts.content_start == 0


def test_thinking_is_told_from_text() -> None:
    parts = OutputReader(VOCABULARY, ANYTHING).parts(ids(b"<b>why</b>so"))
    assert (parts.reasoning, parts.text, parts.content_start) == ("why", "so", len("<b>why</b>"))
    unfinished = OutputReader(VOCABULARY, ANYTHING).parts(ids(b"<b>wh"))
    assert (unfinished.reasoning, unfinished.text, unfinished.content_start) == ("wh", "", None)


def test_a_constraint_reads_its_own_value_and_free_text_is_its_text() -> None:
    compiled = make_backend("llguidance", VOCABULARY).compile(json_schema({"type": "integer"}))
    assert OutputReader(VOCABULARY, compiled).value("12", ids(b"12")) == 12
    assert OutputReader(VOCABULARY).value("12", ids(b"12")) == "12"
    with pytest.raises(InvalidValueError, match="bug of constrain"):
        OutputReader(VOCABULARY, compiled).value("x", ids(b"x"))


def test_what_was_ignored_is_not_asked_of_a_value() -> None:
    spec = json_schema({"type": "array", "uniqueItems": True}, unsupported="ignore")
    compiled = make_backend("llguidance", VOCABULARY).compile(spec)
    for held in (compiled, compile_reasoning(compiled, VOCABULARY, THINKS)):
        assert OutputReader(VOCABULARY, held).value("[1,1]", ids(b"[1,1]")) == [1, 1]


def test_the_callers_decoder_comes_first_and_whatever_it_raises_is_an_invalid_value() -> None:
    compiled = make_backend("trie", VOCABULARY).compile(regex("a"))
    assert OutputReader(VOCABULARY, compiled, str.upper).value("a", ids(b"a")) == "A"

    def refuse(text: str) -> Any:
        raise KeyError(text)

    with pytest.raises(InvalidValueError, match="raised KeyError: 'a'") as caught:
        OutputReader(VOCABULARY, compiled, refuse).value("a", ids(b"a"))
    assert isinstance(caught.value.__cause__, KeyError)


def test_a_decoder_of_tokens_is_given_the_tokens() -> None:
    @dataclass
    class OfTokens:
        def __call__(self, text: str) -> Any:
            raise AssertionError("the text does not tell")

        def decode_tokens(self, token_ids: Sequence[int], vocabulary: Vocabulary) -> Any:
            return list(token_ids), vocabulary is VOCABULARY

    decode: Callable[[str], Any] = OfTokens()
    assert OutputReader(VOCABULARY, None, decode).value("a", ids(b"a")) == (ids(b"a"), True)
