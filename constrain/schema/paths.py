"""Where all texts of a set lead an automaton at once.

The texts are a trie, level by level. For one automaton the characters that it does not tell apart are the same, so that
its trie is much smaller; all nodes of a level are followed side by side, over a table of the automaton's transitions
that grows as they need it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from constrain.schema.evaluation import Automaton, NoAutomatonError, Ranges, State
from constrain.schema.token_table import Ids

Codes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
FAILED, MATCHED, UNKNOWN, OPEN, ACCEPTS = range(5)
"""Where a text leads: to where no text matches; to where all do; nobody can say; undecided; undecided, and a match if
it ends there."""
_START = 3
_THIN = 24


class TextTrie:
    """All beginnings of ``texts``, which are sorted, and distinct, and hold no NUL. Node 0 is the empty text.

    ``levels`` has for each length the nodes' parents, as places in the level before, and the numbers of their last
    characters in ``codes``; ``ends`` the node of each text, counted through all levels.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        flat = np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32).astype(np.int64)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        offsets = np.cumsum(lengths) - lengths
        self.codes: Ids = np.unique(flat)
        self.levels: list[tuple[Ids, Ids]] = []
        self.ends: Ids = np.zeros(len(texts), dtype=np.int64)
        places, rows, first = np.zeros(len(texts), dtype=np.int64), np.flatnonzero(lengths), 1
        while len(rows):
            level = len(self.levels)
            characters, parents = flat[offsets[rows] + level], places[rows]
            is_new = np.ones(len(rows), dtype=bool)
            is_new[1:] = (parents[1:] != parents[:-1]) | (characters[1:] != characters[:-1])
            self.levels.append((parents[is_new], np.searchsorted(self.codes, characters[is_new])))
            places[rows] = np.cumsum(is_new) - 1
            ended = rows[lengths[rows] == level + 1]
            self.ends[ended] = places[ended] + first
            first += int(is_new.sum())
            rows = rows[lengths[rows] > level + 1]


@dataclass(frozen=True, slots=True)
class Reached:
    """Where one state leads: the number of each node's state, the code of each number, and the states behind them."""

    numbers: Ids
    codes: Codes
    states: list[State]


class Paths:
    """The trie as one automaton sees it, of ``num_nodes``; ``nodes`` has the number of each text's.

    ``fragments``: what characters that have begun can become.
    """

    def __init__(self, trie: TextTrie, automaton: Automaton, fragments: Sequence[Ranges]) -> None:
        classes_of = [automaton.classes_in(ranges) for ranges in fragments]
        self._classes = list(dict.fromkeys(classes_of))
        self._classes_of: Ids = np.array([self._classes.index(found) for found in classes_of], dtype=np.int64)
        self._automaton, self._width = automaton, automaton.num_classes
        classes = np.array([automaton.class_of(code) for code in trie.codes.tolist()], dtype=np.int64)
        self._levels: list[tuple[Ids, Ids]] = []  # parents in the level before, classes
        level, count, first = np.zeros(1, dtype=np.int64), 1, 0
        numbers = [level]
        for parents, codes in trie.levels:
            first += count
            keys, level = _numbered(level[parents] * self._width + classes[codes], count * self._width)
            count = len(keys)
            numbers.append(level + first)
            self._levels.append((keys // self._width, keys % self._width))
        # The last levels are long and thin: one node after the other, with its parent among them and the last before.
        thin: list[tuple[Ids, Ids]] = []
        while self._levels and len(self._levels[-1][0]) <= _THIN:
            thin.append(self._levels.pop())
        self._thin: list[tuple[int, int]] = []
        num_last, start = len(self._levels[-1][0]) if self._levels else 1, 0
        for parents, kinds in reversed(thin):
            first_one = len(self._thin)
            self._thin += zip((parents + start).tolist(), kinds.tolist(), strict=True)
            start = num_last + first_one
        self.nodes: Ids = np.concatenate(numbers)[trie.ends]
        self.num_nodes = first + count

    def follow(self, state: State) -> Reached:
        """Where each node leads from ``state``, which is undecided."""
        table = _Transitions(self._automaton, state)
        level: Ids = np.full(1, _START, dtype=np.int64)
        found = [level]
        for parents, classes in self._levels:
            level = table.follow(level[parents], classes)
            found.append(level)
        found.append(table.follow_each(level.tolist(), self._thin))
        return Reached(np.concatenate(found), table.codes(), table.states)

    def begin(self, reached: Reached, nodes: Ids, fragments: Ids) -> Codes:
        """The codes behind ``nodes`` where one more character has begun, by the numbers of ``fragments``.

        One that begins on the way to what is undecided counts as undecided itself.
        """
        keys = reached.numbers[nodes] * len(self._classes) + self._classes_of[fragments]
        distinct, places = np.unique(keys, return_inverse=True)
        codes = [self._begin(reached, *divmod(key, len(self._classes))) for key in distinct.tolist()]
        return np.array(codes, dtype=np.uint8)[places]

    def _begin(self, reached: Reached, number: int, place: int) -> int:
        if number < _START:
            return number
        state, automaton = reached.states[number - _START], self._automaton
        try:
            return (FAILED, OPEN, MATCHED)[automaton.verdict_of_classes(state, self._classes[place]) + 1]
        except NoAutomatonError:
            return UNKNOWN


def _numbered(keys: Ids, size: int) -> tuple[Ids, Ids]:
    """The distinct ones of ``keys``, which are below ``size``, ascending; and the place of each key among them."""
    if size > 8 * len(keys) + 1000:
        distinct, places = np.unique(keys, return_inverse=True)
        return distinct, places
    is_key = np.zeros(size, dtype=bool)
    is_key[keys] = True
    return np.flatnonzero(is_key), (np.cumsum(is_key) - 1)[keys]


class _Transitions:
    """The moves from one state on; states are numbered as they come, the first three as their codes."""

    def __init__(self, automaton: Automaton, start: State) -> None:
        self._automaton, self._width = automaton, automaton.num_classes
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._known: dict[int, int] = {}
        self._table: Ids = np.full(16 * self._width, -1, dtype=np.int64)
        self._table[: _START * self._width] = np.repeat([FAILED, MATCHED, UNKNOWN], self._width)
        assert not start.verdict
        self._number(start)

    def follow(self, states: Ids, classes: Ids) -> Ids:
        """The numbers of the states after one more character each."""
        keys = states * self._width + classes
        following: Ids = self._table[keys]
        unknown = keys[following < 0]
        if len(unknown):
            for key in np.unique(unknown).tolist():
                number = self._after(self.states[key // self._width - _START], key % self._width)
                self._table[key] = number
            following = self._table[keys]
        return following

    def follow_each(self, states: list[int], steps: list[tuple[int, int]]) -> Ids:
        """The numbers after one more character, each step from one of ``states`` or of the steps before."""
        reached = states.copy()
        for origin, number in steps:
            state = reached[origin]
            if state >= _START:
                key = state * self._width + number
                following = self._known.get(key)
                if following is None:
                    following = self._known[key] = self._after(self.states[state - _START], number)
                state = following
            reached.append(state)
        return np.array(reached[len(states) :], dtype=np.int64)

    def codes(self) -> Codes:
        """The code of each number."""
        codes = [ACCEPTS if state.accepts else OPEN for state in self.states]
        return np.array([FAILED, MATCHED, UNKNOWN, *codes], dtype=np.uint8)

    def _after(self, state: State, number: int) -> int:
        try:
            return self._number(self._automaton.step_class(state, number))
        except NoAutomatonError:
            return UNKNOWN

    def _number(self, state: State) -> int:
        if state.verdict:
            return MATCHED if state.verdict > 0 else FAILED
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states) + _START
            self.states.append(state)
            if (number + 1) * self._width > len(self._table):
                self._table = np.concatenate([self._table, np.full_like(self._table, -1)])
        return number
