"""Automata that read a text which is still being written, one character after the other."""

from abc import ABC, abstractmethod

from constrain.regex import Ranges


class State:
    """What the text so far says. ``verdict``: 1 it matches whatever follows, -1 it never will, 0 neither is proved.

    ``accepts``: it matches if it ends here. ``row``: the states that characters lead to, as far as they are known, by
    their class.
    """

    __slots__ = ("accepts", "row", "verdict")

    def __init__(self, verdict: int, accepts: bool, num_classes: int) -> None:
        self.verdict, self.accepts = verdict, accepts
        self.row: list[State | None] = [None] * num_classes


class Automaton(ABC):
    """States and the way from one to the next. ``start`` is that of an empty text.

    Safe to share between threads of execution.
    """

    start: State

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """How many classes of characters it tells apart."""

    @abstractmethod
    def class_of(self, code: int) -> int:
        """The class of a character, by its code point."""

    @abstractmethod
    def step_class(self, state: State, number: int) -> State:
        """The state after a character of the class ``number``."""

    @abstractmethod
    def classes_in(self, ranges: Ranges) -> frozenset[int]:
        """The classes of the characters in ``ranges``."""

    def verdict_of(self, state: State, ranges: Ranges) -> int:
        """What is proved once a character in ``ranges`` follows: the verdict of all of them, 0 where they differ."""
        return self.verdict_of_classes(state, self.classes_in(ranges))

    def verdict_of_classes(self, state: State, classes: frozenset[int]) -> int:
        """The same of characters by their classes; -1 where there is none."""
        found = -1
        for count, number in enumerate(classes):
            verdict = self.step_class(state, number).verdict
            if not verdict or (count and verdict != found):
                return 0
            found = verdict
        return found

    def step(self, state: State, code: int) -> State:
        """The state after one character, by its code point."""
        return self.step_class(state, self.class_of(code))

    def advance(self, state: State, text: str) -> State:
        """The state after ``text``, or where it is decided within ``text``."""
        for character in text:
            state = self.step_class(state, self.class_of(ord(character)))
        return state
