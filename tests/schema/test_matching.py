"""Patterns that take Python's ``re`` for ever, and the second check of finished texts."""

import json
import re
import time

import pytest

from constrain import InvalidValueError, as_constraint
from constrain.schema import Validator
from constrain.schema.matching import MatchTimeoutError, fullmatches, searches

SLOW = "^(.*?,){25}P"


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("([a-z]+)+[0-9]|[a-z]+!", "a" * 32 + "!"), ("^(a|a)*b$", "a" * 30), ("^([a-z]+)+$", "a" * 30 + "!")],
)
def test_what_takes_re_for_ever_is_quick(pattern: str, text: str) -> None:
    started = time.perf_counter()
    assert searches(pattern, text) == pattern.endswith("!")
    constraint = as_constraint({"anyOf": [{"type": "string", "pattern": pattern}, {"type": "string"}]})
    assert constraint.decode(json.dumps(text)) == text
    assert time.perf_counter() - started < 10


def test_a_match_that_takes_too_long_is_given_up_and_said() -> None:
    text = ",".join(map(str, range(1, 31))) * 2
    with pytest.raises(MatchTimeoutError, match=re.escape(SLOW)):
        searches(SLOW, text)
    with pytest.raises(InvalidValueError, match="cannot be validated again"):
        Validator({"pattern": SLOW}).check(json.dumps(text))


@pytest.mark.parametrize(
    "pattern", ["a|ab", "(?:a|b)*", "[^a]", r"a{2,3}", "(?s:.)", r"[\[&~|]", r"x\Z", "(?<=a)b", ""]
)
def test_verdicts_are_those_of_re(pattern: str) -> None:
    for text in ("", "a", "ab", "abab", "aaa", "x", "x\n", "b", "[", "&&", "ab\nb"):
        assert searches(pattern, text) == (re.search(pattern, text) is not None), text
        assert fullmatches(pattern, text) == (re.fullmatch(pattern, text) is not None), text


def test_of_a_repeated_key_the_last_one_counts() -> None:
    constraint = as_constraint(dict[str, int])
    assert constraint.decode('{"a": 1, "b": 2, "a": 3}') == {"a": 3, "b": 2}


def test_a_number_beyond_arithmetic_is_no_bug_and_no_value() -> None:
    assert Validator({"type": "number"}).error("1e1000000000000000000") is None
    assert Validator({"maximum": 5}).error("1e1000000000000000000") is not None
    assert Validator({"exclusiveMaximum": 0}).error("-1e-1000000000000000000") is None
    assert Validator({"type": "integer"}).error("0e99999999999999999999") is None
    assert Validator({"multipleOf": 0.5}).error("1e1000000000000000000") is None
    with pytest.raises(InvalidValueError, match="too large for Python"):
        as_constraint({"type": "number"}).decode("1e1000000000000000000")
