"""The places of a JSON schema that a validator would visit, with their pointers.

A backend must look at every keyword that its library may read, and at nothing else: an ``enum`` may hold a mapping
that only looks like a schema. The full treatment of schemas is ``constrain.schema``; this is what a backend needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

_ONE = (
    "additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LIST = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_MAP = ("properties", "patternProperties", "dependentSchemas", "dependencies")


@dataclass(frozen=True, slots=True)
class Place:
    """A subschema, its pointer, and how many steps it stands from the root."""

    pointer: str
    schema: Schema
    depth: int


@dataclass(frozen=True, slots=True)
class Reach:
    """The subschemas that an instance may meet, each once.

    ``exact``: every reference was a pointer into the document and could be followed. Otherwise (anchors, an inner
    ``$id``) every mapping of the document stands for a schema, those inside an ``enum`` too: look, but change nothing.
    """

    places: list[Place]
    exact: bool


def reachable_schemas(root: Schema) -> Reach:
    """What an instance may meet from ``root`` on, in the order of the document."""
    seen: set[int] = set()
    places: list[Place] = []
    exact = True
    stack: list[tuple[str, Any, int]] = [("", root, 0)]
    while stack:
        pointer, schema, depth = stack.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        places.append(Place(pointer, schema, depth))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = resolve_pointer(root, reference)
            exact = exact and target is not None
            stack.append((unquote(reference[1:]), target, depth + 1))
        exact = exact and not (pointer and isinstance(schema.get("$id", schema.get("id")), str))
        # Reversed, so that the first keyword of the document comes out of the stack first.
        stack.extend((*child, depth + 1) for child in reversed(list(_children(pointer, schema))))
    if not exact:
        places += [place for place in _mappings(root) if id(place.schema) not in seen]
    return Reach(places, exact)


def resolve_pointer(root: Schema, reference: str) -> Any:
    """What ``#/a/b`` points to in ``root``; None for another kind of reference, or one that leads nowhere."""
    if not reference.startswith("#"):
        return None
    place: Any = root
    for part in reference[1:].split("/")[1:] if reference != "#" else []:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and name in place:
            place = place[name]
        elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
            place = place[int(name)]
        else:
            return None
    return place if reference == "#" or reference.startswith("#/") else None


def child_pointer(pointer: str, *names: str | int) -> str:
    """``pointer`` with ``names`` appended, escaped as RFC 6901 wants."""
    return pointer + "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)


def _children(pointer: str, schema: Schema) -> Iterator[tuple[str, Any]]:
    for keyword in _ONE:
        if isinstance(schema.get(keyword), dict):
            yield child_pointer(pointer, keyword), schema[keyword]
    for keyword in _LIST:
        if isinstance(schema.get(keyword), list):
            for index, item in enumerate(schema[keyword]):
                yield child_pointer(pointer, keyword, index), item
    for keyword in _MAP:
        if isinstance(schema.get(keyword), dict):
            for name, item in schema[keyword].items():
                yield child_pointer(pointer, keyword, name), item


def _mappings(root: Schema) -> Iterator[Place]:
    stack: list[tuple[str, Any, int]] = [("", root, 0)]
    while stack:
        pointer, place, depth = stack.pop()
        if isinstance(place, dict):
            yield Place(pointer, place, depth)
            stack.extend((child_pointer(pointer, name), item, depth + 1) for name, item in place.items())
        elif isinstance(place, list):
            stack.extend((child_pointer(pointer, index), item, depth + 1) for index, item in enumerate(place))
