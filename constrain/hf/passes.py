"""Which sequences go through the model together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

FEW_TOKENS = 8
"""Sequences with at most this many new tokens share a pass whatever the padding: reading the weights costs more."""


@dataclass(slots=True)
class Work:
    """What one view still needs: the tokens ``token_ids[start:]`` of its slot, the last ``num_logits`` with logits."""

    index: int  # of the view in the call
    slot: int
    token_ids: Sequence[int]
    start: int
    num_logits: int
    hidden_states: bool = False

    @property
    def length(self) -> int:
        return len(self.token_ids)

    @property
    def num_new(self) -> int:
        return len(self.token_ids) - self.start


@dataclass(frozen=True, slots=True)
class PassLimits:
    """What may share a pass.

    A pass holds at most ``max_tokens`` tokens, padding included, unless its sequences have few. Padding a sequence by
    more than ``free_padding`` tokens, or reading more than ``free_columns`` columns of keys and values that nobody
    needs, would cost more than a pass of its own.
    """

    max_tokens: int
    free_padding: int
    free_columns: float


def in_passes(work: Sequence[Work], limits: PassLimits) -> Iterator[list[Work]]:
    """Split ``work``: alike in new tokens, so that padding stays small, then alike in length."""
    left = sorted(work, key=lambda each: (-max(each.num_new, FEW_TOKENS), -each.length))
    while left:
        size = _fitting(left, limits)
        yield left[:size]
        left = left[size:]


def _fitting(work: Sequence[Work], limits: PassLimits) -> int:
    """How many of the first of ``work`` fit into one pass; at least one."""
    most_new = max(work[0].num_new, FEW_TOKENS)
    width = columns = 0
    for size, each in enumerate(work):
        width, columns = max(width, each.length), columns + each.length
        if size == 0:
            continue
        if most_new > FEW_TOKENS and (
            most_new - each.num_new > limits.free_padding or most_new * (size + 1) > limits.max_tokens
        ):
            return size
        if width * (size + 1) - columns > limits.free_columns:
            return size
    return len(work)
