"""Expressions over bytes, against ``re`` on characters and on bytes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrain.backends._byte_regex import byte_regex, has_more_states
from constrain.errors import ConstrainError
from constrain.regex import Chars, format_regex, parse_regex

PATTERNS = [
    "a",
    "é",
    "[a-é]",
    "[^a]",
    ".",
    r"\w",
    "(?:ab|é😀)*",
    "[\u07ff-\u0800]",
    "[\uffff-\U00010000]{1,2}",
    "a?b{2,3}",
]


def num_states(pattern: str) -> int:
    node = byte_regex(parse_regex(pattern))
    return next(n for n in range(2000) if not has_more_states(node, n))


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(deadline=None, max_examples=60)
@given(text=st.text(st.sampled_from("abéß\n 1\u07ff\u0800\uffff\U00010000😀"), max_size=4))
def test_bytes_are_matched_where_their_characters_are(pattern: str, text: str) -> None:
    # latin-1 spells byte 233 as the character 233, so that the same canonical text reads bytes.
    over_bytes = re.compile(format_regex(byte_regex(parse_regex(pattern))))
    data = text.encode().decode("latin-1")
    assert (over_bytes.fullmatch(data) is not None) == (re.fullmatch(pattern, text) is not None)


def test_bytes_are_bytes() -> None:
    node = byte_regex(parse_regex("[\x00-\U0010ffff]"))
    todo, spans = [node], list[tuple[int, int]]()
    while todo:
        at = todo.pop()
        if isinstance(at, Chars):
            spans += at.ranges
        else:
            todo += getattr(at, "parts", getattr(at, "options", ()))
    assert max(high for _, high in spans) == 0xF4


def test_states_are_those_of_the_subset_construction() -> None:
    assert num_states("a") == 2
    assert num_states("a{5}") == 6
    assert num_states("a{0,5}") == 6
    assert num_states("a*") == 1
    assert num_states("é") == 3
    assert num_states("ab|ac") == 3
    assert num_states("(?:a|b)*a(?:a|b){4}") >= 32


def test_what_explodes_is_found_quickly() -> None:
    for pattern in ("(?:a|b)*a(?:a|b){40}", "a{100000}", "(?:(?:a{99}){99}){99}", "(?:.{0,50}x){0,50}"):
        try:
            node = byte_regex(parse_regex(pattern))
        except ConstrainError:
            continue
        assert has_more_states(node, 1000), pattern
