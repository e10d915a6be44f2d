"""The families: what a prompt leaves open, and how outputs come apart."""

import pytest

from constrain import Vocabulary, choice
from constrain.reasoning import Reasoning, Split, compile_reasoning, parser_for
from tests.reasoning.tiny import ids, special, vocabulary

NAMES = ["<|im_start|>", "<|im_end|>", "<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|return|>"]
BRACKETS = ["[THINK]", "[/THINK]"]


def bytes_vocabulary(specials: list[str], words: tuple[bytes, ...] = ()) -> Vocabulary:
    """Every byte, some words, then special tokens; the first is a stop token."""
    tokens = [*(bytes([byte]) for byte in range(256)), *words]
    named = {name: len(tokens) + i for i, name in enumerate(specials)}
    return Vocabulary([*tokens, *(b"" for _ in specials)], stop_token_ids=[named[specials[0]]], special_tokens=named)


SPELLED = bytes_vocabulary(["<|im_end|>", "<|im_start|>"], (b"<think>", b"</think>", b"\n\n", b">\n\n"))
QWEN = bytes_vocabulary(["<|im_end|>", "<|im_start|>", "<think>", "</think>"], (b"\n\n",))
MISTRAL = bytes_vocabulary(["</s>", "[INST]", "[/INST]", *BRACKETS])
GPT_OSS = bytes_vocabulary(["<|return|>", "<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>"])


def tokens(vocabulary: Vocabulary, text: str) -> list[int]:
    """``text`` with the names of special tokens as those tokens, and the longest other tokens."""
    found: list[int] = []
    while text:
        name = next((name for name in vocabulary.special_tokens if text.startswith(name)), None)
        if name is not None:
            found.append(vocabulary.special_tokens[name])
            text = text[len(name) :]
            continue
        ends = [text.find(name) for name in vocabulary.special_tokens if name in text]
        end = min(ends, default=len(text))
        found += vocabulary.encode(text[:end])
        text = text[end:]
    return found


TURN = "<|im_start|>user\nhi<|im_end|><|im_start|>assistant\n"


@pytest.mark.parametrize("model", [SPELLED, QWEN])
@pytest.mark.parametrize(
    ("prompt", "think", "deepseek"),
    [
        (TURN, False, True),
        (TURN + "<think>", True, True),
        (TURN + "<think>\n", True, True),
        (TURN + "<think>\nSo far", True, True),
        (TURN + "<think>\n\n</think>\n\n", False, False),
        (TURN + "<think>a</think>x<|im_end|>" + TURN, False, True),
        (TURN + "<think>a" + TURN, False, True),
        (TURN + "a</think>", False, False),
        (TURN + "<think>a</think>b<think>", True, True),
        ("<|im_start|>user\n<think><|im_end|><|im_start|>assistant\n", False, True),
        ("no roles: <think>", True, True),
        ("", False, True),
    ],
)
def test_a_prompt_leaves_thinking_open_or_not(model: Vocabulary, prompt: str, think: bool, deepseek: bool) -> None:
    prompt_ids = tokens(model, prompt)
    assert parser_for("qwen3", model).starts_open(prompt_ids) is think
    assert parser_for("deepseek_r1", model).starts_open(prompt_ids) is deepseek


def test_padding_before_a_prompt_says_nothing() -> None:
    prompt = [special("<think>"), special("<pad>"), *ids("a")]
    assert not parser_for("think", vocabulary()).starts_open(prompt)
    assert parser_for("think", vocabulary()).starts_open([special("<pad>"), *ids("a"), special("<think>")])


@pytest.mark.parametrize("model", [SPELLED, QWEN])
@pytest.mark.parametrize(
    ("prompt", "output", "reasoning", "text", "end"),
    [
        ("", "<think>a b</think>x", "a b", "x", "x"),
        ("", "<think>a b</think>\n\nx</think>", "a b", "x</think>", "x</think>"),
        ("", "<think>a b</think>\n\n\nx", "a b", "\nx", "\nx"),
        ("", "<think>a b", "a b", "", None),
        ("", "x<think>y</think>", "", "x<think>y</think>", "all"),
        ("<think>\n", "é</think>日", "é", "日", "日"),
        ("<think>\n\n</think>\n", "\nx", "", "x", "x"),
        ("<think>\n\n</think>\n\n", "\nx", "", "\nx", "all"),
    ],
)
def test_think_comes_apart(
    model: Vocabulary, prompt: str, output: str, reasoning: str, text: str, end: str | None
) -> None:
    split = parser_for("think", model).split(tokens(model, output), tokens(model, TURN + prompt))
    # Special tokens add nothing to a text.
    text = text.replace("<think>", "").replace("</think>", "") if model is QWEN else text
    assert (split.reasoning, split.text) == (reasoning, text)
    if end is None:
        assert split.end_index is None
    else:
        tail = 0 if end == "all" else len(tokens(model, output)) - len(tokens(model, end))
        assert split.end_index == tail


def test_deepseek_r1_may_leave_the_start_out_or_write_it() -> None:
    for model in (SPELLED, QWEN):
        for start in ("", "<think>"):
            split = parser_for("deepseek_r1", model).split(tokens(model, start + "<th a</think>\n\nx"))
            assert (split.reasoning, split.text, split.ended_by) == ("<th a", "x", "</think>")
    assert parser_for("deepseek_r1", SPELLED).split(tokens(SPELLED, "<thi")).reasoning == "<thi"


def test_a_token_across_the_end_of_a_marker_is_cut_inside() -> None:
    output = [*SPELLED.encode("a</think"), SPELLED.token_bytes.index(b">\n\n"), *SPELLED.encode("x")]
    split = parser_for("deepseek_r1", SPELLED).split(output)
    assert split == Split("a", "x", len(output) - 1, "</think>")


def test_mistral_comes_apart() -> None:
    output = tokens(MISTRAL, "[THINK]a [/INST[/THINK]x</s>")
    split = parser_for("auto", MISTRAL).split(output, tokens(MISTRAL, "[INST]hi[/INST]"))
    assert split == Split("a [/INST", "x", len(output) - 2, "[/THINK]")


HEADER = "<|start|>assistant"


def test_harmony_comes_apart() -> None:
    output = tokens(
        GPT_OSS,
        "<|channel|>analysis<|message|>We add.<|end|>"
        + HEADER
        + "<|channel|>analysis<|message|> Done.<|end|>"
        + HEADER
        + "<|channel|>final<|message|>4<|return|>",
    )
    parser = parser_for("gpt_oss", GPT_OSS)
    prompt = tokens(GPT_OSS, "<|start|>user<|message|>2+2<|end|>" + HEADER)
    assert not parser.starts_open(prompt)
    split = parser.split(output, prompt)
    assert split == Split("We add. Done.", "4", len(output) - 2, "<|channel|>final<|message|>")
    cut = parser.split(output[: len(output) // 2], prompt)
    assert split.reasoning.startswith(cut.reasoning) and cut.text == "" and cut.end_index is None


def test_harmony_may_skip_thinking() -> None:
    parser = parser_for("harmony", GPT_OSS)
    marker = tokens(GPT_OSS, "<|channel|>final<|message|>")
    assert parser.split([*marker, ord("4")]) == Split("", "4", len(marker))
    assert parser.starts_open(tokens(GPT_OSS, HEADER + "<|channel|>analysis<|message|>So"))
    # What an earlier message thought is over.
    old = tokens(GPT_OSS, HEADER + "<|channel|>analysis<|message|>So<|end|><|start|>user<|message|>hm<|end|>" + HEADER)
    assert not parser.starts_open(old)


@pytest.mark.parametrize("required", [True, False])
def test_harmony_is_held_to_its_channels(required: bool) -> None:
    from constrain import make_backend

    content = make_backend("trie", GPT_OSS).compile(choice(["4", "5"]))
    made = compile_reasoning(content, GPT_OSS, Reasoning(parser="harmony", required=required, budget=5))
    final, start = tokens(GPT_OSS, "<|channel|>final<|message|>"), tokens(GPT_OSS, "<|channel|>analysis<|message|>")
    assert made.start().validate([*final, ord("4")]) == (1 if required else len(final) + 1)
    assert made.start().accept([ord("4")]) == 0
    grammar = made.start()
    assert grammar.accept([*start, *b"abcde"]) == len(start) + 5
    closing = tokens(GPT_OSS, "<|end|>" + HEADER + "<|channel|>final<|message|>")
    assert grammar.forced_tokens() == closing
    output = [*start, *b"abcde", *closing, ord("4")]
    assert grammar.accept([*closing, ord("4")]) == len(closing) + 1
    assert made.split(output) == Split("abcde", "4", len(output) - 1, "<|channel|>final<|message|>")
    # A message that ended by itself as the budget ran out is not ended twice.
    begun = [*start, *b"abc", *closing[:2]]
    grammar = made.start()
    assert grammar.accept(begun) == len(begun) and grammar.forced_tokens() == closing[2:]
    assert made.split([*begun, *closing[2:], ord("4")]).reasoning == "abc"


def test_a_splitter_hands_out_no_half_character_and_no_half_marker() -> None:
    splitter = parser_for("think", SPELLED).splitter(tokens(SPELLED, "<think>"))
    pieces = [splitter.feed([byte]) for byte in "é</é</think>日x".encode()]
    assert [piece.reasoning for piece in pieces if piece.reasoning] == ["é", "</", "é"]
    assert [piece.text for piece in pieces if piece.text] == ["日", "x"]
    assert splitter.finish().reasoning == ""
