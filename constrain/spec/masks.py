"""The masks of a draft: one for each token that is verified, and one for the token behind it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from constrain.bitmask import fill_free_row
from constrain.grammar import Grammar, RowState
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class DraftMasks:
    """What :func:`fill_draft_bitmask` has found.

    states:
        Of the rows that can be reached, ``num_legal + 1`` of them.
    num_legal:
        Tokens of the draft that the grammar takes: the rest is cut.
    """

    states: tuple[RowState, ...]
    num_legal: int


def fill_draft_bitmask(
    bitmask: torch.Tensor,  # [N, W] int32 on the CPU
    first_row: int,
    grammar: Grammar | None,
    draft: Sequence[int],  # K
    vocabulary: Vocabulary,
) -> DraftMasks:
    """Write the K + 1 masks of a draft into ``bitmask[first_row : first_row + K + 1]``.

    Row ``first_row + i`` is the mask behind i draft tokens. The draft ends at -1, and at the first id that the grammar
    refuses or that is none of the vocabulary's; the rows behind cannot be reached, and are all ones. The grammar, None
    for a request without a constraint, is left as it was, also where it raises.
    """
    if grammar is None:
        num_legal = next((i for i, each in enumerate(draft) if not 0 <= each < vocabulary.size), len(draft))
        for row in range(first_row, first_row + num_legal + 1):
            fill_free_row(bitmask, row, vocabulary)
        states = [RowState.FREE] * (num_legal + 1)
    else:
        states = _fill_constrained(bitmask, first_row, grammar, draft)
    bitmask[first_row + len(states) : first_row + len(draft) + 1] = -1
    return DraftMasks(tuple(states), len(states) - 1)


def _fill_constrained(bitmask: torch.Tensor, first_row: int, grammar: Grammar, draft: Sequence[int]) -> list[RowState]:
    num_legal = 0
    try:
        states = [grammar.fill_bitmask(bitmask, first_row)]
        for token_id in draft:
            if token_id < 0 or grammar.accept([token_id]) != 1:
                break
            num_legal += 1
            states.append(grammar.fill_bitmask(bitmask, first_row + num_legal))
        return states
    finally:
        if num_legal:
            grammar.rollback(num_legal)
