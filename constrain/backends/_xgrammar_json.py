"""The JSON schemas that xgrammar enforces exactly: a short list, and each entry has a test.

xgrammar 0.2.9 drops in silence what it does not know, by keyword and by combination of keywords. So this is a list of
what is right, not of what is wrong; ``tests/backends/test_xgrammar.py`` shows the drops.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from constrain.errors import Unsupported

if TYPE_CHECKING:
    from constrain.schema.rewrite import Rewritten

Schema = dict[str, Any]

MAX_DEPTH = 30
"""Nested objects and arrays compile in superlinear time (arrays 300 deep: 2.3 s)."""

MAX_ENUM = 500
MAX_OPTIONAL = 100
"""1,000 optional properties compile in 8 s and take 27 ms a mask; 200 take 0.3 s."""

_BY_TYPE = {
    "null": frozenset[str](),
    "boolean": frozenset[str](),
    "number": frozenset[str](),
    "string": frozenset[str](),
    "integer": frozenset({"minimum", "maximum"}),
    "array": frozenset({"items", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
_PLAIN_STRING = re.compile(r'[^\x00-\x1f\x7f"\\\ud800-\udfff]*')


def unsupported_schema(schema: "Rewritten") -> list[Unsupported]:
    """Every place of ``schema`` that is not on the list."""
    for pointer, depth in schema.depths():
        if depth > MAX_DEPTH:
            return [Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", pointer)]
    # A closed object is on the list; what closes it is no place of its own.
    closing = {id(node.children.get("/additionalProperties")) for node in schema.graph.nodes}
    return [
        item
        for node in schema.graph.nodes
        if node.applied and not (node.schema is False and id(node) in closing)
        for item in _unsupported_node(node.pointer, node.schema)
    ]


def _unsupported_node(pointer: str, schema: Any) -> Iterator[Unsupported]:
    if not isinstance(schema, dict):
        yield Unsupported("a schema that is false", pointer, "false")
        return
    for item in _unsupported_here(pointer, schema):
        inside = item.keyword is not None and item.keyword in schema
        yield Unsupported(item.reason, f"{pointer}/{item.keyword}" if inside else pointer, item.keyword)


def _unsupported_here(pointer: str, schema: Schema) -> Iterator[Unsupported]:
    keywords = set(schema) - {"$defs"}
    if "$ref" in schema:
        yield from _others(pointer, keywords, "$ref")
    elif "anyOf" in schema:
        yield from _others(pointer, keywords, "anyOf")
    elif "enum" in schema or "const" in schema:
        yield from _unsupported_values(pointer, schema, keywords)
    else:
        yield from _unsupported_type(pointer, schema, keywords)


def _unsupported_values(pointer: str, schema: Schema, keywords: set[str]) -> Iterator[Unsupported]:
    keyword = "enum" if "enum" in schema else "const"
    values = schema["enum"] if keyword == "enum" else [schema["const"]]
    # `type` beside enum is dropped; where every value has that type, nothing is lost.
    name = schema.get("type")
    if isinstance(name, str) and all(_has_type(value, name) for value in values):
        keywords = keywords - {"type"}
    yield from _others(pointer, keywords, keyword)
    if not values or len(values) > MAX_ENUM:
        yield Unsupported(f"{len(values)} values: want 1 to {MAX_ENUM}", pointer, keyword)
    for value in values:
        plain = value is None or (isinstance(value, bool | int) and abs(value) <= 10**15)
        if not plain and not (isinstance(value, str) and _PLAIN_STRING.fullmatch(value)):
            yield Unsupported(f"{keyword} with other values than integers and plain strings", pointer, keyword)
            return


def _unsupported_type(pointer: str, schema: Schema, keywords: set[str]) -> Iterator[Unsupported]:
    name = schema.get("type")
    if not isinstance(name, str) or name not in _BY_TYPE:
        for keyword in sorted(keywords - {"type"}) or [None]:  # type: ignore[list-item]
            yield Unsupported("a schema without a single type", pointer, keyword)
        return
    for keyword in sorted(keywords - _BY_TYPE[name] - {"type"}):
        yield Unsupported(f"{keyword} for {name}s is not enforced exactly", pointer, keyword)
    for keyword in ("minimum", "maximum", "minItems", "maxItems"):
        value = schema.get(keyword, 0)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 10**15:
            yield Unsupported(f"{keyword} {value!r}: want an integer of up to 15 digits", pointer, keyword)
    if name == "array" and "items" not in schema:
        yield Unsupported("an array of anything", pointer)
    if name == "object":
        yield from _unsupported_object(pointer, schema)
    low, high = schema.get("minItems", 0), schema.get("maxItems", 10**15)
    if schema.get("minimum", -(10**15)) > schema.get("maximum", 10**15) or low > high:
        yield Unsupported("bounds that leave nothing", pointer)


def _unsupported_object(pointer: str, schema: Schema) -> Iterator[Unsupported]:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("additionalProperties") is not False:
        yield Unsupported("an object without additionalProperties: false", pointer, "additionalProperties")
    unknown = sorted(set(required) - set(properties))
    if unknown:
        yield Unsupported(f"required names {unknown}, which properties lacks", pointer, "required")
    if len(set(properties) - set(required)) > MAX_OPTIONAL:
        yield Unsupported(f"more than {MAX_OPTIONAL} optional properties", pointer, "properties")
    if not all(_PLAIN_STRING.fullmatch(name) for name in properties):
        yield Unsupported("a property name that must be escaped", pointer, "properties")


def _others(pointer: str, keywords: set[str], keyword: str) -> Iterator[Unsupported]:
    for other in sorted(keywords - {keyword}):
        yield Unsupported(f"{other} beside {keyword} is not enforced", pointer, other)


def _has_type(value: Any, name: str) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "integer" | "number":
            return isinstance(value, int) and not isinstance(value, bool)
    return False
