"""The keys of an instance in the order in which a schema lists them.

A grammar may write the keys of an object in the order of the schema only, so a valid instance has to be brought into
that order before it is judged; the order of keys never decides whether an instance is valid.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from constrain.schema import SchemaGraph, SchemaNode

_MAX_DEPTH = 100


def in_schema_order(instance: Any, graph: SchemaGraph) -> Any:
    """A copy of ``instance`` with the keys of every object in schema order, as well as that can be told.

    At each place, the subschemas that may apply are taken in this order: the schema itself, then what it reaches in
    place through ``$ref``, ``allOf``, ``anyOf``, ``oneOf``, ``if``, ``then``, ``else`` and dependent schemas, as they
    are written, branches that plainly do not fit (by ``type``, ``required``, ``const`` and ``enum``) left out. Keys
    come in the order of an equal ``const`` or ``enum`` value, then in that in which ``properties`` name them first,
    then in that of a ``required``, then the others as they stand.
    """
    return _ordered(instance, [graph.root], 0)


def _ordered(value: Any, nodes: Sequence[SchemaNode], depth: int) -> Any:
    if depth > _MAX_DEPTH or not isinstance(value, dict | list):
        return value
    here = list(_in_place(nodes, value))
    if isinstance(value, list):
        return [_ordered(item, _item_nodes(here, index), depth + 1) for index, item in enumerate(value)]
    named = [name for node in here for literal in _literals(node) if literal == value for name in literal]
    named += [name for node in here for name in _names(node, "properties")]
    named += [name for node in here for name in _names(node, "required")]
    keys = dict.fromkeys([*(name for name in named if name in value), *value])
    return {key: _ordered(value[key], _property_nodes(here, key), depth + 1) for key in keys}


def _in_place(nodes: Sequence[SchemaNode], value: Any) -> Iterator[SchemaNode]:
    """``nodes`` and everything that they apply to the same value, each once, depth first."""
    seen: set[int] = set()
    todo = list(reversed(nodes))
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        inside = [*node.references.values()]
        for pointer, child in node.children.items() if not _hidden(node) else ():
            keyword = pointer.split("/", 2)[1]
            if (
                keyword in ("allOf", "if", "then", "else")
                or (keyword in ("anyOf", "oneOf") and _may_fit(child, value))
                or (keyword in ("dependentSchemas", "dependencies") and _token(pointer) in value)
            ):
                inside.append(child)
        todo.extend(reversed(inside))


def _hidden(node: SchemaNode) -> bool:
    return node.dialect.ref_hides_siblings and bool(node.references)


def _token(pointer: str) -> str:
    return pointer.split("/", 2)[2].replace("~1", "/").replace("~0", "~")


def _names(node: SchemaNode, keyword: str) -> list[str]:
    names = node.keywords.get(keyword, ())
    return [name for name in names if isinstance(name, str)] if isinstance(names, dict | list) else []


def _literals(node: SchemaNode) -> list[dict[str, Any]]:
    literals = [node.keywords["const"]] if "const" in node.keywords else []
    enum = node.keywords.get("enum", ())
    return [literal for literal in (*literals, *enum) if isinstance(literal, dict)]


def _property_nodes(here: Sequence[SchemaNode], key: str) -> list[SchemaNode]:
    found: list[SchemaNode] = []
    for node in here:
        if _hidden(node):
            continue
        named = [child for pointer, child in node.children.items() if pointer.startswith("/properties/")]
        own = [child for child in named if child is node.children.get("/properties/" + _escaped(key))]
        patterned = [child for pointer, child in node.children.items() if pointer.startswith("/patternProperties/")]
        rest = [child for pointer, child in node.children.items() if pointer in _REST_OF_PROPERTIES]
        found += own or [*patterned, *rest]
    return found


def _item_nodes(here: Sequence[SchemaNode], index: int) -> list[SchemaNode]:
    found: list[SchemaNode] = []
    for node in here:
        if _hidden(node):
            continue
        placed = [node.children.get(f"/{keyword}/{index}") for keyword in ("prefixItems", "items")]
        rest = [child for pointer, child in node.children.items() if pointer in _REST_OF_ITEMS]
        found += [child for child in placed if child is not None] or rest
    return found


_REST_OF_PROPERTIES = ("/additionalProperties", "/unevaluatedProperties")
_REST_OF_ITEMS = ("/items", "/additionalItems", "/unevaluatedItems", "/contains")


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _may_fit(node: SchemaNode, value: Any) -> bool:
    """Whether nothing plain says that ``value`` is not of ``node``; through references, but no deeper."""
    for _ in range(_MAX_DEPTH):
        if node.schema is False:
            return False
        keywords = node.keywords
        if not _type_fits(keywords.get("type"), value):
            return False
        if isinstance(value, dict):
            if any(name not in value for name in _names(node, "required")):
                return False
            for name, item in value.items():
                child = None if _hidden(node) else node.children.get("/properties/" + _escaped(name))
                if child is not None and not _value_fits(child, item):
                    return False
            closed = keywords.get("additionalProperties") is False and "patternProperties" not in keywords
            if closed and any(name not in _names(node, "properties") for name in value):
                return False
        target = node.references.get("$ref")
        if target is None:
            return True
        node = target
    return True


def _value_fits(node: SchemaNode, value: Any) -> bool:
    keywords = node.keywords
    if node.schema is False or ("const" in keywords and keywords["const"] != value):
        return False
    return ("enum" not in keywords or value in keywords["enum"]) and _type_fits(keywords.get("type"), value)


def _type_fits(types: Any, value: Any) -> bool:
    if types is None:
        return True
    names = [types] if isinstance(types, str) else types
    if isinstance(value, bool):
        return "boolean" in names
    if isinstance(value, int | float):
        return "number" in names or ("integer" in names and value == int(value))
    wanted = {dict: "object", list: "array", str: "string", type(None): "null"}[type(value)]
    return wanted in names
