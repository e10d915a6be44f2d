"""The rules that take a keyword out of a schema in normal form and say the same with others.

Each is an equivalence: the same values are valid before and after. One that does not apply exactly gives None, and the
keyword stays, to be refused by name. ``tests/schema/test_rewrite.py`` holds each against a validator.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from constrain.schema.evaluated import close_unevaluated
from constrain.schema.exact import hashable
from constrain.schema.negate import negate
from constrain.schema.normal import Normal, NormalObject, NormalSchema
from constrain.schema.proofs import ALL_TYPES, as_type, conjuncts, disjoint, finite_values, kind_of, kinds

Change = Callable[[Normal, NormalObject], NormalSchema | None]
_MAX_POSITIONS = 8
_MAX_ARRAYS = 400
_MAX_SHARED = 120


@dataclass(frozen=True, slots=True)
class Rule:
    """``change`` takes ``keyword`` out of a schema that has it, or gives None. ``name`` stands in reports."""

    name: str
    keyword: str
    change: Change


def _close_properties(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    return close_unevaluated(normal, schema, "properties")


def _close_items(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    return close_unevaluated(normal, schema, "items")


def _condition(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """``if`` and then, or not ``if`` and else."""
    condition, rest = schema["if"], schema.without("if", "then", "else")
    if "then" not in schema and "else" not in schema:
        return rest
    fails = negate(normal, condition, kinds(normal, rest))
    if fails is None:
        return None
    branches = [
        both(schema.origin, condition, schema.get("then", NormalObject(schema.origin))),
        both(schema.origin, fails, schema.get("else", NormalObject(schema.origin))),
    ]
    return conjoin(rest, any_of(schema.origin, branches))


def _complement(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    rest = schema.without("not")
    outside = negate(normal, schema["not"], kinds(normal, rest))
    return None if outside is None else conjoin(rest, outside)


def _dependent_required(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """The name is absent, or the others are there."""
    made = schema.without("dependentRequired")
    for name, others in schema["dependentRequired"].items():
        present = NormalObject(schema.origin, {"required": list(dict.fromkeys([name, *others]))})
        made = conjoin_object(made, any_of(schema.origin, [_absent(schema, name), present]))
    return made


def _dependent_schemas(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """The name is absent, or the schema holds."""
    made = schema.without("dependentSchemas")
    for name, item in schema["dependentSchemas"].items():
        present = NormalObject(schema.origin, {"required": [name]})
        made = conjoin_object(made, any_of(schema.origin, [_absent(schema, name), both(schema.origin, present, item)]))
    return made


def _absent(schema: NormalObject, name: str) -> NormalObject:
    return NormalObject(schema.origin, {"properties": {name: False}})


def _property_names(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """A closed object of the names, where a list or a pattern says which they are."""
    names, rest = schema["propertyNames"], schema.without("propertyNames")
    if names is False or "string" not in kinds(normal, names):
        return conjoin(rest, NormalObject(schema.origin, {"maxProperties": 0}))
    listed = finite_values(normal, names)
    parts = list(conjuncts(normal, names))
    if listed is not None and len(parts) == 1 and set(parts[0]) <= {"type", "enum", "const"}:  # type: ignore[arg-type]
        known = {name: NormalObject(schema.origin) for name in listed if isinstance(name, str)}
        return conjoin(rest, NormalObject(schema.origin, {"properties": known, "additionalProperties": False}))
    if not isinstance(names, NormalObject):
        return None
    wanted = {keyword: value for keyword, value in names.items() if keyword != "type"}
    pattern = _length_pattern(wanted) if set(wanted) <= {"minLength", "maxLength"} else wanted.get("pattern")
    if pattern is None or (set(wanted) != {"pattern"} and "pattern" in wanted):
        return None
    closed = {"patternProperties": {pattern: NormalObject(schema.origin)}, "additionalProperties": False}
    return conjoin(rest, NormalObject(schema.origin, closed))


def _length_pattern(wanted: dict[str, Any]) -> str:
    return f"^[\\s\\S]{{{wanted.get('minLength', 0)},{wanted.get('maxLength', '')}}}$"


def _contains(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """Counts of items, where the schema takes them all or none; one place or another, in a short array."""
    wanted, rest = schema["contains"], schema.without("contains", "minContains", "maxContains")
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    origin = schema.origin
    if wanted == {}:
        counts = {"minItems": least} if least else {}
        return conjoin(rest, NormalObject(origin, counts | ({} if most is None else {"maxItems": most})))
    if most is not None and most < least:
        return conjoin(rest, _no_array(origin))
    if wanted is False:
        return conjoin(rest, _no_array(origin)) if least else rest
    if least == 0 and most is None:
        return rest
    if most == 0:
        outside = negate(normal, wanted)
        return None if outside is None else conjoin(rest, NormalObject(origin, {"items": outside}))
    longest = _longest(normal, rest)
    if least != 1 or most is not None or longest is None or longest > _MAX_POSITIONS:
        return None
    places: list[NormalSchema] = [_no_array(origin)]
    for index in range(longest):
        before = [NormalObject(origin) for _ in range(index)]
        keywords = {"type": "array", "minItems": index + 1, "prefixItems": [*before, wanted]}
        places.append(NormalObject(origin, keywords))
    return conjoin(rest, any_of(origin, places))


def _no_array(origin: str) -> NormalObject:
    return NormalObject(origin, {"type": as_type(ALL_TYPES - {"array"})})


def _longest(normal: Normal, schema: NormalSchema) -> int | None:
    """The most items that an array of ``schema`` can have, where something says so."""
    found = []
    for part in conjuncts(normal, schema):
        if isinstance(part, NormalObject):
            found += [part["maxItems"]] if "maxItems" in part else []
            found += [len(part.get("prefixItems", ()))] if part.get("items") is False else []
    return min(found, default=None)


def _unique_items(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """Nothing to say of arrays of one item; a list of all arrays, where items have few values."""
    rest = schema.without("uniqueItems")
    longest = _longest(normal, rest)
    if longest is not None and longest <= 1:
        return rest
    if kinds(normal, rest) != {"array"} or set(rest) - {"type", "items", "prefixItems", "minItems", "maxItems"}:
        return None
    prefix, items = rest.get("prefixItems", []), rest.get("items", NormalObject(""))
    choices = [_all_values(normal, item) for item in (*prefix, items)]
    if None in choices:
        return None
    first, after = [item or [] for item in choices[:-1]], choices[-1] or []
    arrays = list(islice(_unique_arrays(first, after, [], longest), _MAX_ARRAYS + 1))
    if len(arrays) > _MAX_ARRAYS:
        return None
    listed = [array for array in arrays if len(array) >= rest.get("minItems", 0)]
    return NormalObject(schema.origin, {"enum": listed}) if listed else False


def _unique_arrays(first: list[list[Any]], after: list[Any], head: list[Any], longest: int | None) -> Iterator[Any]:
    yield head
    if longest is not None and len(head) >= longest:
        return
    used = {hashable(value) for value in head}
    for value in first[len(head)] if len(head) < len(first) else after:
        if hashable(value) not in used:
            yield from _unique_arrays(first, after, [*head, value], longest)


def _all_values(normal: Normal, schema: NormalSchema) -> list[Any] | None:
    """Exactly the values of ``schema``, where they are few."""
    if schema is False:
        return []
    values = finite_values(normal, schema, 8)
    if values is None or not isinstance(schema, NormalObject) or set(schema) - {"type", "enum", "const"}:
        return None
    allowed = kinds(normal, schema)
    return [value for value in values if kind_of(value) in allowed]


def _one_of(normal: Normal, schema: NormalObject) -> NormalSchema | None:
    """``anyOf``, where no two branches share a value; else each branch without what the others accept."""
    branches, rest = [item for item in schema["oneOf"] if item is not False], schema.without("oneOf")
    allowed = kinds(normal, rest)
    shared = {
        (n, m)
        for n, one in enumerate(branches)
        for m, other in enumerate(branches)
        if n < m and not disjoint(normal, both("", rest, one), both("", rest, other))
    }
    if len(shared) > _MAX_SHARED:
        return None
    made: list[NormalSchema] = []
    for n, branch in enumerate(branches):
        others = [m for m in range(len(branches)) if (min(n, m), max(n, m)) in shared]
        within = kinds(normal, branch) & allowed
        outside = [negate(normal, branches[m], within) for m in others]
        if None in outside:
            return None
        made.append(both(schema.origin, branch, *[item for item in outside if item is not None]))
    return conjoin(rest, any_of(schema.origin, made))


def both(origin: str, *schemas: NormalSchema) -> NormalSchema:
    """What is valid under every one of ``schemas``."""
    if False in [item for item in schemas if not isinstance(item, NormalObject)]:
        return False
    kept = [item for item in schemas if item]
    return kept[0] if len(kept) == 1 else NormalObject(origin, {"allOf": kept} if kept else {})


def any_of(origin: str, branches: list[NormalSchema]) -> NormalSchema:
    """What is valid under at least one of ``branches``."""
    kept = [item for item in branches if item is not False]
    if any(item == {} for item in kept):
        return NormalObject(origin)
    if len(kept) <= 1:
        return kept[0] if kept else False
    return NormalObject(origin, {"anyOf": kept})


def conjoin(rest: NormalObject, other: NormalSchema) -> NormalSchema:
    """``rest``, and ``other`` beside it."""
    if other is False:
        return False
    if not other:
        return rest
    if not rest:
        return other
    return NormalObject(rest.origin, {**rest, "allOf": [*rest.get("allOf", ()), other]})


def conjoin_object(rest: NormalObject, other: NormalSchema) -> NormalObject:
    """As ``conjoin``, where neither is false."""
    made = conjoin(rest, other)
    assert isinstance(made, NormalObject), json.dumps(made)
    return made


RULES = (
    Rule("a closed object of the evaluated properties", "unevaluatedProperties", _close_properties),
    Rule("a closed array of the evaluated items", "unevaluatedItems", _close_items),
    Rule("alternatives with and without the condition", "if", _condition),
    Rule("the complement", "not", _complement),
    Rule("alternatives with and without the property", "dependentRequired", _dependent_required),
    Rule("alternatives with and without the property", "dependentSchemas", _dependent_schemas),
    Rule("a closed object of the names", "propertyNames", _property_names),
    Rule("counts and places of items", "contains", _contains),
    Rule("all arrays of distinct items", "uniqueItems", _unique_items),
    Rule("anyOf with branches that exclude each other", "oneOf", _one_of),
)
"""In the order of application: what asks for evaluated parts comes before what takes branches apart."""
