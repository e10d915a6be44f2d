"""Prompt lookup: what followed the last tokens when they stood here before."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from constrain.errors import InvalidInputError
from constrain.grammar import Grammar
from constrain.source import SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer

_MAX_PLACES = 64
"""Places of one length at which a token that the grammar takes is looked for."""


class NgramProposer(Proposer):
    """Proposes the tokens behind an earlier occurrence of the sequence's end.

    The longest end of ``min_n`` to ``max_n`` tokens that occurs earlier counts, at its earliest place. The earliest
    leaves the most tokens to copy. Under a grammar, places whose next token it refuses are passed over: a key is
    followed by a comma in a prompt that lists the keys, and by a colon in the object. Time is linear in the length of
    the sequence (Saxena, "Prompt Lookup Decoding", 2023).
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
        return [
            self._draft(view, grammar, length) for view, grammar, length in zip(views, grammars, lengths, strict=True)
        ]

    def release(self, slot: int) -> None:
        self._seen.pop(slot, None)

    def _draft(self, view: SequenceView, grammar: Grammar | None, length: int) -> Draft:
        if length < 1:
            return Draft()
        tokens = self._seen.setdefault(view.slot, _Seen()).tokens(view.token_ids)
        refused: set[int] = set()
        for ends in _matches(tokens, self._min_n, self._max_n):
            for end in ends[:_MAX_PLACES].tolist():
                draft = tokens[end + 1 : end + 1 + length].tolist()
                if grammar is None or (draft[0] not in refused and grammar.validate(draft[:1])):
                    return Draft(tuple(draft))
                refused.add(draft[0])
        return Draft()


def _matches(tokens: npt.NDArray[np.int64], min_n: int, max_n: int) -> list[npt.NDArray[np.intp]]:
    """Where earlier occurrences of the end of ``tokens`` end, in order, for each length; the longest length first."""
    if len(tokens) <= min_n:
        return []
    found: list[npt.NDArray[np.intp]] = []
    ends = np.flatnonzero(tokens[:-1] == tokens[-1])  # where matches of length 1 end
    for n in range(1, max_n + 1):
        if not len(ends):
            break
        if n >= min_n:
            found.append(ends)
        ends = ends[ends >= n]
        ends = ends[tokens[ends - n] == tokens[-1 - n]] if n < len(tokens) else ends[:0]
    return found[::-1]


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
