"""What the beginning of a number proves about its value: where it lies once its exponent is begun."""

from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple

from constrain.schema.evaluation.values import MAX_EXPONENT_DIGITS, Number
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


_EXPONENT_BYTES = 6
"""More than an exponent takes that undoes all decimals of the longest number."""

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


def exponent_spans(text: bytes) -> list[Span]:
    """Spans that together have all values of a number whose exponent is begun; none where it is not.

    Each has the exponents of one sign and one number of digits, since two tests may refuse different ones of them.
    """
    mantissa, mark, exponent = text.lower().decode("ascii").partition("e")
    if not mark or not mantissa.strip("-0."):
        return []
    signs = [exponent[0]] if exponent[:1] in ("+", "-") else ["+"] if exponent else ["+", "-"]
    begun = exponent.lstrip("+-").lstrip("0")
    found = []
    for sign in signs:
        for more in range(MAX_EXPONENT_DIGITS - len(begun) + 1):
            lowest = begun + "0" * more if begun else "0" if more < 2 else "1" + "0" * (more - 1)
            first, last = (Decimal(f"{mantissa}e{sign}{digits}") for digits in (lowest, begun + "9" * more or "0"))
            near, far = (first, last) if sign == "+" else (last, first)
            found.append(Span(near, far, first, sign == "+"))
    return found


def whole_span(text: bytes) -> Span | None:
    """The integers that a number can become: none is nearer to zero than its digits together, whatever exponent it has.

    None where it has no digits but zeros.
    """
    mantissa = text.lower().partition(b"e")[0]
    digits = mantissa.lstrip(b"-").replace(b".", b"").strip(b"0")
    if not digits:
        return None
    sign = b"-" if text.startswith(b"-") else b""
    return Span(Decimal((sign + digits).decode("ascii")), _ENDS[bool(sign)][1], None, True)


class Multiple(NamedTuple):
    """What a multiple asks of its digits: that ``divisor`` divides all together, and ``num_decimals`` at most.

    It plays a part in the last ``room`` bytes that a number may have.
    """

    divisor: int
    num_decimals: int

    @property
    def room(self) -> int:
        return len(str(self.divisor)) + _EXPONENT_BYTES

    def may_follow(self, text: bytes, num_bytes: int) -> bool:
        """Whether a number that begins with ``text`` and has ``num_bytes`` more may keep to that."""
        mantissa, mark, exponent = text.lower().partition(b"e")
        whole, _, fraction = mantissa.lstrip(b"-").partition(b".")
        most = exponent.lstrip(b"+-") + b"9" * (num_bytes if mark else max(num_bytes - 1, 0))
        digits = most.lstrip(b"0")
        shift = 0 if exponent.startswith(b"-") else int(digits[:MAX_EXPONENT_DIGITS] or b"0")
        too_many = len(fraction.rstrip(b"0")) - self.num_decimals
        if too_many > shift:
            return False
        number = int(whole + fraction or b"0")
        taken = 1 + len(str(too_many)) if too_many > 0 else 0  # by an exponent, which must follow
        for count in range(1 if mark else num_bytes - taken + 1):
            first = number * 10**count
            if first + -first % self.divisor < first + 10**count:
                return True
        return False


def multiple_of(divisor: Number) -> Multiple:
    """That of the multiples of ``divisor``: an exponent adds factors of ten's, and no others."""
    number, exponent = scaled(divisor)
    for factor in (2, 5):
        while number and number % factor == 0:
            number //= factor
    return Multiple(abs(number), max(0, -exponent))


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
        if span.near == span.far:
            return 1 if is_multiple(span.near, divisor) else -1
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
        if span.near == span.far:
            return 1 if span.near in values else -1
        low, high = sorted((span.near, span.far))
        return 0 if any(low <= value <= high for value in values) else -1

    return early
