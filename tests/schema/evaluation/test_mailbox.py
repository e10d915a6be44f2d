"""The part before the @, against RFC 5321's grammar as ``formats`` has it."""

import itertools
import re

import pytest

from constrain.schema.evaluation.mailbox import LocalPart
from constrain.schema.format_patterns import LOCAL_WIDE


def _accepts(text):
    automaton = LocalPart()
    state = automaton.advance(automaton.start, text)
    return state.verdict == 0 and state.accepts


def test_it_accepts_every_local_part_and_no_short_text_without_one():
    local = re.compile(LOCAL_WIDE)
    for length in range(6):
        for text in map("".join, itertools.product('a."\\@é', repeat=length)):
            begins = any(local.fullmatch(text[:at]) for at, char in enumerate(text) if char == "@")
            assert not begins or _accepts(text), text
            if not begins and not set('"\\') & set(text):
                assert not _accepts(text), text


@pytest.mark.parametrize(("char", "most"), [("a", 64), ("é", 32), ("日", 21), ("😀", 16)])
def test_it_counts_bytes(char, most):
    assert _accepts(char * most + "@") and not _accepts(char * (most + 1) + "@")


@pytest.mark.parametrize("text", ["a" * 63 + ".", '"' + "a" * 63, '"' + "a" * 61 + "\\"])
def test_what_would_take_more_bytes_to_end_is_refused(text):
    automaton = LocalPart()
    state = automaton.advance(automaton.start, text[:-1])
    assert state.verdict == 0 and automaton.advance(state, text[-1]).verdict < 0
