"""The drafts of JSON Schema that constrain reads: which keywords each has, and where subschemas stand in them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from referencing import Specification
from referencing import jsonschema as specifications

from constrain.errors import InvalidSchemaError
from constrain.schema.json_text import join_pointer

Position = Literal["schema", "array", "map", "schema_or_array", "map_or_names"]
"""How a keyword holds subschemas: as its value, in a list, in an object, either of two, or in an object whose values
may also be lists of property names (``dependencies``)."""

_DRAFT4: dict[str, Position] = {
    "additionalItems": "schema", "additionalProperties": "schema", "allOf": "array", "anyOf": "array",
    "definitions": "map", "dependencies": "map_or_names", "items": "schema_or_array", "not": "schema",
    "oneOf": "array", "patternProperties": "map", "properties": "map",
}  # fmt: skip
_DRAFT6: dict[str, Position] = {**_DRAFT4, "contains": "schema", "propertyNames": "schema"}
_DRAFT7: dict[str, Position] = {**_DRAFT6, "else": "schema", "if": "schema", "then": "schema"}
_DRAFT2019: dict[str, Position] = {
    **{name: position for name, position in _DRAFT7.items() if name != "dependencies"},
    "$defs": "map", "contentSchema": "schema", "dependentSchemas": "map",
    "unevaluatedItems": "schema", "unevaluatedProperties": "schema",
}  # fmt: skip
_DRAFT2020: dict[str, Position] = {
    **{name: position for name, position in _DRAFT2019.items() if name != "additionalItems"},
    "items": "schema", "prefixItems": "array",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One draft. ``positions`` maps each keyword that holds subschemas to how it holds them."""

    name: str
    uri: str
    specification: Specification[Any]
    positions: dict[str, Position]
    id_keyword: str = "$id"
    ref_hides_siblings: bool = False
    """Up to draft 7, every keyword beside ``$ref`` is ignored."""

    def __repr__(self) -> str:
        return f"Dialect({self.name})"

    def children(self, schema: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
        """``(keyword, pointer relative to schema, subschema)`` for every subschema that stands right in ``schema``.

        A value of the wrong shape is passed over: ``check_shapes`` reports it.
        """
        for keyword, value in schema.items():
            position = self.positions.get(keyword)
            if position is None:
                continue
            if isinstance(value, dict) and position.startswith("map"):
                for name, item in value.items():
                    if isinstance(item, dict | bool):
                        yield keyword, join_pointer("", keyword, name), item
            elif isinstance(value, list) and position.endswith("array"):
                for index, item in enumerate(value):
                    yield keyword, join_pointer("", keyword, index), item
            elif isinstance(value, dict | bool) and position.startswith("schema"):
                yield keyword, join_pointer("", keyword), value


DRAFT_4 = Dialect("draft4", "http://json-schema.org/draft-04/schema", specifications.DRAFT4, _DRAFT4, "id", True)
DRAFT_6 = Dialect("draft6", "http://json-schema.org/draft-06/schema", specifications.DRAFT6, _DRAFT6, "$id", True)
DRAFT_7 = Dialect("draft7", "http://json-schema.org/draft-07/schema", specifications.DRAFT7, _DRAFT7, "$id", True)
DRAFT_2019_09 = Dialect(
    "draft2019-09", "https://json-schema.org/draft/2019-09/schema", specifications.DRAFT201909, _DRAFT2019
)
DRAFT_2020_12 = Dialect(
    "draft2020-12", "https://json-schema.org/draft/2020-12/schema", specifications.DRAFT202012, _DRAFT2020
)
DIALECTS = (DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12)
_BY_URI = {dialect.uri: dialect for dialect in DIALECTS}
_BY_NAME = {uri.partition("://")[2]: dialect for uri, dialect in _BY_URI.items()}
"""Without the scheme: schemas in the wild say http and https of every draft."""


def dialect_of(schema: Any, default: Dialect = DRAFT_2020_12, *, pointer: str = "") -> Dialect:
    """The dialect that the ``$schema`` of ``schema`` names, or ``default`` where it has none."""
    if not isinstance(schema, dict) or "$schema" not in schema:
        return default
    uri = schema["$schema"]
    scheme, _, name = uri.removesuffix("#").partition("://") if isinstance(uri, str) else ("", "", "")
    dialect = _BY_NAME.get(name) if scheme in ("http", "https") else None
    if dialect is None:
        supported = ", ".join(_BY_URI)
        place = join_pointer(pointer, "$schema")
        message = f"at {place}: the dialect {uri!r} is unknown; supported are {supported}"
        raise InvalidSchemaError(message, pointer=place)
    return dialect
