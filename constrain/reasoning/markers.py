"""Markers as symbols, a byte or a special token each, and the search for several of them at once."""

import re
from collections import deque
from collections.abc import Sequence
from itertools import groupby

from constrain.vocabulary import Vocabulary

SPECIAL = 256
"""Symbol ``SPECIAL + i`` is the special token ``i``; below are the bytes."""

Symbols = tuple[int, ...]


def symbols_of_text(text: str, vocabulary: Vocabulary) -> Symbols:
    """``text`` with the names of special tokens read as those tokens, longer names first."""
    names = sorted((name for name in vocabulary.special_tokens if name and name in text), key=len, reverse=True)
    if not names:
        return tuple(text.encode())
    found: list[int] = []
    for part in re.split(f"({'|'.join(map(re.escape, names))})", text):
        found += [SPECIAL + vocabulary.special_tokens[part]] if part in names else part.encode()
    return tuple(found)


def symbols_of_token(token_id: int, vocabulary: Vocabulary) -> Symbols:
    """What ``token_id`` writes; a token without bytes is one symbol of its own, an id past the vocabulary none."""
    if not 0 <= token_id < vocabulary.size:
        return ()
    return tuple(vocabulary.token_bytes[token_id]) or (SPECIAL + token_id,)


def canonical_tokens(symbols: Symbols, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The tokens that the tokenizer itself writes ``symbols`` with.

    Raises ``VocabularyError`` for bytes that no token writes, and ``UnicodeDecodeError`` for half a character.
    """
    found: list[int] = []
    for is_special, run in groupby(symbols, lambda symbol: symbol >= SPECIAL):
        if is_special:
            found += [symbol - SPECIAL for symbol in run]
        else:
            found += vocabulary.encode(bytes(run).decode())
    return tuple(found)


def num_bytes(symbols: Symbols) -> int:
    """How many of ``symbols`` are bytes."""
    return sum(symbol < SPECIAL for symbol in symbols)


class MarkerMatcher:
    """Finds the first end of any of several markers: the automaton of Aho and Corasick (CACM 18(6), 1975).

    A *place* is a state: how much of which marker has just been written. Place 0 is the start; places are immutable
    numbers, so that going back is to remember one.
    """

    def __init__(self, markers: Sequence[Symbols]) -> None:
        assert all(markers), "an empty marker is found everywhere"
        self.markers = tuple(markers)
        self._next: list[dict[int, int]] = [{}]
        self._fall: list[int] = [0]
        self.found: list[int | None] = [None]
        """For each place, the marker that ends there."""
        self.held: list[int] = [0]
        """For each place, how many of the last bytes may yet turn out to belong to a marker."""
        for number, marker in enumerate(self.markers):
            self._add(marker, number)
        self._link()

    def step(self, place: int, symbol: int) -> int:
        """The place behind ``symbol``."""
        while (target := self._next[place].get(symbol)) is None:
            if not place:
                return 0
            place = self._fall[place]
        return target

    def walk(self, place: int, symbols: Symbols) -> tuple[int, int]:
        """The place behind the first symbols of which one ends a marker, and how many those are; else behind all."""
        root = self._next[0]
        for count, symbol in enumerate(symbols, 1):
            if not place and symbol not in root:  # nearly always
                continue
            place = self.step(place, symbol)
            if self.found[place] is not None:
                return place, count
        return place, len(symbols)

    @property
    def num_places(self) -> int:
        """Places are 0 to this, without it."""
        return len(self._next)

    def _add(self, marker: Symbols, number: int) -> None:
        place = 0
        for symbol in marker:
            target = self._next[place].get(symbol)
            if target is None:
                target = self._next[place][symbol] = len(self._next)
                self._next.append({})
                self._fall.append(0)
                self.found.append(None)
                self.held.append(self.held[place] + (symbol < SPECIAL))
            place = target
        if self.found[place] is None:
            self.found[place] = number

    def _link(self) -> None:
        """Where to go on when a place has no way on: the longest other beginning that has just been written."""
        todo = deque(self._next[0].values())
        while todo:
            place = todo.popleft()
            for symbol, target in self._next[place].items():
                todo.append(target)
                fall = self._fall[target] = self.step(self._fall[place], symbol)
                if self.found[target] is None:
                    self.found[target] = self.found[fall]
