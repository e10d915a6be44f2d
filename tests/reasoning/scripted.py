"""Models that want to write a certain text, over single bytes, with the markers of families as tokens or as text."""

from collections.abc import Sequence
from functools import cache

import torch

from constrain import FunctionSource, Vocabulary

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
HARMONY = ["<|start|>", "<|end|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>", "<|return|>"]
STOP = 0


@cache
def special_vocabulary() -> Vocabulary:
    """The markers are special tokens."""
    names = ["</s>", *MARKERS, *HARMONY]
    tokens = [b""] * len(names) + [bytes([byte]) for byte in range(256)] + [b"\n\n", b"<t", b"ool", b" <"]
    return Vocabulary(tokens, stop_token_ids=[STOP], special_tokens={name: i for i, name in enumerate(names)})


@cache
def spelled_vocabulary() -> Vocabulary:
    """The markers are text."""
    tokens = [b"", *(bytes([byte]) for byte in range(256)), b"\n\n", b"<t", b"ool", b" <", b">\n"]
    return Vocabulary(tokens, stop_token_ids=[STOP], special_tokens={"</s>": STOP})


def tokens(text: str, vocabulary: Vocabulary) -> list[int]:
    """One token for each byte and each special token."""
    found: list[int] = []
    while text:
        name = next((name for name in vocabulary.special_tokens if text.startswith(name)), "")
        found += (
            [vocabulary.special_tokens[name]] if name else [vocabulary.token_bytes.index(bytes([text.encode()[0]]))]
        )
        text = text[len(name) :] if name else text.encode()[1:].decode()
    return found


def wanting(outputs: Sequence[tuple[Sequence[int], Sequence[int]]], vocabulary: Vocabulary) -> FunctionSource:
    """For each (prompt, output): whatever stands behind the prompt so far, it wants the output's token of its index."""

    def logits(rows: list[list[int]]) -> torch.Tensor:
        made = torch.zeros(len(rows), vocabulary.logits_width)
        for scores, row in zip(made, rows, strict=True):
            prompt, output = next(each for each in outputs if list(each[0]) == row[: len(each[0])])
            index = len(row) - len(prompt)
            scores[output[index] if index < len(output) else STOP] = 9.0
            scores[STOP] += 1.0
        return made

    return FunctionSource(logits, logits_width=vocabulary.logits_width)
