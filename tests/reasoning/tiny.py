"""A vocabulary whose tokens cut markers in every way, and what the tests read off a grammar."""

from functools import cache

import torch

from constrain import CompiledGrammar, Grammar, GrammarSpec, RowState, Vocabulary, make_backend
from constrain.sampling.ops.bitmask import allowed_tokens

TEXTS = [b"a", b"b", b"c", b"<", b"/", b">", b"[", b"]", b"1", b"2", b"\n", b" ", b"T", b"x"]
TEXTS += [
    b"</",
    b"/>",
    b">a",
    b"b>",
    b"<b",
    b"a<",
    b"<b>",
    b"</b>",
    b"</b>\n",
    b"\n\n",
    b"\n[",
    b"[1",
    b"1]",
    b"ab",
    b"]]",
    b"b>a",
    b"<b>a",
    b"Ta",
]
SPECIALS = ["<pad>", "<user>", "<think>", "</think>", "<call>", "<|start|>", "<|end|>", "<|channel|>", "<|message|>"]
STOPS = (0, 1)
HOLE = 2


@cache
def vocabulary() -> Vocabulary:
    """Two stop tokens, a hole, special tokens with names, then text; logits wider than the vocabulary."""
    tokens = [b"", b"", b""] + [b""] * len(SPECIALS) + TEXTS
    tokens += [bytes([byte]) for byte in b"nlysift"]  # for "assistant", "analysis" and "final"
    return Vocabulary(
        tokens,
        stop_token_ids=STOPS,
        special_tokens={name: 3 + i for i, name in enumerate(SPECIALS)},
        logits_width=97,
    )


def special(name: str) -> int:
    """The id of a special token."""
    return vocabulary().special_tokens[name]


def ids(*parts: str | int) -> list[int]:
    """Tokens, one for each part: an id, or a text that is a token."""
    tokens = vocabulary().token_bytes
    return [part if isinstance(part, int) else tokens.index(part.encode()) for part in parts]


@cache
def compiled(grammar_spec: GrammarSpec, backend: str = "trie") -> CompiledGrammar:
    """A grammar for :func:`vocabulary`."""
    return make_backend(backend, vocabulary()).compile(grammar_spec)


def row_of(grammar: Grammar) -> tuple[RowState, tuple[int, ...]]:
    """The state of the next row, and the ids that it allows."""
    bitmask = torch.full((1, vocabulary().num_mask_words), 0x5A5A5A5A, dtype=torch.int32)
    state = grammar.fill_bitmask(bitmask, 0)
    allowed = allowed_tokens(bitmask, vocabulary().logits_width)[0]
    return state, tuple(allowed.nonzero().flatten().tolist())


def legal(grammar: Grammar) -> set[int]:
    """The ids that may come next."""
    return set(row_of(grammar)[1])
