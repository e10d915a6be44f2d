"""Matching a pattern against a text in bounded time.

Python's ``re`` can take exponential time (``^(a|a)*$``) and holds the interpreter all the while, so that one request's
output could stop every other. The ``regex`` package reads the same patterns and can be told when to give up.
"""

from functools import lru_cache

import regex

MATCH_SECONDS = 1.0
"""How long one match may take."""


class MatchTimeoutError(Exception):
    """A match took longer than ``MATCH_SECONDS``."""


def searches(pattern: str, text: str) -> bool:
    """Whether ``pattern``, in Python's syntax, matches somewhere in ``text``. Raises ``MatchTimeoutError``."""
    return _bounded(pattern, text, "search")


def fullmatches(pattern: str, text: str) -> bool:
    """Whether ``pattern``, in Python's syntax, matches all of ``text``. Raises ``MatchTimeoutError``."""
    return _bounded(pattern, text, "fullmatch")


def _bounded(pattern: str, text: str, method: str) -> bool:
    try:
        return getattr(_compiled(pattern), method)(text, timeout=MATCH_SECONDS) is not None
    except TimeoutError as exc:
        shown = pattern if len(pattern) <= 80 else f"{pattern[:77]}..."
        raise MatchTimeoutError(f"matching {shown!r} took longer than {MATCH_SECONDS} s") from exc


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> "regex.Pattern[str]":
    return regex.compile(pattern, regex.V0)
