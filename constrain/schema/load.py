"""The way in: whatever a caller calls a schema becomes plain, checked, self-contained data."""

from collections.abc import Mapping
from typing import Any

from constrain.errors import InvalidSchemaError
from constrain.schema.bundle import bundle
from constrain.schema.dialects import DRAFT_2020_12, Dialect
from constrain.schema.documents import Documents
from constrain.schema.graph import SchemaGraph, build_graph
from constrain.schema.json_text import copy_json, parse_json_text
from constrain.schema.limits import DEFAULT_LIMITS, SchemaLimits
from constrain.schema.progress import check_progress
from constrain.schema.sizes import check_sizes

Schema = Mapping[str, Any] | bool | str


def parse_schema(
    schema: Schema,
    *,
    documents: Documents | Mapping[str, Schema] | None = None,
    dialect: Dialect = DRAFT_2020_12,
    limits: SchemaLimits = DEFAULT_LIMITS,
) -> dict[str, Any] | bool:
    """The data of ``schema``, parsed or JSON text: a deep copy that holds JSON's types only.

    Checked against the meta-schema of its ``$schema`` (``dialect`` without one), every reference followed into the
    schema, the meta-schemas and ``documents``, every regular expression parsed. Nothing is fetched. The documents
    that references lead to are bundled into the result, and a ``dialect`` is named in it, so that it stands alone.

    Raises ``InvalidSchemaError`` with the JSON pointer, ``LimitExceededError``, and ``UnsupportedGrammarError`` for a
    regular expression that is beyond Python's.
    """
    graph = load_graph(schema, documents=documents, dialect=dialect, limits=limits)
    bundled = bundle(graph)
    if isinstance(bundled, dict) and "$schema" not in bundled and dialect is not DRAFT_2020_12:
        bundled = {"$schema": dialect.uri, **bundled}
    if bundled is not graph.root.schema:
        load_graph(bundled, dialect=dialect, limits=limits)
    return bundled


def load_graph(
    schema: Schema,
    *,
    documents: Documents | Mapping[str, Schema] | None = None,
    dialect: Dialect = DRAFT_2020_12,
    limits: SchemaLimits = DEFAULT_LIMITS,
) -> SchemaGraph:
    """As ``parse_schema``, with every reference resolved."""
    if not isinstance(schema, Mapping | bool | str):
        wanted = "a mapping, true, false or JSON text"
        raise InvalidSchemaError(f"a schema is {wanted}, not {type(schema).__name__}; give a type to as_constraint()")
    data = parse_json_text(schema, limits) if isinstance(schema, str) else copy_json(schema, limits)
    if not isinstance(data, dict | bool):
        raise InvalidSchemaError(f"a schema is a JSON object, true or false, not {data!r:.60}")
    known = documents if isinstance(documents, Documents) else Documents(documents, limits=limits)
    graph = build_graph(data, known, dialect=dialect, limits=limits)
    check_progress(graph)
    check_sizes(graph, limits)
    return graph
