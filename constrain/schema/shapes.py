"""What the meta-schemas ask of the value of each keyword.

The meta-schemas' own words, as a table: validating through ``jsonschema`` costs a millisecond a subschema and overflows
the stack on deep ones. ``tests/schema/test_shapes.py`` holds the table against the meta-schemas themselves. Values
that occur twice in an ``enum`` and an empty ``required``, which only draft 4 forbids, pass: real schemas have them, and
they mean nothing.
"""

import re
from collections import deque
from collections.abc import Callable
from typing import Any

from constrain.errors import InvalidSchemaError, LimitExceededError
from constrain.schema.dialects import (
    DIALECTS,
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019_09,
    DRAFT_2020_12,
    Dialect,
    dialect_of,
)
from constrain.schema.json_text import join_pointer
from constrain.schema.limits import DEFAULT_LIMITS, SchemaLimits

TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
Shape = tuple[str, Callable[[Any], bool]]


def check_all_shapes(schema: Any, dialect: Dialect, limits: SchemaLimits = DEFAULT_LIMITS) -> dict[int, Dialect]:
    """``check_shapes`` for ``schema`` and every subschema inside it; without recursion.

    Returns the dialect of each subschema that is an object, by ``id()``.
    """
    dialects: dict[int, Dialect] = {}
    todo = deque([(schema, dialect, "")])
    num_subschemas = 0
    while todo:
        value, dialect, pointer = todo.popleft()
        num_subschemas += 1
        if num_subschemas > limits.max_subschemas:
            raise LimitExceededError(f"the schema has more than max_subschemas={limits.max_subschemas} subschemas")
        dialect = dialect_of(value, dialect, pointer=pointer)
        check_shapes(value, dialect, pointer)
        if isinstance(value, dict):
            dialects[id(value)] = dialect
            todo.extend((child, dialect, pointer + place) for _, place, child in dialect.children(value))
    return dialects


def check_shapes(schema: Any, dialect: Dialect, pointer: str) -> None:
    """Raise ``InvalidSchemaError`` unless every keyword of the one subschema ``schema`` has the shape of its draft.

    Subschemas inside it are not entered.
    """
    if isinstance(schema, bool) and dialect is not DRAFT_4:
        return
    if not isinstance(schema, dict) and not (isinstance(schema, bool) and _allows_boolean(pointer)):
        wanted = "an object" if dialect is DRAFT_4 else "an object, true or false"
        raise InvalidSchemaError(f"at {pointer or '/'}: a schema is {wanted}, not {_show(schema)}", pointer=pointer)
    if isinstance(schema, bool):
        return
    for keyword, value in schema.items():
        shape = _SHAPES[dialect].get(keyword)
        if shape is not None and not shape[1](value):
            place = join_pointer(pointer, keyword)
            older = _of_older_drafts(keyword, value, dialect)
            message = f"at {place}: {keyword} must be {shape[0]}, not {_show(value)} ({dialect.name}{older})"
            raise InvalidSchemaError(message, pointer=place)
        if dialect.positions.get(keyword) is not None:
            _check_children(keyword, value, dialect, pointer)
    if dialect is DRAFT_4:
        for name in ("minimum", "maximum"):
            exclusive = f"exclusive{name.capitalize()}"
            if exclusive in schema and name not in schema:
                place = join_pointer(pointer, exclusive)
                raise InvalidSchemaError(f"at {place}: {exclusive} needs {name} beside it (draft4)", pointer=place)


def _check_children(keyword: str, value: Any, dialect: Dialect, pointer: str) -> None:
    """The shape of what holds subschemas; they are checked when they are visited, unless they cannot be visited."""
    position = dialect.positions[keyword]
    place = join_pointer(pointer, keyword)
    if position == "schema":
        if isinstance(value, list):
            older = _of_older_drafts(keyword, value, dialect)
            message = f"at {place}: {keyword} must be a schema, not {_show(value)} ({dialect.name}{older})"
            raise InvalidSchemaError(message, pointer=place)
        if not isinstance(value, dict | bool):
            check_shapes(value, dialect, place)
    elif position in ("map", "map_or_names"):
        if not isinstance(value, dict):
            raise InvalidSchemaError(f"at {place}: {keyword} must be an object, not {_show(value)}", pointer=place)
        for name, item in value.items():
            names = position == "map_or_names" and isinstance(item, list)
            if names and not (_is_names(item) and (item or dialect is not DRAFT_4)):
                inner = join_pointer(place, name)
                message = f"at {inner}: want a schema or a list of distinct names, not {_show(item)}"
                raise InvalidSchemaError(message, pointer=inner)
            if not names and not isinstance(item, dict | bool):
                check_shapes(item, dialect, join_pointer(place, name))
    elif isinstance(value, list):
        if not value:
            raise InvalidSchemaError(f"at {place}: {keyword} needs at least one schema", pointer=place)
    elif position == "array":
        raise InvalidSchemaError(f"at {place}: {keyword} must be a list of schemas, not {_show(value)}", pointer=place)
    elif not isinstance(value, dict | bool):
        check_shapes(value, dialect, place)


def _of_older_drafts(keyword: str, value: Any, dialect: Dialect) -> str:
    """What an error adds where an older draft allows ``value``."""
    for draft in reversed(DIALECTS[: DIALECTS.index(dialect)]):
        shape = _SHAPES[draft].get(keyword)
        holds_lists = draft.positions.get(keyword, "schema") != "schema"
        if shape[1](value) if shape else holds_lists and isinstance(value, list):
            return f"; {draft.name} allows it: give $schema or dialect="
    return ""


def _allows_boolean(pointer: str) -> bool:
    return pointer.endswith(("/additionalItems", "/additionalProperties"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and int(value) == value


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value) and len(set(value)) == len(value)


def _is_type(value: Any) -> bool:
    names = [value] if isinstance(value, str) else value
    return _is_names(names) and bool(names) and all(name in TYPES for name in names)


def _is_names_map(value: Any) -> bool:
    return isinstance(value, dict) and all(_is_names(item) for item in value.values())


def _matches(pattern: str) -> Callable[[Any], bool]:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _show(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_NUMBER: Shape = ("a number", _is_number)
_COUNT: Shape = ("an integer of 0 or more", _is_count)
_POSITIVE: Shape = ("a number above 0", lambda value: _is_number(value) and value > 0)
_TEXT: Shape = ("a string", lambda value: isinstance(value, str))
_BOOLEAN: Shape = ("true or false", lambda value: isinstance(value, bool))
_LIST: Shape = ("a list", lambda value: isinstance(value, list))
_NAMES: Shape = ("a list of distinct names", _is_names)
_TYPE: Shape = (f"one of {', '.join(TYPES)}, or a list of distinct ones", _is_type)
_ID: Shape = ("a URI without a fragment", _matches(r"[^#]*#?"))

_COMMON: dict[str, Shape] = {
    "$schema": _TEXT, "$ref": _TEXT, "title": _TEXT, "description": _TEXT, "format": _TEXT, "pattern": _TEXT,
    "multipleOf": _POSITIVE, "maximum": _NUMBER, "minimum": _NUMBER,
    "exclusiveMaximum": _NUMBER, "exclusiveMinimum": _NUMBER,
    "maxLength": _COUNT, "minLength": _COUNT, "maxItems": _COUNT, "minItems": _COUNT,
    "maxProperties": _COUNT, "minProperties": _COUNT,
    "uniqueItems": _BOOLEAN, "required": _NAMES, "enum": _LIST, "type": _TYPE,
}  # fmt: skip
_SINCE_6: dict[str, Shape] = {**_COMMON, "$id": _TEXT, "examples": _LIST}
_SINCE_7: dict[str, Shape] = {
    **_SINCE_6, "$comment": _TEXT, "readOnly": _BOOLEAN, "contentMediaType": _TEXT, "contentEncoding": _TEXT,
}  # fmt: skip
_SINCE_2019: dict[str, Shape] = {
    **_SINCE_7, "$id": _ID, "writeOnly": _BOOLEAN, "deprecated": _BOOLEAN,
    "maxContains": _COUNT, "minContains": _COUNT,
    "dependentRequired": ("an object of lists of distinct names", _is_names_map),
    "$anchor": ("a name", _matches(r"[A-Za-z][-A-Za-z0-9.:_]*")),
    "$vocabulary": ("an object", lambda value: isinstance(value, dict)),
}  # fmt: skip
_SHAPES: dict[Dialect, dict[str, Shape]] = {
    DRAFT_4: {
        **_COMMON, "id": _TEXT, "exclusiveMaximum": _BOOLEAN, "exclusiveMinimum": _BOOLEAN,
        "enum": ("a list of at least one value", lambda value: isinstance(value, list) and bool(value)),
    },
    DRAFT_6: _SINCE_6,
    DRAFT_7: _SINCE_7,
    DRAFT_2019_09: {**_SINCE_2019, "$recursiveRef": _TEXT, "$recursiveAnchor": _BOOLEAN},
    DRAFT_2020_12: {
        **_SINCE_2019, "$dynamicRef": _TEXT,
        "$dynamicAnchor": ("a name", _matches(r"[A-Za-z_][-A-Za-z0-9._]*")),
        "$anchor": ("a name", _matches(r"[A-Za-z_][-A-Za-z0-9._]*")),
    },
}  # fmt: skip


def keywords_with_shape(dialect: Dialect) -> frozenset[str]:
    """The keywords of ``dialect`` that hold no subschemas."""
    return _KEYWORDS[dialect]


_KEYWORDS = {
    dialect: frozenset(shapes) | {"default"} | (frozenset() if dialect is DRAFT_4 else {"const"})
    for dialect, shapes in _SHAPES.items()
}
