"""JSON Schema and the Python types that become one: loading, the exact validator, the inventory of keywords."""

from constrain.schema.dialects import (
    DIALECTS,
    DRAFT_4,
    DRAFT_6,
    DRAFT_7,
    DRAFT_2019_09,
    DRAFT_2020_12,
    Dialect,
)
from constrain.schema.documents import Documents
from constrain.schema.graph import SchemaGraph, SchemaNode
from constrain.schema.inventory import KeywordUse, inventory
from constrain.schema.limits import SchemaLimits
from constrain.schema.load import load_graph, parse_schema
from constrain.schema.python_types import Constraint, as_constraint, as_grammar_spec
from constrain.schema.report import (
    KeywordReport,
    SchemaReport,
    SchemaSupport,
    schema_report,
    unsupported_keywords,
)
from constrain.schema.validate import Validator

__all__ = [
    "DIALECTS",
    "DRAFT_4",
    "DRAFT_6",
    "DRAFT_7",
    "DRAFT_2019_09",
    "DRAFT_2020_12",
    "Constraint",
    "Dialect",
    "Documents",
    "KeywordReport",
    "KeywordUse",
    "SchemaGraph",
    "SchemaLimits",
    "SchemaNode",
    "SchemaReport",
    "SchemaSupport",
    "Validator",
    "as_constraint",
    "as_grammar_spec",
    "inventory",
    "load_graph",
    "parse_schema",
    "schema_report",
    "unsupported_keywords",
]
