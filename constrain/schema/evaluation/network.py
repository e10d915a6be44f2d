"""A regular expression as positions, with moves over a character and steps without one (Thompson 1968).

A look-ahead is a step that leaves an obligation behind: the rest of the text is to begin with a match of its own
network, or not to. A thread is a position with the obligations of the way there. A look-behind over one character is
a step that the character before it allows.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from constrain.regex import Ranges, matched_ranges

_parser: Any = re._parser  # type: ignore[attr-defined]
_MAX_POSITIONS = 20_000
_MAX_THREADS = 20_000

_ALWAYS, _AT_START, _AT_END, _FIRST_LOOK = range(4)  # kinds of steps; look-behinds are -1, -2, ...
_ANCHORS = {"AT_BEGINNING": _AT_START, "AT_BEGINNING_STRING": _AT_START, "AT_END_STRING": _AT_END}
_EVERYTHING: Ranges = ((0, 0x10FFFF),)


class LookState(Protocol):
    """How far a look-ahead has come, as ``State``."""

    verdict: int
    accepts: bool


class Look(Protocol):
    """What stands behind a look-ahead, as ``PatternAutomaton``."""

    start: Any
    network: "Network"

    def restart(self, previous: int) -> Any:
        """The state before any character where ``previous`` stands before it."""

    def step(self, state: Any, code: int) -> Any:
        """The state after one more character."""


Obligation = tuple[int, LookState]
"""The number of a look-ahead and how far it has come."""
Thread = tuple[int, frozenset[Obligation]]


class NoAutomatonError(Exception):
    """What the pattern says is beyond automata, or only of a large one."""


@dataclass(frozen=True, slots=True)
class _Behind:
    """A look-behind over one character, or the start of the text."""

    ranges: Ranges
    at_start: bool
    wanted: bool

    def allows(self, previous: int | None) -> bool:
        if previous is None:
            return self.at_start is self.wanted
        return any(low <= previous <= high for low, high in self.ranges) is self.wanted


def _one_character(items: Any) -> tuple[Ranges, bool]:
    """(the characters, whether the start of the text will do, too) of what stands in a look-behind."""
    if len(items) != 1:
        raise NoAutomatonError
    op, argument = str(items[0][0]), items[0][1]
    match op:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            return matched_ranges(op, argument, re.UNICODE), False
        case "AT" if _ANCHORS.get(str(argument)) == _AT_START:
            return (), True
        case "SUBPATTERN":
            return _one_character(argument[3])
        case "BRANCH":
            options = [_one_character(option) for option in argument[1]]
            return tuple(span for ranges, _ in options for span in ranges), any(start for _, start in options)
        case _:
            raise NoAutomatonError


class Network:
    """Positions from ``first`` to ``last``. ``alive`` holds those from which, behind the start, ``last`` is in reach.

    ``searches``: a match may begin anywhere, not at the first character only. ``look`` makes the automaton behind a
    look-ahead. Raises ``NoAutomatonError``.
    """

    def __init__(self, parsed: Any, look: "type[Any]", *, searches: bool) -> None:
        self._look = look
        self.moves: dict[int, tuple[Ranges, int]] = {}
        self.looks: list[tuple[Look, bool]] = []
        self.behinds: list[_Behind] = []
        self._steps: list[list[tuple[int, int]]] = []
        self.first = self._position()
        begin = self._step_from(self.first)
        if searches:
            anywhere = self._step_from(self.first)
            self.moves[anywhere] = _EVERYTHING, self.first
        self.last = self._sequence(parsed, begin)
        if self.looks:
            self.moves[self.last] = _EVERYTHING, self.last  # where it waits for what it owes
        self.sets = [ranges for ranges, _ in self.moves.values()]
        self.sets += [behind.ranges for behind in self.behinds]
        for item, _ in self.looks:
            self.sets += item.network.sets
        ending = self._backwards({self.last}, {_ALWAYS, _AT_END}, over_characters=False)
        self.alive = self._backwards(ending, {_ALWAYS}, over_characters=True)

    def closure(self, threads: Iterable[Thread], *, previous: int | None) -> set[Thread]:
        """What is reached without a character behind ``previous`` (None at the start), when more may come."""
        return self._closure(threads, (_ALWAYS, _AT_START) if previous is None else (_ALWAYS,), previous=previous)

    def accepts(self, threads: Collection[Thread], *, previous: int | None) -> bool:
        """Whether the text matches if it ends where these threads are."""
        kinds = (_ALWAYS, _AT_START, _AT_END) if previous is None else (_ALWAYS, _AT_END)
        for position, owed in self._closure(threads, kinds, previous=previous):
            if position == self.last and all(self._is_paid_at_end(obligation) for obligation in owed):
                return True
        return False

    def advance(self, thread: Thread, code: int) -> Thread | None:
        """The thread after a character that its position moves over; None if it breaks an obligation."""
        position, owed = thread
        kept: set[Obligation] = set()
        for number, state in owed:
            if not self._owe(kept, number, self.looks[number][0].step(state, code)):
                return None
        return self.moves[position][1], frozenset(kept) if owed else owed

    def _is_paid_at_end(self, obligation: Obligation) -> bool:
        number, state = obligation
        return (state.verdict > 0 or (state.verdict == 0 and state.accepts)) is self.looks[number][1]

    def _owe(self, owed: set[Obligation], number: int, state: LookState) -> bool:
        """Add what is still open to ``owed``; False if it is broken."""
        if state.verdict == 0:
            owed.add((number, state))
            return True
        return (state.verdict > 0) is self.looks[number][1]

    def _closure(self, threads: Iterable[Thread], kinds: tuple[int, ...], *, previous: int | None) -> set[Thread]:
        found = set(threads)
        todo = list(found)
        while todo:
            position, owed = todo.pop()
            for kind, target in self._steps[position]:
                reached: Thread = target, owed
                if kind >= _FIRST_LOOK:
                    number = kind - _FIRST_LOOK
                    look = self.looks[number][0]
                    more = set(owed)
                    if not self._owe(more, number, look.start if previous is None else look.restart(previous)):
                        continue
                    reached = target, frozenset(more)
                elif kind < 0:
                    if not self.behinds[-1 - kind].allows(previous):
                        continue
                elif kind not in kinds:
                    continue
                if reached not in found:
                    found.add(reached)
                    todo.append(reached)
            if len(found) > _MAX_THREADS:
                raise NoAutomatonError
        return found

    def _backwards(self, targets: set[int], kinds: set[int], *, over_characters: bool) -> set[int]:
        before: dict[int, list[int]] = {}
        for position, steps in enumerate(self._steps):
            for kind, target in steps:
                if kind in kinds or kind >= _FIRST_LOOK or kind < 0:
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

    # From the tree of the standard library's parser.

    def _position(self) -> int:
        if len(self._steps) >= _MAX_POSITIONS:
            raise NoAutomatonError
        self._steps.append([])
        return len(self._steps) - 1

    def _step_from(self, at: int, kind: int = _ALWAYS) -> int:
        position = self._position()
        self._steps[at].append((kind, position))
        return position

    def _join(self, at: int, end: int) -> None:
        self._steps[at].append((_ALWAYS, end))

    def _sequence(self, items: Any, at: int) -> int:
        for op, argument in items:
            at = self._item(str(op), argument, at)
        return at

    def _item(self, op: str, argument: Any, at: int) -> int:
        match op:
            case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
                end = self._position()
                self.moves[at] = matched_ranges(op, argument, re.UNICODE), end
                return self._step_from(end)
            case "AT" if str(argument) in _ANCHORS:
                return self._step_from(at, _ANCHORS[str(argument)])
            case "BRANCH":
                end = self._position()
                for option in argument[1]:
                    self._join(self._sequence(option, self._step_from(at)), end)
                return end
            case "SUBPATTERN":
                return self._sequence(argument[3], self._step_from(at))
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._step_from(self._repeat(argument, at))
            case "ASSERT" | "ASSERT_NOT" if argument[0] > 0:
                look = self._look(Network(argument[1], self._look, searches=False))
                self.looks.append((look, op == "ASSERT"))
                return self._step_from(at, _FIRST_LOOK + len(self.looks) - 1)
            case "ASSERT" | "ASSERT_NOT":
                ranges, at_start = _one_character(argument[1])
                self.behinds.append(_Behind(ranges, at_start, op == "ASSERT"))
                return self._step_from(at, -len(self.behinds))
            case "FAILURE":
                return self._position()
            case _:
                raise NoAutomatonError

    def _repeat(self, argument: Any, at: int) -> int:
        minimum, maximum, body = argument
        for _ in range(minimum):
            at = self._sequence(body, self._step_from(at))
        end = self._position()
        if maximum is _parser.MAXREPEAT:
            begin = self._step_from(at)
            self._join(begin, end)
            self._join(self._sequence(body, self._step_from(begin)), begin)
            return end
        for _ in range(minimum, maximum):
            self._join(at, end)
            at = self._sequence(body, self._step_from(at))
        self._join(at, end)
        return end
