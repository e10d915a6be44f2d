"""Automata whose states are places that a function leads to, for what no regular expression says in a few words."""

from abc import abstractmethod
from collections.abc import Hashable
from threading import Lock
from typing import Any, Generic, TypeVar

from constrain.regex import Ranges
from constrain.schema.evaluation.automaton import Automaton, State

_MAX_KEPT = 5_000

Place = TypeVar("Place", bound=Hashable)


class SteppingState(State):
    """With the place; None is where the text has failed."""

    __slots__ = ("place",)

    def __init__(self, place: Any, accepts: bool, num_classes: int) -> None:
        super().__init__(-1 if place is None else 0, accepts, num_classes)
        self.place = place


class SteppingAutomaton(Automaton, Generic[Place]):
    """An automaton of whole texts without a network. Safe to share between threads of execution."""

    def __init__(self, start: Place, num_classes: int) -> None:
        self._num_classes, self._lock = num_classes, Lock()
        self._failed = SteppingState(None, False, num_classes)
        self._places: dict[Place, SteppingState] = {}
        self.start: SteppingState = self._at(start)

    @abstractmethod
    def class_of(self, code: int) -> int:
        """The class of a character, by its code point; never less than that of a lower one."""

    @abstractmethod
    def after(self, place: Place, number: int) -> Place | None:
        """The place behind a character of the class ``number``; None where no text begins so."""

    @abstractmethod
    def is_end(self, place: Place) -> bool:
        """Whether a text may end there."""

    @property
    def num_classes(self) -> int:
        return self._num_classes

    def step_class(self, state: State, number: int) -> State:
        if state.verdict:
            return state
        known = state.row[number]
        if known is not None:
            return known
        assert isinstance(state, SteppingState)
        following = self._at(self.after(state.place, number))
        state.row[number] = following
        return following

    def classes_in(self, ranges: Ranges) -> frozenset[int]:
        return frozenset(n for low, high in ranges for n in range(self.class_of(low), self.class_of(high) + 1))

    def _at(self, place: Place | None) -> SteppingState:
        if place is None:
            return self._failed
        known = self._places.get(place)
        if known is None:
            known = SteppingState(place, self.is_end(place), self._num_classes)
            with self._lock:
                if len(self._places) >= _MAX_KEPT:
                    self._forget()
                known = self._places.setdefault(place, known)
        return known

    def _forget(self) -> None:
        """Let go of all states that no sequence stands at: what leads to them is found again."""
        for state in self._places.values():
            state.row = [None] * self._num_classes
        # The start stays, so that the next time lets go of what it leads to, too.
        self._places = {self.start.place: self.start}
