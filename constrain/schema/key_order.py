"""What fixes the order of keys, or the form of numbers; and how to say a small closed object in any order.

A grammar of an object lists its properties in one order. All orders of a few are as many alternatives.
"""

from itertools import permutations
from typing import Any

from constrain.schema.graph import SchemaNode
from constrain.schema.normal import NormalObject, NormalSchema

MAX_PERMUTED = 4
_UNORDERED = frozenset({"type", "properties", "required", "additionalProperties", "minProperties", "maxProperties"})


def permuted(schema: NormalObject) -> NormalSchema:
    """A closed object of a few properties as alternatives, one for each order; anything else as it is."""
    names = list(schema.get("properties", ()))
    closed = schema.get("additionalProperties") is False and schema.get("type") in ("object", ["object"])
    if not closed or set(schema) - _UNORDERED or not 2 <= len(names) <= MAX_PERMUTED:
        return schema
    if set(schema.get("required", ())) - set(names):
        return schema
    branches = []
    for order in permutations(names):
        branch = NormalObject(schema.origin, schema)
        branch["properties"] = {name: schema["properties"][name] for name in order}
        branch.ordered = False
        branches.append(branch)
    return NormalObject(schema.origin, {"anyOf": branches})


def ordered_keyword(node: SchemaNode) -> str | None:
    """The keyword of ``node`` that fixes the order of some keys; None if there is none."""
    if not isinstance(node.schema, dict):
        return None
    keywords = node.keywords
    names = {*keywords.get("properties", ()), *keywords.get("required", ())}
    alone = len(names) == 1 and keywords.get("additionalProperties") is False
    if names and not alone:
        return "properties" if "properties" in keywords else "required"
    values = {"const": [keywords.get("const")], "enum": keywords.get("enum", ())}
    return next((name for name, items in values.items() if name in keywords and _has_order(list(items))), None)


def unformed_keyword(node: SchemaNode) -> str | None:
    """The keyword of ``node`` that fixes the form of some numbers; None if there is none."""
    if not isinstance(node.schema, dict):
        return None
    keywords = node.keywords
    bounds = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    values = {"const": [keywords.get("const")], "enum": keywords.get("enum", ())}
    listed = [name for name, items in values.items() if name in keywords and _has_number(list(items))]
    named = [name for name in bounds if name in keywords]
    types = [keywords["type"]] if isinstance(keywords.get("type"), str) else keywords.get("type", ())
    return next(iter([*listed, *named, *(["type"] if "integer" in types else [])]), None)


def _has_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has_order(value: Any) -> bool:
    """Whether an object of several keys is in ``value``."""
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_has_order, value.values()))
    return isinstance(value, list) and any(map(_has_order, value))
