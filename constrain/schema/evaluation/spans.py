"""What the beginning of a number proves about its value: where it lies once its exponent is begun."""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from constrain.schema.evaluation.values import Number
from constrain.schema.exact import is_multiple, scaled

_LEAST = Decimal((0, (1,), -(10**11)))
"""Closer to zero than any number within the limits but zero itself."""
_ENDS = (_LEAST, Decimal("Infinity")), (_LEAST.copy_negate(), Decimal("-Infinity"))


class Span(NamedTuple):
    """All values of a number that goes on: ``near`` is the nearest to zero, ``far`` the farthest, both of its sign.

    ``edge``: the value with the exponent so far; every other is it times a power of ten, upwards if ``grows``, else
    downwards. None while there is no exponent, and other digits may come.
    """

    near: Decimal
    far: Decimal
    edge: Decimal | None
    grows: bool


EarlyTest = Callable[[Span], int]
"""What is true, 1, or false, -1, of all values of a span; 0 if neither is proved."""


def span_of(text: bytes) -> Span | None:
    """What a number that begins with ``text`` can be; None where nothing is known but its sign."""
    mantissa, mark, exponent = text.lower().decode("ascii").partition("e")
    least, most = _ENDS[mantissa.startswith("-")]
    if not mantissa.strip("-0."):
        zero = Decimal(0)
        return Span(zero, zero, zero, True) if mark else None
    if not exponent:
        return Span(least, most, None, True)
    edge = Decimal(f"{mantissa}e{exponent if exponent[-1] not in '+-' else '0'}")
    if exponent.startswith("-"):
        return Span(least, edge, edge, False)
    return Span(edge, most, edge, True)


def of_bound(test: Callable[[Number, bytes], bool]) -> EarlyTest:
    """For a test that changes once at most as its value grows."""

    def early(span: Span) -> int:
        near, far = test(span.near, b""), test(span.far, b"")
        return 0 if near != far else 1 if near else -1

    return early


def of_multiple(divisor: Number) -> EarlyTest:
    """For multiples of ``divisor``: what is one stays one as it grows, what is none stays none as it shrinks."""
    enough = scaled(divisor)[0].bit_length() + 1

    def early(span: Span) -> int:
        if span.edge is None:
            return 0
        if is_multiple(span.edge, divisor):
            return 1 if span.grows else 0
        if not span.grows:
            return -1
        sign, digits, exponent = span.edge.as_tuple()
        assert isinstance(exponent, int)
        # Powers of ten add factors of 2 and 5 only, and no divisor lacks more of them than this.
        least = max(exponent, scaled(divisor)[1]) + enough
        return 0 if is_multiple(Decimal((sign, digits, least)), divisor) else -1

    return early


def of_values(values: frozenset[Number]) -> EarlyTest:
    """For being one of ``values``."""

    def early(span: Span) -> int:
        low, high = sorted((span.near, span.far))
        return 0 if any(low <= value <= high for value in values) else -1

    return early
