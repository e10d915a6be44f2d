"""What can be proved of schemas in normal form: the types of their values, finite sets of them, disjointness.

Every answer is one-sided: a set of types may be too large, a finite set is complete but may hold values that another
keyword refuses, and two schemas that are not *provably* disjoint may be so.
"""

from collections.abc import Iterator
from typing import Any

from constrain.schema.exact import hashable
from constrain.schema.normal import Normal, NormalObject, NormalSchema

ALL_TYPES = frozenset({"null", "boolean", "object", "array", "integer", "fraction", "string"})
"""The types of values, numbers split: ``fraction`` is a number that is no integer."""

_MAX_DEPTH = 12


def kinds_of_type(value: Any) -> frozenset[str]:
    """The kinds that the keyword ``type`` allows."""
    names = {value} if isinstance(value, str) else set(value)
    return frozenset(names - {"number"} | ({"integer", "fraction"} if "number" in names else set()))


def kind_of(value: Any) -> str:
    """The kind of one JSON value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "integer" if value == int(value) else "fraction"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def as_type(kinds: frozenset[str]) -> list[str] | None:
    """``kinds`` as a value of ``type``; None where only fractions are asked for, which no ``type`` says."""
    if "fraction" in kinds and "integer" not in kinds:
        return None
    names = kinds - {"fraction", "integer"} | ({"number"} if "fraction" in kinds else kinds & {"integer"})
    return sorted(names)


def conjuncts(normal: Normal, schema: NormalSchema, depth: int = 0) -> Iterator[NormalSchema]:
    """``schema``, and what its ``$ref`` and ``allOf`` apply to the same value."""
    yield schema
    if not isinstance(schema, NormalObject) or depth > _MAX_DEPTH:
        return
    if "$ref" in schema:
        yield from conjuncts(normal, normal.target(schema), depth + 1)
    for item in schema.get("allOf", ()):
        yield from conjuncts(normal, item, depth + 1)


def kinds(normal: Normal, schema: NormalSchema, depth: int = 0) -> frozenset[str]:
    """The kinds of values that ``schema`` can accept."""
    found = ALL_TYPES
    for part in conjuncts(normal, schema):
        if not isinstance(part, NormalObject):
            return found if part else frozenset()
        if "type" in part:
            found &= kinds_of_type(part["type"])
        values = _listed(part)
        if values is not None:
            found &= {kind_of(value) for value in values}
        for keyword in ("anyOf", "oneOf"):
            if keyword in part and depth < _MAX_DEPTH:
                found &= frozenset().union(*(kinds(normal, item, depth + 1) for item in part[keyword]))
    return found


def finite_values(normal: Normal, schema: NormalSchema, limit: int = 200) -> list[Any] | None:
    """A finite list that every value of ``schema`` is in; None if none is known."""
    for part in conjuncts(normal, schema):
        if part is False:
            return []
        if not isinstance(part, NormalObject):
            continue
        values = _listed(part)
        if values is not None and len(values) <= limit:
            return values
    allowed = kinds(normal, schema)
    if allowed <= {"null", "boolean"}:
        return [*([None] if "null" in allowed else []), *([True, False] if "boolean" in allowed else [])]
    return None


def disjoint(normal: Normal, one: NormalSchema, other: NormalSchema, depth: int = 0) -> bool:
    """Whether no value is valid under both, provably."""
    shared = kinds(normal, one) & kinds(normal, other)
    if not shared:
        return True
    if depth > _MAX_DEPTH:
        return False
    for first, second in ((one, other), (other, one)):
        for part in conjuncts(normal, first):
            if not isinstance(part, NormalObject):
                continue
            for keyword in ("anyOf", "oneOf"):
                if keyword in part and all(disjoint(normal, item, second, depth + 1) for item in part[keyword]):
                    return True
    values, others = finite_values(normal, one), finite_values(normal, other)
    if values is not None and others is not None:
        return not {hashable(value) for value in values} & {hashable(value) for value in others}
    return all(_disjoint_in(kind, normal, one, other, depth) for kind in shared)


def _disjoint_in(kind: str, normal: Normal, one: NormalSchema, other: NormalSchema, depth: int) -> bool:
    """Whether no value of ``kind`` is valid under both."""
    first = [part for part in conjuncts(normal, one) if isinstance(part, NormalObject)]
    second = [part for part in conjuncts(normal, other) if isinstance(part, NormalObject)]
    if kind in ("integer", "fraction"):
        low, high = _interval([*first, *second])
        return low > high or (low == high and _open_at([*first, *second], low))
    counts = {"string": "Length", "array": "Items", "object": "Properties"}.get(kind)
    if counts is not None:
        least = max((part.get(f"min{counts}", 0) for part in (*first, *second)), default=0)
        most = min((part.get(f"max{counts}", float("inf")) for part in (*first, *second)), default=float("inf"))
        if least > most:
            return True
    return kind == "object" and _disjoint_objects(normal, first, second, depth)


def _interval(parts: list[NormalObject]) -> tuple[float, float]:
    lows = [part[name] for part in parts for name in ("minimum", "exclusiveMinimum") if name in part]
    highs = [part[name] for part in parts for name in ("maximum", "exclusiveMaximum") if name in part]
    return max(lows, default=float("-inf")), min(highs, default=float("inf"))


def _open_at(parts: list[NormalObject], bound: float) -> bool:
    return any(part.get(name) == bound for part in parts for name in ("exclusiveMinimum", "exclusiveMaximum"))


def _disjoint_objects(normal: Normal, first: list[NormalObject], second: list[NormalObject], depth: int) -> bool:
    """By a property that either side requires, and on whose value they cannot agree."""
    required = {name for part in (*first, *second) for name in part.get("required", ())}
    for name in sorted(required):
        ours, theirs = list(_property(first, name)), list(_property(second, name))
        if False in ours or False in theirs:
            return True
        if any(disjoint(normal, a, b, depth + 1) for a in ours for b in theirs):
            return True
    return False


def _property(parts: list[NormalObject], name: str) -> Iterator[NormalSchema]:
    """The schemas that ``parts`` surely apply to the property ``name``."""
    for part in parts:
        if name in part.get("properties", ()):
            yield part["properties"][name]
        elif "additionalProperties" in part and not part.get("patternProperties"):
            yield part["additionalProperties"]


def _listed(part: NormalObject) -> list[Any] | None:
    """Exactly the values that ``const`` and ``enum`` leave together; None where there is neither."""
    values: list[Any] | None = part.get("enum")
    if "const" not in part:
        return values
    const = part["const"]
    return [const] if values is None or hashable(const) in map(hashable, values) else []
