"""What is remembered of tokens that were tried."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from constrain.schema.token_table import Words

Flags: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]
Tokens = TypeVar("Tokens", bound=np.ndarray[Any, Any])
"""Rows of a bitmask, or flags of some tokens."""

_MAX_KEYS = 64


class Known(Generic[Tokens]):
    """For each key the tokens that were tried, and those of them that are refused. Safe to share between threads."""

    def __init__(self) -> None:
        self._rows: dict[Hashable, tuple[Tokens, Tokens, list[bool]]] = {}
        self._lock = Lock()  # NumPy lets others in while it writes

    def refused(
        self, key: Hashable, legal: Tokens, among: Tokens, find: Callable[[Tokens], Tokens | None]
    ) -> Tokens | None:
        """Which of ``legal`` and ``among`` are refused, and maybe more; ``among`` is the same each time for ``key``.

        ``find`` is asked of those that are new.
        """
        rows = self._rows.get(key)
        if rows is None:
            rows = among.copy(), np.zeros_like(legal), []
            with self._lock:
                if len(self._rows) >= _MAX_KEYS:
                    del self._rows[next(iter(self._rows))]
                rows = self._rows.setdefault(key, rows)
        untried, refused, has_refusals = rows
        fresh = legal & untried
        if np.count_nonzero(fresh):
            found = find(fresh)
            with self._lock:
                if found is not None:
                    refused |= found
                    has_refusals.append(True)
                untried &= ~fresh
        return refused if has_refusals else None


@dataclass(frozen=True, slots=True)
class Settled:
    """From ``num_text`` tokens on nothing before the quote means anything: as long as the string is open, ``allowed``
    is what is left of the row whose bytes are ``legal``, None for all of it."""

    num_text: int
    partial: bytes
    legal: bytes
    allowed: Words | None


@dataclass(slots=True)
class TriedEnds:
    """Of the tokens with a quote, E of them, those that were not tried, and those that were and are refused."""

    untried: Flags
    refused: Flags


class OpenString:
    """What is known of the tokens that end one string, or name, which began at ``start``.

    ``num_text`` is how many tokens were accepted when this was begun: it holds until fewer are left or the string ends.
    ``by_content`` holds for all of its contents.
    """

    def __init__(self, start: int, num_text: int) -> None:
        self.start, self._num_text, self._num_ends = start, num_text, num_text
        self.by_content: Known[Flags] = Known()
        self.settled: Settled | None = None
        self._ends: dict[bytes, TriedEnds] = {}

    def ends(self, num_text: int, partial: bytes, num_ends: int) -> TriedEnds:
        """What is known where all contents that go on from here, after ``num_text`` tokens, mean the same."""
        if not self._ends:
            self._num_ends = num_text
        found = self._ends.get(partial)
        if found is None:
            found = self._ends[partial] = TriedEnds(np.ones(num_ends, dtype=bool), np.zeros(num_ends, dtype=bool))
        return found

    def kept(self, num_text: int) -> "OpenString | None":
        """What holds after all but the first ``num_text`` tokens are taken back."""
        if num_text < self._num_text:
            return None
        if num_text < self._num_ends:
            self._ends = {}
        if self.settled is not None and num_text < self.settled.num_text:
            self.settled = None
        return self
