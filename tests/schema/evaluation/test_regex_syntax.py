"""Regular expressions as they are written, against what the translator takes."""

import itertools
import random

import pytest

from constrain.errors import ConstrainError
from constrain.schema.ecma import translate_pattern
from constrain.schema.evaluation.regex_syntax import RegexSyntax

PIECES = [
    *"ab01-,^$|.()[]{}*+?\\<>=!:_é", r"\d", r"\w", r"\S", r"\p{L}", "(?:", "(?=", "(?<a>", "(?<=", r"\k<a>", "{1,2}",
    r"\u{1F600}", r"\x41", "[a-", r"\b", r"\1", r"\12", r"\cA", "(?<!", "{,}", "{2",
    "(?<ab>", r"\k<ab>",
]  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_all_that_the_translator_takes_is_accepted_and_hardly_anything_else():
    syntax, rng = RegexSyntax(), random.Random(8)
    taken = more = 0
    for _ in range(6_000):
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 7)))
        state = syntax.advance(syntax.start, text)
        accepted = state.verdict == 0 and state.accepts
        if _is_pattern(text):
            taken += 1
            assert accepted, text
        else:
            more += accepted
    assert taken > 1_000 and more < 20


def test_the_names_of_groups_are_few_states():
    syntax = RegexSyntax()
    words = ["".join(letters) for letters in itertools.product("abcdef_1", repeat=4)]
    named = {syntax.advance(syntax.start, f"(?<x{word}") for word in words}
    closed = {syntax.advance(syntax.start, f"(?<x{word}>a)\\k<x{word}>") for word in words}
    assert len(named) == len(closed) == 1 and closed.pop().accepts


def _is_pattern(text):
    try:
        translate_pattern(text)
    except ConstrainError:
        return False
    return True
