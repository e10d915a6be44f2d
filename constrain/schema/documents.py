"""The documents that references may lead to: those that the caller registers, and the meta-schemas."""

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import referencing
from referencing.jsonschema import SchemaRegistry

from constrain.errors import InvalidInputError, InvalidSchemaError
from constrain.schema.dialects import DIALECTS, DRAFT_2020_12, Dialect, dialect_of
from constrain.schema.json_text import copy_json, join_pointer, parse_json_text
from constrain.schema.limits import DEFAULT_LIMITS, SchemaLimits
from constrain.schema.shapes import check_all_shapes


class Documents:
    """JSON Schemas by URI, for ``$ref`` to lead to. Immutable. Nothing is ever fetched.

    ``documents`` maps absolute URIs to schemas, parsed or as JSON text. The meta-schemas of the supported drafts
    are always there.
    """

    def __init__(
        self,
        documents: Mapping[str, Mapping[str, Any] | bool | str] | None = None,
        *,
        limits: SchemaLimits = DEFAULT_LIMITS,
    ) -> None:
        self._contents: dict[str, Any] = {}
        for uri, document in (documents or {}).items():
            try:
                is_text = isinstance(document, str)
                contents = parse_json_text(str(document), limits) if is_text else copy_json(document, limits)
            except InvalidSchemaError as exc:
                raise InvalidSchemaError(f"document {uri}: {exc}", pointer=exc.pointer, position=exc.position) from exc
            self._contents[uri.removesuffix("#")] = contents
        self._registries: dict[Dialect, tuple[SchemaRegistry, dict[int, Dialect]]] = {}
        self.places = {**_metaschemas()[1]}
        for uri, contents in self._contents.items():
            self.places.update(places_of(contents, uri))

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """``(uri, contents)`` of what the caller registered, for reading only."""
        return iter(self._contents.items())

    def registry(self, default: Dialect = DRAFT_2020_12) -> tuple[SchemaRegistry, dict[int, Dialect]]:
        """All documents, those without ``$schema`` read as ``default``, and the dialect of every subschema in them."""
        if default not in self._registries:
            registry, _, dialects = _metaschemas()
            dialects = dict(dialects)
            for uri, contents in self._contents.items():
                resource = _OPAQUE(contents)
                try:
                    dialects |= check_all_shapes(contents, dialect_of(contents, default))
                    resource = dialect_of(contents, default).specification.create_resource(contents)
                except InvalidInputError:
                    # Reported with its place if a reference leads there; referencing stumbles over it looking for ids.
                    pass
                registry = registry.with_resource(uri, resource)
            self._registries[default] = registry, dialects
        return self._registries[default]


_OPAQUE = referencing.Specification.OPAQUE.create_resource


def places_of(contents: Any, uri: str = "") -> dict[int, tuple[str, str]]:
    """The place of every object in ``contents``, by ``id()``: its document, and its pointer there, after ``uri#``."""
    places: dict[int, tuple[str, str]] = {}
    todo: deque[tuple[Any, str]] = deque([(contents, f"{uri}#" if uri else "")])
    while todo:
        value, place = todo.popleft()
        if isinstance(value, Mapping):
            places[id(value)] = uri, place
            todo.extend((item, join_pointer(place, key)) for key, item in value.items())
        elif isinstance(value, list):
            todo.extend((item, join_pointer(place, index)) for index, item in enumerate(value))
    return places


@cache
def _metaschemas() -> tuple[SchemaRegistry, dict[int, tuple[str, str]], dict[int, Dialect]]:
    """The meta-schemas of the supported drafts with their vocabularies, which retrieve nothing, and what is in them."""
    import jsonschema_specifications  # type: ignore[import-untyped]

    registry: SchemaRegistry = jsonschema_specifications.REGISTRY.crawl()
    places: dict[int, tuple[str, str]] = {}
    dialects: dict[int, Dialect] = {}
    for uri in registry:
        if is_metaschema(uri):
            contents: Any = registry.contents(uri)
            places |= places_of(contents, uri.removesuffix("#"))
            dialects |= check_all_shapes(contents, dialect_of(contents))
    return registry, places, dialects


def is_metaschema(uri: str) -> bool:
    """Whether ``uri`` is that of a document which every loader has."""
    return uri.startswith(tuple(dialect.uri.removesuffix("schema") for dialect in DIALECTS))
