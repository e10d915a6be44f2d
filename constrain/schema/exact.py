"""Exact arithmetic and equality of JSON values; the exponents of numbers may be anything."""

from decimal import Decimal
from typing import Any


def is_multiple(value: int | Decimal, divisor: int | Decimal) -> bool:
    """Whether ``value`` is an integer multiple of ``divisor``, exactly, at a cost that no exponent can drive up."""
    number, exponent = scaled(value)
    unit, unit_exponent = scaled(divisor)
    if number == 0:
        return True
    shift = exponent - unit_exponent
    if shift >= 0:
        return number * pow(10, shift, unit) % unit == 0
    # ``number`` has no trailing zero, so that a unit with one too many cannot divide it.
    return -shift <= abs(number).bit_length() and number % (unit * 10**-shift) == 0


def scaled(value: int | float | Decimal) -> tuple[int, int]:
    """``value`` as an integer without trailing zeros, and the power of ten that it is multiplied with.

    A float counts as the decimal that JSON writes for it.
    """
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    sign, digits, exponent = exact.as_tuple()
    assert isinstance(exponent, int), value
    kept = len(digits)
    while kept > 1 and digits[kept - 1] == 0:
        kept -= 1
    return int(Decimal((sign, digits[:kept], 0))), exponent + len(digits) - kept


def hashable(value: Any) -> Any:
    """A key that is equal for JSON values that are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return frozenset((key, hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(hashable, value))
    return (bool, value) if isinstance(value, bool) else value
