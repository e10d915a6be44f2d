"""Whether a token could be taken from a row of logits."""

from enum import IntEnum


class RowStatus(IntEnum):
    """Whether a token could be taken from a row."""

    OK = 0
    EMPTY = 1
    """Every logit is -inf, or every token forbidden."""
    NOT_FINITE = 2
    """The logit of an allowed token is NaN or +inf, after bias and penalties. Forbidden tokens are not looked at."""
    SKIPPED = 3
    """No token was taken: the draft ended before, and the row stands behind what is no output."""
