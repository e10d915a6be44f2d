"""A schema in one normal form, whatever its draft: what rewriting rules and backends read.

Draft 2020-12 in meaning; every reference, dynamic ones too, is ``{"$ref": "#/$defs/N"}`` to a definition of its own in
its dynamic scope; only keywords that can refuse a value or that ``unevaluated...`` asks about are left; ``true`` is
``{}``; counts and integral numbers are integers. Each subschema knows its place in the schema that it came from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from constrain.schema.dialects import DRAFT_4, DRAFT_2020_12
from constrain.schema.graph import SchemaGraph, SchemaNode
from constrain.schema.inventory import KeywordUse
from constrain.schema.json_text import join_pointer

_MAX_EXACT = 10**15


class NormalObject(dict[str, Any]):
    """A subschema that is an object.

    ``origin`` is the JSON pointer of what it stands for in the schema as given; ``ordered`` is false where it is one of
    several that differ in the order of their properties only.
    """

    __slots__ = ("ordered", "origin")

    def __init__(self, origin: str, keywords: dict[str, Any] | None = None) -> None:
        super().__init__(keywords or {})
        self.origin = origin
        self.ordered = True

    def without(self, *keywords: str) -> "NormalObject":
        """A shallow copy that lacks ``keywords``."""
        return NormalObject(self.origin, {key: value for key, value in self.items() if key not in keywords})

    def only(self, *keywords: str) -> "NormalObject":
        """A shallow copy of ``keywords`` alone, where they are there."""
        return NormalObject(self.origin, {key: value for key, value in self.items() if key in keywords})


NormalSchema: TypeAlias = NormalObject | bool
"""A ``NormalObject``, or ``False``."""


@dataclass(slots=True)
class Normal:
    """A root and the definitions that references lead to."""

    root: NormalSchema
    definitions: dict[str, NormalSchema] = field(default_factory=dict)
    contains_evaluates: bool | None = True
    """Whether ``contains`` evaluates items, as it does since draft 2020-12; None where drafts are mixed."""

    def target(self, schema: NormalObject) -> NormalSchema:
        """What the ``$ref`` of ``schema`` leads to."""
        return self.definitions[schema["$ref"].removeprefix("#/$defs/")]


def children(schema: NormalObject) -> Iterator[tuple[tuple[str | int, ...], NormalSchema]]:
    """``(path, subschema)`` of every subschema right inside ``schema``; definitions are not inside."""
    for keyword, value in schema.items():
        position = DRAFT_2020_12.positions.get(keyword)
        if position == "schema":
            yield (keyword,), value
        elif position == "array":
            yield from (((keyword, index), item) for index, item in enumerate(value))
        elif position == "map":
            yield from (((keyword, name), item) for name, item in value.items())


def with_children(schema: NormalObject, change: Any) -> NormalObject:
    """``schema`` with ``change(subschema)`` in the place of every subschema."""
    changed = NormalObject(schema.origin, schema)
    for keyword, value in schema.items():
        position = DRAFT_2020_12.positions.get(keyword)
        if position == "schema":
            changed[keyword] = change(value)
        elif position == "array":
            changed[keyword] = [change(item) for item in value]
        elif position == "map":
            changed[keyword] = {name: change(item) for name, item in value.items()}
    return changed


def normalise(graph: SchemaGraph, uses: list[KeywordUse]) -> Normal:
    """``graph`` in normal form; ``uses`` is its inventory, which knows what is effective."""
    return _Normaliser(uses).run(graph)


class _Normaliser:
    def __init__(self, uses: list[KeywordUse]) -> None:
        self._effective = {use.pointer for use in uses if use.effective}
        self._names: dict[int, str] = {}
        self._todo: list[SchemaNode] = []

    def run(self, graph: SchemaGraph) -> Normal:
        root = self._schema(graph.root)
        drafts = {node.dialect is DRAFT_2020_12 for node in graph.nodes if "contains" in node.keywords}
        normal = Normal(root, contains_evaluates=True if not drafts else drafts.pop() if len(drafts) == 1 else None)
        while self._todo:
            node = self._todo.pop()
            normal.definitions[self._names[id(node)]] = self._schema(node)
        return normal

    def _name(self, node: SchemaNode) -> str:
        if id(node) not in self._names:
            self._names[id(node)] = str(len(self._names))
            self._todo.append(node)
        return self._names[id(node)]

    def _schema(self, node: SchemaNode) -> NormalSchema:
        if isinstance(node.schema, bool):
            return NormalObject(node.pointer) if node.schema else False
        out = NormalObject(node.pointer)
        for keyword, value in node.keywords.items():
            if join_pointer(node.pointer, keyword) in self._effective:
                self._add(out, node, keyword, value)
        return out

    def _add(self, out: NormalObject, node: SchemaNode, keyword: str, value: Any) -> None:
        position = node.dialect.positions.get(keyword)
        if keyword in node.references:
            self._add_reference(out, node, keyword)
        elif keyword == "items" and isinstance(value, list):
            out["prefixItems"] = [self._schema(node.child(keyword, index)) for index in range(len(value))]
        elif keyword == "additionalItems":
            out["items"] = self._schema(node.child(keyword))
        elif keyword == "dependencies" and position is not None:
            self._add_dependencies(out, node, value)
        elif position is not None and position.startswith("schema"):
            out[keyword] = self._schema(node.child(keyword))
        elif position == "array":
            items = [self._schema(node.child(keyword, index)) for index in range(len(value))]
            out[keyword] = [*items, *out.get(keyword, ())]
        elif position is not None:
            out[keyword] = {name: self._schema(node.child(keyword, name)) for name in value}
        elif node.dialect is DRAFT_4 and keyword in ("exclusiveMinimum", "exclusiveMaximum"):
            bound = keyword.removeprefix("exclusive").lower()
            out.pop(bound, None)
            out[keyword] = exact_number(node.keywords[bound])
        elif not (keyword in ("minimum", "maximum") and f"exclusive{keyword.capitalize()}" in out and _draft4(node)):
            out[keyword] = exact_numbers(value)

    def _add_reference(self, out: NormalObject, node: SchemaNode, keyword: str) -> None:
        name = self._name(node.references[keyword])
        reference = {"$ref": f"#/$defs/{name}"}
        if "$ref" in out:
            out["allOf"] = [*out.get("allOf", ()), NormalObject(join_pointer(node.pointer, keyword), reference)]
        else:
            out.update(reference)

    def _add_dependencies(self, out: NormalObject, node: SchemaNode, value: dict[str, Any]) -> None:
        names = {name: item for name, item in value.items() if isinstance(item, list)}
        if names:
            out["dependentRequired"] = names
        if len(names) < len(value):
            out["dependentSchemas"] = {
                name: self._schema(node.child("dependencies", name)) for name in value if name not in names
            }


def _draft4(node: SchemaNode) -> bool:
    return node.dialect is DRAFT_4


def exact_number(value: Any) -> Any:
    """An integral float as the integer that it is."""
    integral = isinstance(value, float) and value == int(value) and abs(value) <= _MAX_EXACT
    return int(value) if integral else value


def exact_numbers(value: Any) -> Any:
    """``exact_number`` in every place of ``value``."""
    if isinstance(value, dict):
        return {key: exact_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact_numbers(item) for item in value]
    return exact_number(value)
