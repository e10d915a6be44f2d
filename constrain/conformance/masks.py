"""One step through a grammar, with mask, ``validate`` and ``accept`` held against each other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from constrain.grammar import Grammar, RowState
from constrain.vocabulary import Vocabulary


class MaskRow:
    """The mask of the next token, as numbers that can be read."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._bitmask = torch.zeros((1, vocabulary.num_mask_words), dtype=torch.int32)
        self._bytes: np.ndarray[Any, np.dtype[np.uint8]] = self._bitmask.numpy().view(np.uint8)[0]

    def fill(self, grammar: Grammar) -> RowState:
        """Ask ``grammar`` for its mask; any bit left from the last one is gone."""
        return grammar.fill_bitmask(self._bitmask, 0)

    def allows(self, token_id: int) -> bool:
        return bool(self._bytes[token_id >> 3] >> (token_id & 7) & 1)

    def allowed_ids(self) -> "np.ndarray[Any, np.dtype[np.int64]]":
        return np.flatnonzero(np.unpackbits(self._bytes, bitorder="little"))

    def contradiction(self, state: RowState) -> str:
        """What ``state`` says wrongly about the row; "" if nothing."""
        empty = not self._bytes.any()
        if empty != (state is RowState.DEAD_END):
            return f"the row is {'empty' if empty else 'not empty'}, but its state is {state.name}"
        return ""


@dataclass(frozen=True, slots=True)
class Step:
    """Whether one token was taken; ``disagreement`` says what contradicted what."""

    accepted: bool
    disagreement: str = ""


def take_step(grammar: Grammar, row: MaskRow, token_id: int) -> Step:
    """Accept ``token_id``, whose mask ``row`` holds, and compare what everybody says about it."""
    allowed, before = row.allows(token_id), grammar.num_accepted
    valid = grammar.validate([token_id])
    accepted = grammar.accept([token_id])
    moved = grammar.num_accepted - before
    if not int(allowed) == valid == accepted == moved:
        said = f"mask {int(allowed)}, validate {valid}, accept {accepted}, num_accepted moved by {moved}"
        return Step(bool(accepted), f"token {token_id} after {before} tokens: {said}")
    return Step(allowed)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a text can be generated and ended; ``at`` is the byte of the first token that cannot be."""

    accepted: bool
    at: int | None = None
    disagreement: str = ""


def judge_text(grammar: Grammar, row: MaskRow, vocabulary: Vocabulary, text: str) -> Judgement:
    """Walk the canonical tokens of ``text`` and then the stop token through the masks of a fresh ``grammar``."""
    num_bytes = 0
    for token_id in (*vocabulary.encode(text), vocabulary.stop_token_ids[0]):
        contradiction = row.contradiction(row.fill(grammar))
        step = take_step(grammar, row, token_id)
        if contradiction or step.disagreement:
            return Judgement(step.accepted, num_bytes, contradiction or step.disagreement)
        if not step.accepted:
            return Judgement(False, num_bytes)
        num_bytes += len(vocabulary.token_bytes[token_id])
    if not grammar.is_terminated:
        return Judgement(True, num_bytes, "the stop token was accepted, but the grammar is not terminated")
    return Judgement(True)
