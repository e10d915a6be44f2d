"""From the graph of a schema to the nodes of a program: what each draft's keywords say."""

from typing import Any

from constrain.errors import LimitExceededError, Unsupported, UnsupportedGrammarError
from constrain.schema.dialects import DRAFT_4, DRAFT_2020_12
from constrain.schema.evaluation.formats import format_check
from constrain.schema.evaluation.kinds import KINDS_OF_TYPE
from constrain.schema.evaluation.nodes import Node, NodeTable
from constrain.schema.evaluation.pattern_automaton import pattern_of
from constrain.schema.evaluation.values import exact_number
from constrain.schema.graph import SchemaGraph, SchemaNode
from constrain.schema.json_text import join_pointer

MAX_IN_PLACE = 150
"""How long a chain of subschemas for one and the same value may be (a reference counts as one link)."""

_COUNTS = {
    "minLength": "min_length", "maxLength": "max_length", "minItems": "min_items", "maxItems": "max_items",
    "minProperties": "min_properties", "maxProperties": "max_properties",
}  # fmt: skip
_SUBSCHEMAS = {
    "not": "negated", "if": "condition", "then": "then", "else": "otherwise", "additionalProperties": "additional",
    "propertyNames": "property_names", "unevaluatedProperties": "unevaluated_properties", "contains": "contains",
    "unevaluatedItems": "unevaluated_items",
}  # fmt: skip


def read_nodes(graph: SchemaGraph, table: NodeTable, *, assert_formats: bool) -> Node:
    """Fill ``table`` with the nodes of ``graph``; returns the root's."""
    applied = [node for node in graph.nodes if node.applied]
    made = {id(node): table.new(node.pointer) for node in applied}
    for node in applied:
        _Reader(node, made, table).read(assert_formats)
    _check_depth(table.nodes)
    return made[id(graph.root)]


class _Reader:
    def __init__(self, source: SchemaNode, made: dict[int, Node], table: NodeTable) -> None:
        self._source, self._made, self._table = source, made, table
        self._node = made[id(source)]
        self._keywords = source.keywords

    def read(self, assert_formats: bool) -> None:
        if isinstance(self._source.schema, bool):
            self._node.is_false = not self._source.schema
            return
        self._node.all_of = [self._made[id(target)] for target in self._source.references.values()]
        self._read_subschemas()
        self._read_objects()
        self._read_arrays()
        self._read_scalars()
        if assert_formats and "format" in self._keywords:
            self._node.format = format_check(self._keywords["format"], self._source)
        self._node.refuse_strings()

    def _child(self, *tokens: str | int) -> Node:
        return self._made[id(self._source.child(*tokens))]

    def _has(self, keyword: str) -> bool:
        """Whether the draft knows the keyword as one that holds subschemas, and it stands here."""
        return keyword in self._keywords and keyword in self._source.dialect.positions

    def _children(self, keyword: str) -> list[Node]:
        return [self._child(keyword, index) for index in range(len(self._keywords[keyword]))]

    def _read_subschemas(self) -> None:
        node = self._node
        for keyword, name in _SUBSCHEMAS.items():
            if self._has(keyword):
                setattr(node, name, self._child(keyword))
        if node.condition is None:
            node.then = node.otherwise = None
        if self._has("allOf"):
            node.all_of += self._children("allOf")
        if self._has("anyOf"):
            node.any_of = self._children("anyOf")
        if self._has("oneOf"):
            node.one_of = self._children("oneOf")

    def _read_objects(self) -> None:
        node, keywords = self._node, self._keywords
        for name in keywords.get("properties", ()):
            node.properties[name] = self._child("properties", name)
        for pattern in keywords.get("patternProperties", ()):
            node.pattern_properties.append((pattern_of(pattern), self._child("patternProperties", pattern)))
        node.required = tuple(keywords.get("required", ()))
        if "dependentSchemas" in self._source.dialect.positions:
            for name in keywords.get("dependentSchemas", ()):
                node.dependent_schemas[name] = self._child("dependentSchemas", name)
            for name, names in keywords.get("dependentRequired", {}).items():
                node.dependent_required[name] = tuple(names)
        if self._has("dependencies"):
            for name, value in keywords["dependencies"].items():
                if isinstance(value, list):
                    node.dependent_required[name] = tuple(value)
                else:
                    node.dependent_schemas[name] = self._child("dependencies", name)
        elif keywords.get("dependencies"):
            reason = "dependencies is ignored from draft 2019-09 on; write dependentRequired or dependentSchemas"
            unsupported = Unsupported(reason, join_pointer(node.pointer, "dependencies"), "dependencies")
            raise UnsupportedGrammarError(str(unsupported), unsupported=[unsupported])

    def _read_arrays(self) -> None:
        node, keywords, dialect = self._node, self._keywords, self._source.dialect
        if self._has("prefixItems"):
            node.first_items = self._children("prefixItems")
        if isinstance(keywords.get("items"), list):
            node.first_items = self._children("items")
            if self._has("additionalItems"):
                node.other_items = self._child("additionalItems")
        elif "items" in keywords:
            node.other_items = self._child("items")
        node.unique = keywords.get("uniqueItems") is True
        node.contains_evaluates = dialect is DRAFT_2020_12
        if node.contains is not None and "unevaluatedItems" in dialect.positions:
            node.min_contains = int(keywords.get("minContains", 1))
            node.max_contains = int(keywords["maxContains"]) if "maxContains" in keywords else None

    def _read_scalars(self) -> None:
        node, keywords, dialect = self._node, self._keywords, self._source.dialect
        if "type" in keywords:
            self._read_type(keywords["type"])
        if "enum" in keywords:
            node.values.append(self._table.values(keywords["enum"], node.pointer))
        if "const" in keywords and dialect is not DRAFT_4:
            node.values.append(self._table.values([keywords["const"]], node.pointer))
        for keyword, name in _COUNTS.items():
            if keyword in keywords:
                setattr(node, name, int(keywords[keyword]))
        if "pattern" in keywords:
            node.patterns = [pattern_of(keywords["pattern"])]
        if "multipleOf" in keywords:
            node.multiple_of = exact_number(keywords["multipleOf"])
        for side in ("minimum", "maximum"):
            exclusive = f"exclusive{side.capitalize()}"
            if side in keywords:
                strict = dialect is DRAFT_4 and keywords.get(exclusive) is True
                setattr(node, f"exclusive_{side}" if strict else side, exact_number(keywords[side]))
            if exclusive in keywords and dialect is not DRAFT_4:
                setattr(node, f"exclusive_{side}", exact_number(keywords[exclusive]))

    def _read_type(self, value: Any) -> None:
        names = [value] if isinstance(value, str) else value
        self._node.types = 0
        for name in names:
            self._node.types |= KINDS_OF_TYPE[name]
        if "integer" in names and "number" not in names:
            self._node.integers = "form" if self._source.dialect is DRAFT_4 else "value"


def _check_depth(nodes: list[Node]) -> None:
    """Refuse chains of subschemas for one value that recursion could not follow; circles are refused before."""
    depths: dict[int, int] = {}
    for start in nodes:
        todo = [start]
        while todo:
            node = todo[-1]
            missing = [child for child in node.in_place() if child.number not in depths]
            if missing:
                todo += missing
                continue
            todo.pop()
            depth = 1 + max((depths[child.number] for child in node.in_place()), default=0)
            depths[node.number] = depth
            if depth > MAX_IN_PLACE:
                raise LimitExceededError(
                    f"at {node.pointer or '/'}: more than {MAX_IN_PLACE} subschemas, each in the one before, apply to "
                    f"the same value; make the chain of references shorter"
                )
