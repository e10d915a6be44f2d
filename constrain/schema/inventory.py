"""Every keyword at every place of a schema, and what it could mean to a backend."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from constrain.errors import Unsupported
from constrain.schema.dialects import DIALECTS, DRAFT_2019_09, DRAFT_2020_12, Dialect
from constrain.schema.formats import FORMATS
from constrain.schema.graph import REFERENCES, SchemaGraph, SchemaNode
from constrain.schema.json_text import join_pointer
from constrain.schema.shapes import TYPES, keywords_with_shape

Category = Literal["assertion", "applicator", "annotation", "unknown"]

FALSE_SCHEMA = "false"
"""Stands as the keyword for a subschema that is ``false``."""

# The JSON types that a keyword says something about; a value of another type passes it.
_ABOUT: dict[str, str] = {
    **dict.fromkeys(("multipleOf", "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), "number"),
    **dict.fromkeys(("maxLength", "minLength", "pattern", "format"), "string"),
    **dict.fromkeys(
        ("items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "maxItems", "minItems",
         "uniqueItems", "unevaluatedItems"),
        "array",
    ),
    **dict.fromkeys(
        ("properties", "patternProperties", "additionalProperties", "propertyNames", "required", "maxProperties",
         "minProperties", "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties"),
        "object",
    ),
}  # fmt: skip
_ASSERTIONS = frozenset(
    {"type", "enum", "const", "required", "dependentRequired", "minContains", "maxContains", "uniqueItems"}
    | {"maxItems", "minItems", "maxProperties", "minProperties"}
    | {keyword for keyword, about in _ABOUT.items() if about in ("number", "string") and keyword != "format"}
)
_ALWAYS_ANNOTATIONS = frozenset({"$defs", "definitions", "contentSchema"})


@dataclass(frozen=True, slots=True, eq=False)
class KeywordUse:
    """One keyword at one place: what a backend is asked about.

    ``effective`` is false where the keyword cannot change the verdict on any value: an annotation, ``minLength``
    beside ``"type": "integer"``, ``then`` without ``if``, a place that nothing applies; ``reason`` says why then.
    """

    node: SchemaNode
    keyword: str
    category: Category
    effective: bool = True
    reason: str = ""

    def __repr__(self) -> str:
        return f"KeywordUse({self.pointer}, {self.category})"

    @property
    def pointer(self) -> str:
        """The JSON pointer of the keyword; of the subschema, for one that is ``false``."""
        return self.node.pointer if self.keyword == FALSE_SCHEMA else join_pointer(self.node.pointer, self.keyword)

    @property
    def dialect(self) -> Dialect:
        """The draft that the place is read by."""
        return self.node.dialect

    @property
    def value(self) -> Any:
        """The keyword's value, for reading only."""
        return self.node.schema if isinstance(self.node.schema, bool) else self.node.schema[self.keyword]

    @property
    def siblings(self) -> dict[str, Any]:
        """The other keywords of the same subschema that count there."""
        return {keyword: value for keyword, value in self.node.keywords.items() if keyword != self.keyword}

    @property
    def has_type(self) -> bool:
        """Whether ``type`` stands in the same subschema."""
        return "type" in self.node.keywords

    @property
    def types(self) -> frozenset[str]:
        """The types that ``type`` allows; all without one."""
        return _types(self.node)

    @property
    def about(self) -> str | None:
        """The type of the values that the keyword speaks of: number, string, array or object; None: of any."""
        return _ABOUT.get(self.keyword)

    def child(self, *tokens: str | int) -> SchemaNode:
        """The subschema in the keyword's value, or at a name or an index of it."""
        return self.node.child(self.keyword, *tokens)

    def unsupported(self, reason: str) -> Unsupported:
        """That a backend does not enforce this keyword here, and why."""
        return Unsupported(reason, self.pointer, self.keyword)


def inventory(graph: SchemaGraph, *, assert_formats: bool = False) -> list[KeywordUse]:
    """Every keyword of every subschema, each place once, in the order of the graph.

    ``assert_formats`` makes ``format`` an assertion; by the drafts it is an annotation unless somebody says so.
    """
    uses: dict[str, KeywordUse] = {}
    evaluates = any(keyword.startswith("unevaluated") for node in graph.nodes for keyword in node.keywords)
    for node in graph.nodes:
        for use in _uses_of(node, assert_formats, evaluates):
            known = uses.get(use.pointer)
            # A false subschema shares its pointer with the keyword that holds it, which knows whether it counts.
            if known is None or (use.effective and not known.effective and use.keyword == known.keyword):
                uses[use.pointer] = use
    return list(uses.values())


def effective(uses: Iterable[KeywordUse]) -> list[KeywordUse]:
    """Those that must be enforced: what a backend's walk has to look at."""
    return [use for use in uses if use.effective]


def _uses_of(node: SchemaNode, assert_formats: bool, evaluates: bool) -> Iterable[KeywordUse]:
    if isinstance(node.schema, bool):
        if not node.schema:
            yield KeywordUse(node, FALSE_SCHEMA, "assertion", node.applied, "" if node.applied else _UNUSED)
        return
    counted = node.keywords
    for keyword in node.schema:
        category = _category(keyword, node.dialect, assert_formats)
        if category == "unknown" and keyword == "dependencies" and node.applied and node.schema[keyword]:
            # Drafts from 2019-09 on ignore it, and whoever writes it means it: a constraint that is not dropped.
            category, reason = "assertion", ""
        elif category == "unknown":
            reason = _why_unknown(keyword, node.dialect)
        elif keyword not in counted:
            reason = f"ignored beside $ref ({node.dialect.name})"
        elif keyword == "format" and assert_formats and node.schema[keyword] not in FORMATS:
            category, reason = "annotation", f"no draft defines the format {node.schema[keyword]!r}: it says nothing"
        elif category == "annotation":
            reason = _why_annotation(keyword)
        else:
            reason = _UNUSED if not node.applied else _why_empty(keyword, node, evaluates)
        yield KeywordUse(node, keyword, category, not reason, reason)


_UNUSED = "a definition that nothing refers to"


def _category(keyword: str, dialect: Dialect, assert_formats: bool) -> Category:
    if not _is_known(keyword, dialect):
        return "unknown"
    if keyword in ("$dynamicRef", "$recursiveRef"):
        reads = DRAFT_2020_12 if keyword == "$dynamicRef" else DRAFT_2019_09
        return "applicator" if dialect is reads else "unknown"
    if keyword in REFERENCES or (keyword in dialect.positions and keyword not in _ALWAYS_ANNOTATIONS):
        return "applicator"
    if keyword in _ASSERTIONS or (keyword == "format" and assert_formats):
        return "assertion"
    return "annotation"


def _is_known(keyword: str, dialect: Dialect) -> bool:
    return keyword in keywords_with_shape(dialect) or keyword in dialect.positions


def _why_unknown(keyword: str, dialect: Dialect) -> str:
    others = [other.name for other in DIALECTS if _is_known(keyword, other)]
    where = f"; it is one of {', '.join(others)}" if others else ""
    return f"not a keyword of {dialect.name}, which ignores it{where}"


def _why_annotation(keyword: str) -> str:
    if keyword == "format":
        return "format is an annotation unless formats are asserted"
    if keyword.startswith("$") or keyword in ("id", "definitions"):
        return "names things and constrains nothing by itself"
    return "describes the value and constrains nothing"


def _why_empty(keyword: str, node: SchemaNode, evaluates: bool) -> str:
    """Why an assertion or applicator says nothing where it stands; "" if it does say something.

    ``evaluates``: an ``unevaluated...`` keyword asks somewhere what has been evaluated, if only by ``true``.
    """
    keywords = node.keywords
    about = _ABOUT.get(keyword)
    if about is not None and about not in _types(node):
        return f"speaks of {about}s only, which type excludes"
    needed = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}.get(keyword)
    if needed is not None and needed not in keywords:
        return f"means nothing without {needed}"
    if keyword == "if" and "then" not in keywords and "else" not in keywords and not evaluates:
        return "means nothing without then or else"
    if keyword in _TRUE_MEANS_NOTHING and keywords[keyword] in (True, {}) and not evaluates:
        return "allows everything"
    if keyword == "additionalItems" and not isinstance(keywords.get("items"), list):
        return "means nothing without a list of items"
    if keyword in ("exclusiveMinimum", "exclusiveMaximum") and keywords[keyword] is False:
        return "false is the default"
    if keyword == "uniqueItems" and keywords[keyword] is False:
        return "false is the default"
    if keywords[keyword] in (0, [], {}) and keyword in _EMPTY_MEANS_NOTHING and keywords[keyword] is not False:
        return "allows everything"
    return ""


_TRUE_MEANS_NOTHING = frozenset(
    {"additionalProperties", "items", "additionalItems", "propertyNames", "then", "else"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_EMPTY_MEANS_NOTHING = frozenset(
    {"minLength", "minItems", "minProperties", "required", "dependentRequired", "dependentSchemas", "dependencies"}
    | {"properties", "patternProperties"}
)


def _types(node: SchemaNode) -> frozenset[str]:
    """The types that ``type`` of ``node`` allows; an integer is a number."""
    value = node.keywords.get("type", TYPES)
    names = {value} if isinstance(value, str) else set(value)
    return frozenset(names | {"number"} if "integer" in names else names)
