"""The rules that take a keyword out of a schema in normal form where no equivalence does.

Each only loosens: whatever is valid before is valid after. They are for places that speak for a value: what stands
under ``not`` or beside the branches of an ``if`` has been taken out before anything inside is looked at.
``tests/schema/loosening`` holds each against a validator.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from constrain.schema.loosening.reach import evaluated_at_most
from constrain.schema.negate import negate
from constrain.schema.normal import Normal, NormalObject, NormalSchema
from constrain.schema.proofs import ALL_TYPES, as_type, conjuncts, finite_values, kinds
from constrain.schema.rules import any_of, both, conjoin

Loosen = Callable[[Normal, NormalObject], NormalSchema]


@dataclass(frozen=True, slots=True)
class LooseRule:
    """``change`` takes ``keyword``, with ``others``, out of any schema that has it. ``name`` stands in reports."""

    name: str
    keyword: str
    change: Loosen
    others: tuple[str, ...] = ()


def _close_properties(normal: Normal, schema: NormalObject) -> NormalSchema:
    inside, rest = schema["unevaluatedProperties"], schema.without("unevaluatedProperties")
    known = evaluated_at_most(normal, rest, "properties")
    if known.everything:
        return rest
    closed: dict[str, Any] = {name: NormalObject(schema.origin) for name in known.names}
    patterns = {name: NormalObject(schema.origin) for name in known.patterns}
    keywords = {"properties": closed, "patternProperties": patterns, "additionalProperties": inside}
    return conjoin(rest, NormalObject(schema.origin, {name: value for name, value in keywords.items() if value != {}}))


def _close_items(normal: Normal, schema: NormalObject) -> NormalSchema:
    inside, rest = schema["unevaluatedItems"], schema.without("unevaluatedItems")
    known = evaluated_at_most(normal, rest, "items")
    if known.everything:
        return rest
    closing = NormalObject(schema.origin, {"items": inside})
    if known.num_items:
        closing["prefixItems"] = [NormalObject(schema.origin) for _ in range(known.num_items)]
    return conjoin(rest, closing)


def _condition(normal: Normal, schema: NormalObject) -> NormalSchema:
    rest = schema.without("if", "then", "else")
    holds = both(schema.origin, schema["if"], schema.get("then", NormalObject(schema.origin)))
    return conjoin(rest, any_of(schema.origin, [holds, schema.get("else", NormalObject(schema.origin))]))


def _complement(normal: Normal, schema: NormalObject) -> NormalSchema:
    """Of ``not: {anyOf: …}``, the branches whose complement is known."""
    inside, made = schema["not"], schema.without("not")
    if not isinstance(inside, NormalObject) or set(inside) - {"anyOf"}:
        return made
    within = kinds(normal, made)
    known: list[NormalSchema] = []
    for branch in inside.get("anyOf", ()):
        outside = negate(normal, branch, within)
        known += [] if outside is None else [outside]
    return conjoin(made, both(schema.origin, *known))


def _property_names(normal: Normal, schema: NormalObject) -> NormalSchema:
    """A closed object of the names, as far as a list, a pattern or a length says which they can be."""
    names, rest = schema["propertyNames"], schema.without("propertyNames")
    listed = finite_values(normal, names)
    if listed is not None:
        known = {name: NormalObject(schema.origin) for name in listed if isinstance(name, str)}
        return conjoin(rest, NormalObject(schema.origin, {"properties": known, "additionalProperties": False}))
    parts = [part for part in conjuncts(normal, names) if isinstance(part, NormalObject)]
    patterns = [part["pattern"] for part in parts if "pattern" in part]
    most = min((part["maxLength"] for part in parts if "maxLength" in part), default=None)
    if most is not None:
        patterns.append(f"^[\\s\\S]{{0,{most}}}$")
    if not patterns:
        return rest
    closed = {"patternProperties": {patterns[0]: NormalObject(schema.origin)}, "additionalProperties": False}
    return conjoin(rest, NormalObject(schema.origin, closed))


def _contains(normal: Normal, schema: NormalObject) -> NormalSchema:
    rest = schema.without("contains", "minContains", "maxContains")
    least, most = schema.get("minContains", 1), schema.get("maxContains")
    if most is not None and most < least:
        return conjoin(rest, NormalObject(schema.origin, {"type": as_type(ALL_TYPES - {"array"})}))
    return conjoin(rest, NormalObject(schema.origin, {"minItems": least} if least else {}))


def _unique_items(normal: Normal, schema: NormalObject) -> NormalSchema:
    """No more items than there are values for them."""
    rest = schema.without("uniqueItems")
    values = finite_values(normal, rest["items"]) if "items" in rest and not rest.get("prefixItems") else None
    return rest if values is None else conjoin(rest, NormalObject(schema.origin, {"maxItems": len(values)}))


def _one_of(normal: Normal, schema: NormalObject) -> NormalSchema:
    return conjoin(schema.without("oneOf"), any_of(schema.origin, schema["oneOf"]))


LOOSE_RULES = (
    LooseRule("a closed object of all that may be evaluated", "unevaluatedProperties", _close_properties),
    LooseRule("a closed array of all that may be evaluated", "unevaluatedItems", _close_items),
    LooseRule("the condition with then, or else alone", "if", _condition, ("then", "else")),
    LooseRule("the complements that are known", "not", _complement),
    LooseRule("a closed object of names that may be", "propertyNames", _property_names),
    LooseRule("a least number of items", "contains", _contains, ("minContains", "maxContains")),
    LooseRule("no more items than values", "uniqueItems", _unique_items),
    LooseRule("anyOf", "oneOf", _one_of),
)
"""One for each keyword that an exact rule takes out and can fail at; dependent properties always have an equivalent."""
