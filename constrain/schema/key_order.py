"""Objects whose properties may come in any order: where that is so, and how to say it of a small closed object.

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


def _has_order(value: Any) -> bool:
    """Whether an object of several keys is in ``value``."""
    if isinstance(value, dict):
        return len(value) > 1 or any(map(_has_order, value.values()))
    return isinstance(value, list) and any(map(_has_order, value))
