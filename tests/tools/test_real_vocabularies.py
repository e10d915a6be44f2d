"""Calls as real tokenizers write them. `make vocabularies` downloads the vocabularies."""

from functools import cache

import pytest

from constrain.backends import make_backend
from constrain.tags import named_token_ids
from constrain.tools import Tools
from constrain.vocabulary import Vocabulary
from tests import vocabularies
from tests.tools.test_tools import SEARCH, SUM, TOOLS, WEATHER, WRITTEN, calls_of

pytestmark = pytest.mark.skipif(
    not vocabularies.folder().exists(), reason="no vocabularies: make vocabularies downloads them"
)

# The format, the family that writes it, and the markers that its vocabulary has as special tokens.
CASES = [
    pytest.param("hermes", "qwen3.5", {"<tool_call>", "</tool_call>"}, id="hermes-qwen3.5"),
    pytest.param("hermes", "qwen2", set(), id="hermes-qwen2", marks=pytest.mark.slow),
    pytest.param("hermes", "llama3", set(), id="hermes-llama3", marks=pytest.mark.slow),
    pytest.param("llama3", "llama3", set(), id="llama3"),
    pytest.param("llama3-python-tag", "llama3", {"<|python_tag|>"}, id="llama3-python-tag"),
    pytest.param("mistral", "tekken", {"[TOOL_CALLS]"}, id="mistral-tekken"),
    pytest.param(
        "mistral-args", "tekken", {"[TOOL_CALLS]", "[ARGS]"}, id="mistral-args-tekken", marks=pytest.mark.slow
    ),
    pytest.param("harmony", "qwen2", set(), id="harmony-as-text", marks=pytest.mark.slow),
]


@cache
def vocabulary_of(family: str) -> Vocabulary:
    parts = vocabularies.RANKS[family]()
    names = dict(parts.special_tokens)
    if family == "tekken":  # the file of that version has no names, and its tokenizer no [ARGS] yet
        names = {{9: "[TOOL_CALLS]", 32: "[ARGS]"}.get(i, name): i for name, i in names.items()}
    return Vocabulary.from_ranks(parts.ranks, names, stop_token_ids=[parts.special_tokens[parts.stop_token]])


def ids_of(text: str, vocabulary: Vocabulary, markers: set[str]) -> list[int]:
    """``text`` as the model writes it: special tokens outside of the arguments, which hold one as text."""
    for arguments in (WEATHER, SEARCH, SUM):
        text = text.replace(arguments, f"\0{arguments}\0")
    ids: list[int] = []
    for number, piece in enumerate(text.split("\0")):
        if number % 2:
            ids += vocabulary.encode(piece)
            continue
        while piece:
            at, name = (
                min((piece.find(m), m) for m in markers if m in piece) if _any(markers, piece) else (len(piece), "")
            )
            ids += vocabulary.encode(piece[:at]) if at else []
            ids += [vocabulary.special_tokens[name]] if name else []
            piece = piece[at + len(name) :]
    return ids


def _any(markers: set[str], piece: str) -> bool:
    return any(marker in piece for marker in markers)


@pytest.mark.parametrize(("name", "family", "markers"), CASES)
def test_calls_of_a_real_tokenizer_are_legal_and_read_back(name: str, family: str, markers: set[str]) -> None:
    vocabulary = vocabulary_of(family)
    assert {marker for marker in markers if marker in vocabulary.special_tokens} == markers
    ids = ids_of(WRITTEN[name], vocabulary, markers)
    stop = vocabulary.stop_token_ids[0]
    for choice in ("required", "auto"):
        tools = Tools(TOOLS, format=name, choice=choice)
        assert named_token_ids(tools.grammar_spec, vocabulary) == {vocabulary.special_tokens[m] for m in markers}
        for backend in ("llguidance", "xgrammar"):
            grammar = make_backend(backend, vocabulary).compile(tools.grammar_spec).start()
            assert grammar.accept([*ids, stop]) == len(ids) + 1, (backend, vocabulary.decode(ids))
            grammar.rollback(len(ids) + 1)
            text = vocabulary.encode("Let me see. ")
            assert grammar.accept(text) == (len(text) if choice == "auto" and name != "harmony" else 0)
        assert tools.parse([*ids, stop], vocabulary) == calls_of(name)
        assert list(tools.split(ids, vocabulary).calls) == calls_of(name)
