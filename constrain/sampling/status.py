"""Whether a token could be taken."""

from enum import IntEnum


class RowStatus(IntEnum):
    """Whether a token could be taken from a row."""

    OK = 0
    EMPTY = 1
    """Every logit is -inf."""
    NOT_FINITE = 2
    """A logit is NaN or +inf."""
