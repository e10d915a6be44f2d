"""Numbers: what their beginning proves."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from constrain.schema.evaluation.values import canonical, digits_of, exponent_is_bounded, may_become

numbers = st.one_of(st.integers(-2000, 2000), st.decimals(-50, 50, places=3))


@given(numbers, st.integers(-4, 4))
def test_every_beginning_of_every_form_of_a_number_may_become_it(value, exponent):
    mantissa = f"{Decimal(value).scaleb(-exponent):f}"
    for text in (f"{mantissa}e{exponent}", f"{mantissa}E{exponent:+03d}"):
        assert Decimal(text) == value
        for end in range(1, len(text)):
            assert may_become(text[:end].encode(), [digits_of(value)]), (text[:end], value)


@given(numbers.filter(bool), numbers.filter(bool))
def test_other_digits_or_signs_cannot(value, other):
    mantissa = f"{value:f}" if isinstance(value, Decimal) else str(value)
    same = digits_of(value) == digits_of(other)
    assert may_become(mantissa.encode() + b"e", [digits_of(other)]) == same


def test_zero_may_have_any_exponent_and_sign():
    assert may_become(b"-0.00e7", [digits_of(0)]) and not may_become(b"0.01", [digits_of(0)])


def test_equal_values_have_equal_keys_and_others_have_not():
    assert canonical([1.0, {"a": 2}]) == canonical([1, {"a": 2.0}])
    assert canonical(1) != canonical(True) and canonical([]) != canonical({}) and canonical(0) != canonical(False)


def test_exponents_are_bounded():
    assert exponent_is_bounded(b"1e-000999999999") and not exponent_is_bounded(b"1e9999999999")
