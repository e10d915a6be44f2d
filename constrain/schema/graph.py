"""A schema as a graph: one node for each subschema, with every reference resolved to the node that it means."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urldefrag, urljoin

import referencing
import referencing.exceptions
from referencing.jsonschema import DynamicAnchor, lookup_recursive_ref

from constrain.errors import InvalidSchemaError, LimitExceededError
from constrain.schema.dialects import DRAFT_2019_09, DRAFT_2020_12, Dialect, dialect_of
from constrain.schema.documents import Documents, places_of
from constrain.schema.json_text import join_pointer
from constrain.schema.limits import DEFAULT_LIMITS, SchemaLimits
from constrain.schema.shapes import check_all_shapes, check_shapes

DEFINITIONS = ("$defs", "definitions")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_OPAQUE = referencing.Specification.OPAQUE.create_resource
_Resolved: Any = referencing._core.Resolved

# What dynamic references depend on: the resources with dynamic anchors passed through, outermost first.
_Scope = tuple[str, ...]
_Resolver = Any  # referencing's Resolver; its generics say nothing here


@dataclass(slots=True, eq=False)
class SchemaNode:
    """One subschema, in one dynamic scope.

    ``pointer`` is its JSON pointer in the schema; in another ``document``, ``uri#pointer``. ``schema`` is the subschema
    itself, owned by the graph's document: read it only. ``children`` maps pointers relative to it, such as
    ``/properties/name``, to the subschemas there, and ``references`` each reference keyword to its target.
    ``applied`` is false for a definition that nothing refers to.
    """

    pointer: str
    schema: dict[str, Any] | bool
    dialect: Dialect
    document: str = ""
    children: dict[str, "SchemaNode"] = field(default_factory=dict)
    references: dict[str, "SchemaNode"] = field(default_factory=dict)
    applied: bool = False

    def __repr__(self) -> str:
        return f"SchemaNode({self.pointer or '/'})"

    def child(self, *tokens: str | int) -> "SchemaNode":
        """The subschema at a keyword and, where that holds several, a name or an index."""
        return self.children[join_pointer("", *tokens)]

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords that count: up to draft 7 nothing stands beside ``$ref``."""
        if isinstance(self.schema, bool):
            return {}
        if self.dialect.ref_hides_siblings and "$ref" in self.references:
            return {"$ref": self.schema["$ref"]}
        return self.schema

    @property
    def successors(self) -> Iterator["SchemaNode"]:
        """The nodes that this one applies, to its own instance or to a part of it."""
        yield from self.references.values()
        hidden = self.dialect.ref_hides_siblings and self.references
        for pointer, node in self.children.items():
            if not hidden and not pointer.startswith(("/$defs/", "/definitions/")):
                yield node


@dataclass(frozen=True, slots=True)
class SchemaGraph:
    """The nodes, breadth first from ``root`` and then document by document; each subschema once."""

    root: SchemaNode
    nodes: tuple[SchemaNode, ...]
    documents: Documents


def build_graph(
    schema: dict[str, Any] | bool,
    documents: Documents | None = None,
    *,
    dialect: Dialect = DRAFT_2020_12,
    limits: SchemaLimits = DEFAULT_LIMITS,
) -> SchemaGraph:
    """Resolve ``schema``, as ``copy_json`` gives it; the graph shares it. ``dialect`` is for one without ``$schema``.

    Raises ``InvalidSchemaError`` for a keyword of the wrong shape and for a reference that leads nowhere,
    ``LimitExceededError`` for too many subschemas. Nothing here recurses.
    """
    # Before anything resolves: referencing walks all subschemas and takes their shape for granted.
    dialects = check_all_shapes(schema, dialect_of(schema, dialect), limits)
    return _Builder(schema, documents or Documents(), dialect_of(schema, dialect), dialects, limits).build()


class _Builder:
    def __init__(
        self, schema: Any, documents: Documents, dialect: Dialect, dialects: dict[int, Dialect], limits: SchemaLimits
    ) -> None:
        self._schema, self._documents, self._dialect, self._limits = schema, documents, dialect, limits
        self._places = {**documents.places, **places_of(schema)}
        registry, known = documents.registry(dialect)
        self._dialects = {**known, **dialects}
        root = dialect.specification.create_resource(schema) if isinstance(schema, dict) else _OPAQUE(schema)
        self._resolver: _Resolver = registry.resolver_with_root(root)
        self._nodes: dict[tuple[Any, ...], SchemaNode] = {}
        self._todo: deque[tuple[SchemaNode, _Resolver]] = deque()
        self._dynamic: dict[str, bool] = {}

    def build(self) -> SchemaGraph:
        root = self._visit(self._schema, self._dialect, self._resolver, "")
        self._expand_all()
        _mark_applied(root)
        nodes = tuple(self._nodes.values())
        return SchemaGraph(root, tuple(sorted(nodes, key=lambda node: node.document)), self._documents)

    def _visit(self, schema: Any, dialect: Dialect, resolver: _Resolver, place: str) -> SchemaNode:
        """The node of ``schema``, whose base URI ``resolver`` already has; new ones are queued."""
        document, place = self._places.get(id(schema), ("", place))
        key = (id(schema) if isinstance(schema, dict) else place, resolver._base_uri, self._scope(resolver))
        node = self._nodes.get(key)
        if node is None:
            if len(self._nodes) >= self._limits.max_subschemas:
                limit = f"max_subschemas={self._limits.max_subschemas}"
                raise LimitExceededError(f"with its references resolved, the schema has more than {limit} subschemas")
            dialect = dialect_of(schema, dialect, pointer=place)
            check_shapes(schema, dialect, place)
            node = self._nodes[key] = SchemaNode(place, schema, dialect, document)
            self._todo.append((node, resolver))
        return node

    def _expand_all(self) -> None:
        while self._todo:
            node, resolver = self._todo.popleft()
            if not isinstance(node.schema, dict):
                continue
            for keyword in _reference_keywords(node.schema, node.dialect):
                node.references[keyword] = self._follow(node, keyword, resolver)
            for _, pointer, child in node.dialect.children(node.schema):
                dialect = dialect_of(child, node.dialect, pointer=node.pointer + pointer)
                inside = resolver
                if isinstance(child, dict):  # referencing 0.37 looks for the id of a draft 4 boolean
                    inside = resolver.in_subresource(dialect.specification.create_resource(child))
                node.children[pointer] = self._visit(child, dialect, inside, node.pointer + pointer)

    def _follow(self, node: SchemaNode, keyword: str, resolver: _Resolver) -> SchemaNode:
        assert isinstance(node.schema, dict)
        reference, place = node.schema[keyword], join_pointer(node.pointer, keyword)
        try:
            resolved = _lookup(keyword, reference, resolver)
        except (referencing.exceptions.Unresolvable, LookupError, TypeError, ValueError, AttributeError) as exc:
            message = (
                f"at {place}: the {keyword} {reference!r} leads nowhere; it must name a place in this schema, a "
                f"meta-schema or a document registered as documents={{uri: schema}} (nothing is ever fetched)"
            )
            raise InvalidSchemaError(message, pointer=place) from exc
        target = resolved.contents
        if not isinstance(target, dict | bool):
            message = f"at {place}: the {keyword} {reference!r} leads to a {type(target).__name__}, which is no schema"
            raise InvalidSchemaError(message, pointer=place)
        dialect = self._dialects.get(id(target)) or self._dialect_at(resolved, node.dialect)
        # The target's own $id, where it has one, is part of the resolver that comes back.
        return self._visit(target, dialect, resolved.resolver, place)

    def _dialect_at(self, resolved: Any, default: Dialect) -> Dialect:
        """The dialect where no keyword puts a subschema, but a reference finds one: that of the resource's root."""
        try:
            root = resolved.resolver._registry.get_or_retrieve(resolved.resolver._base_uri).value.contents
        except referencing.exceptions.NoSuchResource:
            return default
        inherits = root is self._schema or not isinstance(root, dict) or "$schema" not in root
        return default if inherits else dialect_of(root, default)

    def _scope(self, resolver: _Resolver) -> _Scope:
        scope: dict[str, None] = {}
        for uri, registry in (*reversed(list(resolver.dynamic_scope())), (resolver._base_uri, resolver._registry)):
            if uri not in self._dynamic:
                self._dynamic[uri] = _has_dynamic_anchor(uri, registry)
            if self._dynamic[uri]:
                scope[uri] = None
        return tuple(scope)


def _reference_keywords(schema: dict[str, Any], dialect: Dialect) -> list[str]:
    known = {"$ref"}
    if dialect is DRAFT_2020_12:
        known.add("$dynamicRef")
    elif dialect is DRAFT_2019_09:
        known.add("$recursiveRef")
    return [keyword for keyword in REFERENCES if keyword in known and isinstance(schema.get(keyword), str)]


def _lookup(keyword: str, reference: str, resolver: _Resolver) -> Any:
    if keyword == "$recursiveRef":
        return lookup_recursive_ref(resolver)
    uri, fragment = urldefrag(urljoin(resolver._base_uri, reference))
    if keyword == "$ref" and fragment and not fragment.startswith("/"):
        # referencing 0.37 resolves a $ref to a $dynamicAnchor dynamically; it means the place where it stands.
        uri = resolver._base_uri if reference.startswith("#") else uri
        retrieved = resolver._registry.anchor(uri, fragment)
        if isinstance(retrieved.value, DynamicAnchor):
            inside = resolver._evolve(registry=retrieved.registry, base_uri=uri)
            return _Resolved(contents=retrieved.value.resource.contents, resolver=inside)
    return resolver.lookup(reference)


def _has_dynamic_anchor(uri: str, registry: Any) -> bool:
    try:
        contents = registry.get_or_retrieve(uri).value.contents
    except referencing.exceptions.NoSuchResource:
        return False
    todo = [contents]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if "$dynamicAnchor" in value or value.get("$recursiveAnchor") is True:
                return True
            todo.extend(value.values())
        elif isinstance(value, list):
            todo.extend(value)
    return False


def _mark_applied(root: SchemaNode) -> None:
    todo = [root]
    while todo:
        node = todo.pop()
        if not node.applied:
            node.applied = True
            todo.extend(node.successors)
