"""Loose schemas in which keys come in any order, and numbers in any form that JSON has for them.

llguidance writes listed properties, and required ones, in one order, and integers, bounded numbers and listed ones in
one form. Patterns for keys have no order; numbers without bounds have every form.
"""

import re
from typing import Any

from constrain.schema.normal import NormalObject

_FORMS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_PLAIN = re.compile(r"[A-Za-z0-9_]")


def widened(schema: NormalObject, *, any_order: bool, any_form: bool) -> NormalObject:
    """One subschema without what fixes the order of keys, or the form of numbers."""
    made = schema
    if any_order:
        made = made.without("required")
        if "properties" in made:
            named = {f"^{_escaped(name)}$": value for name, value in made.pop("properties").items()}
            made["patternProperties"] = {**named, **made.get("patternProperties", {})}
    if any_form:
        made = made.without(*_FORMS)
        if "type" in made:
            names = [made["type"]] if isinstance(made["type"], str) else made["type"]
            made["type"] = sorted({"number" if name == "integer" else name for name in names})
    return _spelled_out(made, any_order, any_form)


def _spelled_out(schema: NormalObject, any_order: bool, any_form: bool) -> NormalObject:
    """Listed values as schemas, where they can be written in another way."""
    made = NormalObject(schema.origin, schema)
    for keyword in ("const", "enum"):
        if keyword not in made:
            continue
        values = made["enum"] if keyword == "enum" else [made["const"]]
        like = [_like(schema.origin, value, any_order, any_form) for value in values]
        if all(item.keys() == {"const"} for item in like):
            continue
        del made[keyword]
        plain = [item["const"] for item in like if "const" in item]
        branches = [NormalObject(schema.origin, {"enum": plain})] if plain else []
        branches += [item for index, item in enumerate(like) if "const" not in item and item not in like[:index]]
        choice = branches[0] if len(branches) == 1 else NormalObject(schema.origin, {"anyOf": branches})
        made["allOf"] = [*made.get("allOf", ()), choice]
    return made


def _like(origin: str, value: Any, any_order: bool, any_form: bool) -> NormalObject:
    """Whatever is written like ``value``, in another order or another form; ``const`` where there is none."""

    def inner(item: Any) -> NormalObject:
        return _like(origin, item, any_order, any_form)

    if isinstance(value, dict):
        items = {name: inner(item) for name, item in value.items()}
        if any("const" not in item for item in items.values()) or (any_order and len(items) > 1):
            closed = {"patternProperties": {f"^{_escaped(name)}$": item for name, item in items.items()}}
            listed = closed if any_order else {"properties": items, "required": list(items)}
            return NormalObject(origin, {"type": "object", **listed, "additionalProperties": False})
    elif isinstance(value, list):
        parts = [inner(item) for item in value]
        if any("const" not in item for item in parts):
            sized = {"prefixItems": parts, "items": False, "minItems": len(parts)}
            return NormalObject(origin, {"type": "array", **sized})
    elif any_form and isinstance(value, int | float) and not isinstance(value, bool):
        return NormalObject(origin, {"type": "number"})
    return NormalObject(origin, {"const": value})


def _escaped(name: str) -> str:
    return "".join(char if _PLAIN.match(char) or ord(char) > 127 else f"\\x{ord(char):02x}" for char in name)
