"""Prompt lookup: what followed the last tokens when they stood here before."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from constrain.errors import InvalidInputError
from constrain.grammar import Grammar
from constrain.source import SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer


class NgramProposer(Proposer):
    """Proposes the tokens behind an earlier occurrence of the sequence's end.

    The longest end of ``min_n`` to ``max_n`` tokens that occurs earlier counts, at its earliest place. The earliest
    leaves the most tokens to copy. Time is linear in the length of the sequence (Saxena, "Prompt Lookup Decoding",
    2023).
    """

    def __init__(self, min_n: int = 1, max_n: int = 3) -> None:
        if not 1 <= min_n <= max_n:
            raise InvalidInputError(f"min_n={min_n}, max_n={max_n}: want 1 <= min_n <= max_n")
        self._min_n, self._max_n = min_n, max_n
        self._seen: dict[int, _Seen] = {}

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        return [self._draft(view, length) for view, length in zip(views, lengths, strict=True)]

    def release(self, slot: int) -> None:
        self._seen.pop(slot, None)

    def _draft(self, view: SequenceView, length: int) -> Draft:
        if length < 1:
            return Draft()
        tokens = self._seen.setdefault(view.slot, _Seen()).tokens(view.token_ids)
        start = _end_of_match(tokens, self._min_n, self._max_n)
        return Draft() if start is None else Draft(tuple(tokens[start : start + length].tolist()))


def _end_of_match(tokens: npt.NDArray[np.int64], min_n: int, max_n: int) -> int | None:
    """The place behind the earliest earlier occurrence of the longest end of ``tokens`` that has one; None without."""
    if len(tokens) <= min_n:
        return None
    found: npt.NDArray[np.intp] | None = None
    ends = np.flatnonzero(tokens[:-1] == tokens[-1])  # where matches of length 1 end
    for n in range(1, max_n + 1):
        if not len(ends):
            break
        if n >= min_n:
            found = ends
        ends = ends[ends >= n]
        ends = ends[tokens[ends - n] == tokens[-1 - n]] if n < len(tokens) else ends[:0]
    return None if found is None else int(found[0]) + 1


class _Seen:
    """The tokens of a slot as an array: making one of a list anew each step would be the dear part."""

    def __init__(self) -> None:
        self._list: list[int] = []
        self._array: npt.NDArray[np.int64] = np.empty(256, dtype=np.int64)

    def tokens(self, token_ids: Sequence[int]) -> npt.NDArray[np.int64]:
        known = len(self._list)
        if known > len(token_ids) or self._list != list(token_ids[:known]):
            known = 0
        new = list(token_ids[known:])
        self._list[known:] = new
        if len(self._list) > len(self._array):
            grown = np.empty(2 * len(self._list), dtype=np.int64)
            grown[:known] = self._array[:known]
            self._array = grown
        self._array[known : len(self._list)] = new
        return self._array[: len(self._list)]
