"""A regular expression searched for in a text that is still being written, one character after the other.

The subset construction over a position automaton, done as far as texts lead (Rabin and Scott 1959; Thompson 1968).
"""

import re
from bisect import bisect_right
from functools import lru_cache
from threading import Lock
from typing import Any

from constrain.regex import Ranges, matched_ranges
from constrain.schema.ecma import translate_pattern
from constrain.schema.matching import searches

_parser: Any = re._parser  # type: ignore[attr-defined]
_MAX_POSITIONS = 5_000
_MAX_STATES = 5_000


class State:
    """What the text so far says. ``verdict``: 1 it matches whatever follows, -1 it never will, 0 that depends.

    ``accepts``: it matches if it ends here.
    """

    __slots__ = ("accepts", "positions", "row", "verdict")

    def __init__(self, positions: frozenset[int], verdict: int, accepts: bool, num_classes: int) -> None:
        self.positions, self.verdict, self.accepts = positions, verdict, accepts
        self.row: list[State | None] = [None] * num_classes


class Pattern:
    """One pattern of a schema (ECMA-262, flag u), searched for. Safe to share between threads.

    ``start`` is None where no automaton does what it says (a look-around, a back-reference) or a large one only: such a
    pattern is decided for finished texts alone.
    """

    def __init__(self, source: str) -> None:
        self._python = translate_pattern(source)
        self._lock = Lock()
        self._states: dict[tuple[frozenset[int], bool], State] = {}
        self.start: State | None = None
        try:
            self._network = _Network(_parser.parse(self._python))
        except _NoAutomatonError:
            return
        self._divide_characters()
        self.start = self._state(self._network.closure([self._network.first], at_start=True), at_start=True)

    def matches(self, text: str) -> bool:
        """Whether it matches somewhere in ``text``. Raises ``MatchTimeoutError`` where no automaton decides."""
        if self.start is None:
            return searches(self._python, text)
        state = self.advance(self.start, text)
        return state.verdict > 0 or (state.verdict == 0 and state.accepts)

    def advance(self, state: State, text: str) -> State:
        """The state after ``text``, or where it is decided within ``text``."""
        ascii_class = self._ascii_class
        for character in text:
            if state.verdict:
                return state
            code = ord(character)
            number = ascii_class[code] if code < 128 else self._class_of(code)
            state = state.row[number] or self._expand(state, number)
        return state

    def may_go_on(self, state: State, ranges: Ranges) -> bool:
        """Whether some character in ``ranges`` leads on to a match."""
        if state.verdict:
            return state.verdict > 0
        for low, high in ranges:
            spans = range(bisect_right(self._edges, low) - 1, bisect_right(self._edges, high))
            for number in {self._span_class[span] for span in spans}:
                if (state.row[number] or self._expand(state, number)).verdict >= 0:
                    return True
        return False

    def _divide_characters(self) -> None:
        """Number the classes of characters that no set of the pattern tells apart."""
        sets = {ranges: 1 << index for index, ranges in enumerate(dict.fromkeys(self._network.sets))}
        changes: dict[int, int] = {0: 0}
        for ranges, bit in sets.items():
            for low, high in ranges:
                changes[low] = changes.get(low, 0) ^ bit
                changes[high + 1] = changes.get(high + 1, 0) ^ bit
        self._edges = sorted(changes)
        inside = 0
        numbers: dict[int, int] = {}
        self._span_class = []
        for edge in self._edges:
            inside ^= changes[edge]
            self._span_class.append(numbers.setdefault(inside, len(numbers)))
        self._class_bits = list(numbers)
        self._set_bits = sets
        self._ascii_class = [self._class_of(code) for code in range(128)]

    def _class_of(self, code: int) -> int:
        return self._span_class[bisect_right(self._edges, code) - 1]

    def _expand(self, state: State, number: int) -> State:
        bits = self._class_bits[number]
        moves = self._network.moves
        reached = [moves[at][1] for at in state.positions if self._set_bits[moves[at][0]] & bits]
        following = state.row[number] = self._state(self._network.closure(reached, at_start=False), at_start=False)
        return following

    def _state(self, closure: set[int], at_start: bool) -> State:
        network = self._network
        positions = frozenset(at for at in closure if at in network.moves and at in network.alive)
        matched = network.last in closure
        accepts = matched or network.reaches_end(closure, at_start)
        key = positions, accepts
        known = self._states.get(key)
        if known is None or matched:
            verdict = 1 if matched else 0 if positions or accepts else -1
            known = State(positions, verdict, accepts, len(self._class_bits))
            if not matched:
                with self._lock:
                    if len(self._states) < _MAX_STATES:
                        known = self._states.setdefault(key, known)
        return known


@lru_cache(maxsize=4096)
def pattern_of(source: str) -> Pattern:
    """The automaton of a pattern; raises as ``translate_pattern`` does."""
    return Pattern(source)


class _NoAutomatonError(Exception):
    """What the pattern says is beyond this automaton."""


_ALWAYS, _AT_START, _AT_END = range(3)
_ANCHORS = {
    "AT_BEGINNING": _AT_START,
    "AT_BEGINNING_STRING": _AT_START,
    "AT_END_STRING": _AT_END,
}
_EVERYTHING: Ranges = ((0, 0x10FFFF),)


class _Network:
    """Positions, from ``first`` to ``last``, with moves over a character and steps without one.

    ``alive`` holds the positions from which, at another place than the start, ``last`` can be reached.
    """

    def __init__(self, parsed: Any) -> None:
        self.moves: dict[int, tuple[Ranges, int]] = {}
        self._steps: list[list[tuple[int, int]]] = []
        self.first = self._position()
        anywhere = self._position()
        self.moves[anywhere] = _EVERYTHING, self.first
        begin = self._position()
        self._steps[self.first] += [(_ALWAYS, begin), (_ALWAYS, anywhere)]
        self.last = self._sequence(parsed, begin)
        self.sets = [ranges for ranges, _ in self.moves.values()]
        self._ending = self._backwards({self.last}, {_ALWAYS, _AT_END}, over_characters=False)
        self.alive = self._backwards(self._ending, {_ALWAYS}, over_characters=True)

    def closure(self, positions: list[int], *, at_start: bool) -> set[int]:
        """The positions that are reached without a character, when more may come."""
        return self._closure(positions, {_ALWAYS, _AT_START} if at_start else {_ALWAYS})

    def reaches_end(self, closure: set[int], at_start: bool) -> bool:
        """Whether the text matches if it ends where these positions are."""
        if not at_start:
            return not closure.isdisjoint(self._ending)
        return self.last in self._closure(list(closure), {_ALWAYS, _AT_START, _AT_END})

    def _closure(self, positions: list[int], kinds: set[int]) -> set[int]:
        found, todo = set(positions), list(positions)
        while todo:
            for kind, target in self._steps[todo.pop()]:
                if kind in kinds and target not in found:
                    found.add(target)
                    todo.append(target)
        return found

    def _backwards(self, targets: set[int], kinds: set[int], *, over_characters: bool) -> set[int]:
        before: dict[int, list[int]] = {}
        for position, steps in enumerate(self._steps):
            for kind, target in steps:
                if kind in kinds:
                    before.setdefault(target, []).append(position)
        if over_characters:
            for position, (ranges, target) in self.moves.items():
                if ranges:
                    before.setdefault(target, []).append(position)
        found, todo = set(targets), list(targets)
        while todo:
            for position in before.get(todo.pop(), ()):
                if position not in found:
                    found.add(position)
                    todo.append(position)
        return found

    def _position(self) -> int:
        if len(self._steps) >= _MAX_POSITIONS:
            raise _NoAutomatonError
        self._steps.append([])
        return len(self._steps) - 1

    def _sequence(self, items: Any, at: int) -> int:
        for op, argument in items:
            at = self._item(str(op), argument, at)
        return at

    def _item(self, op: str, argument: Any, at: int) -> int:
        end = self._position()
        match op:
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                self.moves[at] = matched_ranges(op, argument, re.UNICODE), end
                begun = self._position()
                self._steps[end].append((_ALWAYS, begun))
                return begun
            case "AT" if str(argument) in _ANCHORS:
                self._steps[at].append((_ANCHORS[str(argument)], end))
            case "BRANCH":
                for option in argument[1]:
                    begin = self._step_from(at)
                    self._steps[self._sequence(option, begin)].append((_ALWAYS, end))
            case "SUBPATTERN":
                self._steps[self._sequence(argument[3], self._step_from(at))].append((_ALWAYS, end))
            case "MAX_REPEAT" | "MIN_REPEAT":
                self._steps[self._repeat(argument, at)].append((_ALWAYS, end))
            case "FAILURE":
                pass
            case "ASSERT_NOT" if not argument[1]:  # (?!), as Python up to 3.12 parses it
                pass
            case _:
                raise _NoAutomatonError
        return self._step_from(end)

    def _repeat(self, argument: Any, at: int) -> int:
        minimum, maximum, body = argument
        for _ in range(minimum):
            at = self._sequence(body, self._step_from(at))
        end = self._position()
        if maximum is _parser.MAXREPEAT:
            begin = self._step_from(at)
            self._steps[begin].append((_ALWAYS, end))
            self._steps[self._sequence(body, self._step_from(begin))].append((_ALWAYS, begin))
            return end
        for _ in range(minimum, maximum):
            self._steps[at].append((_ALWAYS, end))
            at = self._sequence(body, self._step_from(at))
        self._steps[at].append((_ALWAYS, end))
        return end

    def _step_from(self, at: int) -> int:
        position = self._position()
        self._steps[at].append((_ALWAYS, position))
        return position
