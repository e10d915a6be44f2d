"""A regular expression searched for in a text that is still being written, one character after the other.

The subset construction (Rabin and Scott 1959) over the threads of a network, done only as far as texts lead.
"""

import re
from bisect import bisect_right
from collections import deque
from functools import lru_cache
from threading import Lock
from typing import Any

from constrain.regex import Ranges
from constrain.schema.ecma import translate_pattern
from constrain.schema.evaluation.automaton import Automaton, State
from constrain.schema.evaluation.network import Network, NoAutomatonError, Thread
from constrain.schema.matching import searches

_parser: Any = re._parser  # type: ignore[attr-defined]
_MAX_STATES = 5_000
_MAX_HOPELESS = 200


class PatternState(State):
    """With the threads of the network that are still alive."""

    __slots__ = ("threads",)

    def __init__(self, threads: frozenset[Thread], verdict: int, accepts: bool, num_classes: int) -> None:
        super().__init__(verdict, accepts, num_classes)
        self.threads = threads


class PatternAutomaton(Automaton):
    """The subset construction over one network, with ``_MAX_STATES`` states at most."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._lock = Lock()
        self._states: dict[tuple[frozenset[Thread], bool], PatternState] = {}
        self._hopeful: set[State] = set()
        self._divide_characters()
        self._begins: dict[int | None, PatternState] = {}  # by the class of the character before; None: none is there
        self.start = self._begins[None] = self._begun(None)

    def advance(self, state: State, text: str) -> State:
        ascii_class = self._ascii_class
        for character in text:
            if state.verdict:
                return state
            code = ord(character)
            number = ascii_class[code] if code < 128 else self._class_of(code)
            state = state.row[number] or self._expand(state, number)
        return state

    def restart(self, previous: int) -> State:
        """The state of a match that begins behind the character ``previous``, by its code point."""
        number = self.class_of(previous)
        state = self._begins.get(number)
        if state is None:
            state = self._begins.setdefault(number, self._begun(previous))
        return state

    def _begun(self, previous: int | None) -> PatternState:
        begin: list[Thread] = [(self.network.first, frozenset())]
        state = self._state(self.network.closure(begin, previous=previous), previous=previous)
        if not state.verdict:
            self._refuse_hopeless(state)
        return state

    @property
    def num_classes(self) -> int:
        return len(self._class_bits)

    def class_of(self, code: int) -> int:
        return self._ascii_class[code] if code < 128 else self._class_of(code)

    def step_class(self, state: State, number: int) -> State:
        return state if state.verdict else state.row[number] or self._expand(state, number)

    def classes_in(self, ranges: Ranges) -> frozenset[int]:
        spans = (range(bisect_right(self._edges, low) - 1, bisect_right(self._edges, high)) for low, high in ranges)
        return frozenset(self._span_class[span] for found in spans for span in found)

    def _divide_characters(self) -> None:
        """Number the classes of characters that no set of the pattern tells apart."""
        self._set_bits = {ranges: 1 << index for index, ranges in enumerate(dict.fromkeys(self.network.sets))}
        changes: dict[int, int] = {0: 0}
        for ranges, bit in self._set_bits.items():
            for low, high in ranges:
                changes[low] = changes.get(low, 0) ^ bit
                changes[high + 1] = changes.get(high + 1, 0) ^ bit
        self._edges = sorted(changes)
        inside = 0
        numbers: dict[int, int] = {}
        self._class_codes: list[int] = []
        self._span_class: list[int] = []
        for edge in self._edges:
            inside ^= changes[edge]
            if inside not in numbers:
                numbers[inside] = len(numbers)
                self._class_codes.append(edge)
            self._span_class.append(numbers[inside])
        self._class_bits = list(numbers)
        self._ascii_class = [self._class_of(code) for code in range(128)]

    def _class_of(self, code: int) -> int:
        return self._span_class[bisect_right(self._edges, code) - 1]

    def _expand(self, state: State, number: int) -> State:
        """The state after a character of the class ``number``, kept in the row."""
        following = self._following(state, number)
        if not following.verdict:
            self._refuse_hopeless(following)
        state.row[number] = following
        return following

    def _following(self, state: State, number: int) -> State:
        assert isinstance(state, PatternState)
        network, bits, code = self.network, self._class_bits[number], self._class_codes[number]
        moving = [thread for thread in state.threads if self._set_bits[network.moves[thread[0]][0]] & bits]
        reached = [moved for thread in moving if (moved := network.advance(thread, code)) is not None]
        return self._state(network.closure(reached, previous=code), previous=code)

    def _refuse_hopeless(self, start: State) -> None:
        """Look-arounds may contradict each other: follow all texts, a little, and see whether one can match."""
        if not (self.network.looks or self.network.behinds):
            return
        found: dict[State, State | None] = {start: None}  # with the one before
        todo: deque[State] = deque(found)
        while todo:
            state = todo.popleft()
            if self._is_hopeful(state) or len(found) > _MAX_HOPELESS:
                self._keep_hopeful(start if len(found) > _MAX_HOPELESS else state, found)
                return
            for number in range(len(self._class_bits)):
                following = state.row[number] or self._following(state, number)
                if following.verdict >= 0 and following not in found:
                    found[following] = state
                    if self._is_hopeful(following):
                        self._keep_hopeful(following, found)
                        return
                    todo.append(following)
        for state in found:
            state.verdict = -1

    def _is_hopeful(self, state: State) -> bool:
        return state.accepts or state.verdict > 0 or state in self._hopeful

    def _keep_hopeful(self, state: State | None, found: dict[State, State | None]) -> None:
        """``state`` can match, and so can all on the way to it."""
        while state is not None and len(self._hopeful) < _MAX_STATES:
            self._hopeful.add(state)
            state = found[state]

    def _state(self, closure: set[Thread], *, previous: int | None) -> PatternState:
        network = self.network
        matched = (network.last, frozenset()) in closure
        threads = frozenset(item for item in closure if item[0] in network.moves and item[0] in network.alive)
        accepts = matched or network.accepts(closure, previous=previous)
        key = threads, accepts
        known = None if matched else self._states.get(key)
        if known is None:
            verdict = 1 if matched else 0 if threads or accepts else -1
            known = PatternState(threads, verdict, accepts, len(self._class_bits))
            if not matched:
                with self._lock:
                    if len(self._states) >= _MAX_STATES:
                        self._forget()
                    known = self._states.setdefault(key, known)
        return known

    def _forget(self) -> None:
        """Let go of all states that no sequence stands at: what leads to them is found again."""
        for state in self._states.values():
            state.row = [None] * self.num_classes
        # Those that texts begin with stay, so that the next time lets go of what they lead to, too.
        begins = list(self._begins.values())
        self._states = {(state.threads, state.accepts): state for state in begins if state.verdict <= 0}
        self._hopeful = set()


class Pattern:
    """One pattern of a schema (ECMA-262, flag u), searched for. Safe to share between threads of execution.

    ``automaton`` is None where there is none (a back-reference), none is made (a look-behind over more than one
    character), or there is a large one only: such a pattern is decided for whole texts alone.
    """

    def __init__(self, source: str) -> None:
        self._python = translate_pattern(source)
        self.automaton: PatternAutomaton | None = None
        try:
            self.automaton = PatternAutomaton(Network(_parser.parse(self._python), PatternAutomaton, searches=True))
        except NoAutomatonError:
            return

    def matches(self, text: str) -> bool:
        """Whether it matches somewhere in ``text``. Raises ``MatchTimeoutError`` where no automaton decides."""
        automaton = self.automaton
        if automaton is not None:
            try:
                state = automaton.advance(automaton.start, text)
            except NoAutomatonError:
                return searches(self._python, text)
            return state.verdict > 0 or (state.verdict == 0 and state.accepts)
        return searches(self._python, text)


@lru_cache(maxsize=4096)
def pattern_of(source: str) -> Pattern:
    """The pattern; raises as ``translate_pattern`` does."""
    return Pattern(source)
