"""JSON values as keys that are equal when the values are, and what the beginning of a number proves."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from constrain.schema.exact import hashable

MAX_NUMBER_BYTES = 1000
"""How long a number may be; a longer one is refused."""
MAX_EXPONENT_DIGITS = 9
"""How many digits an exponent may have, leading zeros aside: ``Decimal`` computes with all of those exactly."""

Number = int | Decimal


def read_number(text: bytes) -> Number:
    """The exact value of a JSON number within the limits above."""
    digits = text.decode("ascii")
    return int(digits) if len(digits) < 19 and digits.lstrip("-").isdigit() else Decimal(digits)


def exponent_is_bounded(text: bytes) -> bool:
    """Whether the number in ``text``, finished or not, keeps to ``MAX_EXPONENT_DIGITS``."""
    _, mark, exponent = text.lower().partition(b"e")
    return not mark or len(exponent.lstrip(b"+-").lstrip(b"0")) <= MAX_EXPONENT_DIGITS


def exact_number(value: int | float | Decimal) -> Number:
    """A schema's number; a float counts as the decimal that JSON writes for it."""
    if isinstance(value, float):
        value = Decimal(repr(value))
    return value


def canonical(value: Any) -> Any:
    """A schema's value as a key, comparable with the keys of values that are read."""
    if isinstance(value, float):
        return exact_number(value)
    if isinstance(value, list):
        return tuple(map(canonical, value))
    if isinstance(value, dict):
        return frozenset((key, canonical(item)) for key, item in value.items())
    return hashable(value)


def digits_of(value: Number) -> tuple[bool, str]:
    """Whether ``value`` is negative, and its decimal digits without the zeros at either end."""
    return value < 0, "".join(map(str, Decimal(value).as_tuple().digits)).strip("0")


def may_become(text: bytes, values: Iterable[tuple[bool, str]]) -> bool:
    """Whether a number that begins with ``text`` can be one of ``values``, given by ``digits_of``.

    Any form of the number counts, so that ``50`` and ``0.05e`` can both become 5: only digits prove anything.
    """
    mantissa, mark, _ = text.lower().partition(b"e")
    written = mantissa.lstrip(b"-").replace(b".", b"").lstrip(b"0").decode("ascii")
    negative = text.startswith(b"-")
    for value_negative, digits in values:
        if not digits:
            if not written:
                return True
        elif negative == value_negative:
            if mark and written.rstrip("0") == digits:
                return True
            if not mark and (digits + "0" * len(written)).startswith(written):
                return True
    return False
