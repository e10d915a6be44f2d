"""Schemas of numbers that must be finite, or have so many digits."""

import math
from decimal import Decimal
from typing import Any

from constrain.schema.type_patterns import decimal_pattern

_LARGEST = 10**15
"""The size of numbers of finite types: llguidance 1.9.1 makes no regular expression of bounds from 1e19 on."""


def finite_number(number: dict[str, Any]) -> dict[str, Any]:
    """``number`` with a bound on each side; llguidance writes no exponents then."""
    bounded = {
        name: value
        for name, value in number.items()
        if not (name.endswith("inimum") and value < -_LARGEST) and not (name.endswith("aximum") and value > _LARGEST)
    }
    if not bounded.keys() & {"minimum", "exclusiveMinimum"}:
        bounded["minimum"] = -_LARGEST
    if not bounded.keys() & {"maximum", "exclusiveMaximum"}:
        bounded["maximum"] = _LARGEST
    return bounded


def decimal(schema: Any, number: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a Decimal by pydantic's core ``schema``; ``number`` has its bounds. None where none is exact."""
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    bounds = {name for name in ("ge", "gt", "le", "lt", "multiple_of") if schema.get(name) is not None}
    if digits is None and places is None:
        return finite_number(number)
    if not bounds or (bounds == {"ge"} and schema["ge"] == 0):
        return {"type": "string", "pattern": decimal_pattern(digits, places, signed=not bounds)}
    # A number is read through a float, which keeps fifteen digits.
    if places is None or "multiple_of" in bounds or (digits or 15) > 15 or places > 4:
        return None
    return _fixed_point(schema, min(places, digits or 15), digits or 15)


def _fixed_point(schema: Any, places: int, digits: int) -> dict[str, Any]:
    """Numbers of so many places and digits within the bounds of ``schema``, each bound a number of that kind itself."""
    unit = Decimal(1).scaleb(-places)
    largest = Decimal(1).scaleb(digits - places) - unit
    low, high = [-largest], [largest]
    low += [math.ceil(bound / unit) * unit for bound in _exact(schema.get("ge"))]
    low += [(math.floor(bound / unit) + 1) * unit for bound in _exact(schema.get("gt"))]
    high += [math.floor(bound / unit) * unit for bound in _exact(schema.get("le"))]
    high += [(math.ceil(bound / unit) - 1) * unit for bound in _exact(schema.get("lt"))]
    to_json = float if places else int
    bounds = {"minimum": to_json(max(low)), "maximum": to_json(min(high))}
    return {"type": "number", **bounds, "multipleOf": to_json(unit)}


def _exact(bound: Any) -> list[Decimal]:
    """What a bound may mean; a float means its digits or its value, and both are kept."""
    return [] if bound is None else [Decimal(str(bound)), Decimal(bound)]
