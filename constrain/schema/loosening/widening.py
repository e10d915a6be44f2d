"""Loose schemas in which keys come in any order and numbers in any form that JSON has for them.

llguidance writes listed properties, and required ones, in one order, and integers, bounded numbers and listed ones in
one form. Patterns for keys have no order; numbers without bounds have every form.
"""

import re
from typing import Any

from constrain.schema.normal import NormalObject, NormalSchema

_FORMS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_PLAIN = re.compile(r"[A-Za-z0-9_]")


def widened(schema: NormalObject) -> NormalSchema:
    """One subschema, its children done: without what fixes an order or a form."""
    made = schema.without("required", "const", "enum", *_FORMS)
    if "type" in made:
        names = [made["type"]] if isinstance(made["type"], str) else made["type"]
        made["type"] = sorted({"number" if name == "integer" else name for name in names})
    if "properties" in made:
        named = {f"^{_escaped(name)}$": value for name, value in made.pop("properties").items()}
        made["patternProperties"] = {**named, **made.get("patternProperties", {})}
    listed = [schema["const"]] if "const" in schema else []
    for values in (listed, schema.get("enum", [])):
        if values:
            made["allOf"] = [*made.get("allOf", ()), _one_of_values(schema.origin, values)]
    return made


def _one_of_values(origin: str, values: list[Any]) -> NormalObject:
    plain = [value for value in values if value is None or isinstance(value, bool | str)]
    others = [_like(origin, value) for value in values if not (value is None or isinstance(value, bool | str))]
    branches = [*([NormalObject(origin, {"enum": plain})] if plain else []), *others]
    unique = [branch for index, branch in enumerate(branches) if branch not in branches[:index]]
    return unique[0] if len(unique) == 1 else NormalObject(origin, {"anyOf": unique})


def _like(origin: str, value: Any) -> NormalObject:
    """Whatever is written like ``value``, with numbers and the order of keys left open."""
    if isinstance(value, dict):
        keys = {f"^{_escaped(name)}$": _like(origin, item) for name, item in value.items()}
        closed = {"patternProperties": keys} if keys else {}
        return NormalObject(origin, {"type": "object", **closed, "additionalProperties": False})
    if isinstance(value, list):
        items = [_like(origin, item) for item in value]
        prefix = {"prefixItems": items} if items else {}
        return NormalObject(origin, {"type": "array", **prefix, "items": False, "minItems": len(value)})
    if value is None or isinstance(value, bool | str):
        return NormalObject(origin, {"const": value})
    return NormalObject(origin, {"type": "number"})


def _escaped(name: str) -> str:
    return "".join(char if _PLAIN.match(char) or ord(char) > 127 else f"\\x{ord(char):02x}" for char in name)
