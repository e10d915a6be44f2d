"""The languages of formats: that leap seconds need both patterns, and nothing is asked of what is no language."""

import re
from itertools import product

from constrain.schema.format_patterns import TIMES, language_of
from constrain.schema.formats import checker_of


def test_leap_seconds_are_those_of_the_last_minute_of_a_day_in_utc():
    is_time = checker_of("time")
    assert is_time is not None
    patterns = [re.compile(pattern) for pattern in TIMES]
    clocks = [f"{hour:02}:{minute:02}" for hour, minute in product((0, 1, 15, 22, 23), (0, 29, 30, 58, 59))]
    for clock, sign, shift in product(clocks, "+-", clocks):
        text = f"{clock}:60{sign}{shift}"
        assert all(pattern.fullmatch(text) for pattern in patterns) == is_time(text), text


def test_regular_expressions_are_no_regular_language():
    assert language_of("regex") == ()
