"""One schema that stands alone: the documents that it refers to, embedded under their own URIs."""

from typing import Any
from urllib.parse import urljoin

from constrain.schema.dialects import Dialect, dialect_of
from constrain.schema.documents import is_metaschema
from constrain.schema.graph import SchemaGraph
from constrain.schema.json_text import copy_json


def bundle(graph: SchemaGraph) -> dict[str, Any] | bool:
    """The schema of ``graph`` with every other document that it reaches among its definitions.

    The meta-schemas stay out, since every loader has them. Without such documents, it is the schema itself.
    """
    documents = _reached(graph)
    schema = graph.root.schema
    if not documents:
        return schema
    assert isinstance(schema, dict)
    bundled: dict[str, Any] = dict(schema)
    keyword = _definitions(graph.root.dialect)
    bundled[keyword] = dict(bundled.get(keyword, {}))
    for uri, (contents, dialect) in documents.items():
        for name, embedded in _embedded(uri, contents, dialect):
            while name in bundled[keyword]:
                name += "#"
            bundled[keyword][name] = embedded
    return bundled


def _reached(graph: SchemaGraph) -> dict[str, tuple[Any, Dialect]]:
    contents = dict(graph.documents)
    return {
        uri: (contents[uri], dialect_of(contents[uri], graph.root.dialect))
        for uri in dict.fromkeys(node.document for node in graph.nodes)
        if uri and not is_metaschema(uri)
    }


def _definitions(dialect: Dialect) -> str:
    return "$defs" if "$defs" in dialect.positions else "definitions"


def _embedded(uri: str, contents: Any, dialect: Dialect) -> list[tuple[str, Any]]:
    """``(name, schema)`` of one document; a second one where it calls itself by another URI than it is known by."""
    if not isinstance(contents, dict):
        return [(uri, {"$schema": dialect.uri, dialect.id_keyword: uri, **({} if contents else {"not": {}})})]
    own = contents.get(dialect.id_keyword)
    hidden = dialect.ref_hides_siblings and "$ref" in contents
    contents = copy_json(contents)
    head = {"$schema": dialect.uri, dialect.id_keyword: uri}
    if hidden:  # the id beside a $ref would be ignored
        kept = {name: contents[name] for name in ("definitions",) if name in contents}
        return [(uri, {**head, "allOf": [{"$ref": contents["$ref"]}], **kept})]
    if isinstance(own, str) and own.startswith("#"):  # an anchor, up to draft 7: where the id would stand
        return [(uri, {**head, "allOf": [{"$ref": own}], "definitions": {"document": contents}})]
    own_uri = urljoin(uri, own).removesuffix("#") if isinstance(own, str) else uri
    if own_uri == uri:
        return [(uri, {**contents, **head})]
    alias = {**head, "allOf": [{"$ref": own_uri}]}
    return [(own_uri, {**contents, "$schema": dialect.uri, dialect.id_keyword: own_uri}), (uri, alias)]
