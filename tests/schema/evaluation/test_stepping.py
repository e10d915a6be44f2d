"""Automata of places: they answer as one made of a regular expression, and keep no more than they may."""

import itertools

import pytest

from constrain.schema.evaluation import stepping
from constrain.schema.evaluation.pattern_automaton import Pattern
from constrain.schema.evaluation.stepping import SteppingAutomaton


class _EvenBs(SteppingAutomaton[int]):
    """``a`` and ``b``, an even number of the latter; the place is how many there are."""

    def class_of(self, code):
        return {97: 0, 98: 1}.get(code, 2)

    def after(self, place, number):
        return None if number > 1 else place + number

    def is_end(self, place):
        return place % 2 == 0


@pytest.mark.parametrize("most", [2, 5_000])
def test_it_answers_as_the_automaton_of_the_same_language(most, monkeypatch):
    monkeypatch.setattr(stepping, "_MAX_KEPT", most)
    one, other = _EvenBs(0, 3), Pattern("^(a|ba*b)*$").automaton
    assert other is not None
    for length in range(7):
        for text in map("".join, itertools.product("abc", repeat=length)):
            state, expected = one.advance(one.start, text), other.advance(other.start, text)
            assert (state.verdict, state.accepts) == (expected.verdict, expected.accepts), text
            for ranges in (((97, 98),), ((99, 120),)):
                assert one.verdict_of(state, ranges) == other.verdict_of(expected, ranges), text


def test_it_keeps_a_bounded_number_of_states(monkeypatch):
    monkeypatch.setattr(stepping, "_MAX_KEPT", 3)
    automaton = _EvenBs(0, 3)
    for length in range(50):
        automaton.advance(automaton.start, "b" * length)
        state, depth = automaton.start, 0
        while (following := state.row[1]) is not None:
            state, depth = following, depth + 1
        assert depth <= 3
