"""References that lead in a circle."""

from collections.abc import Iterator

from constrain.errors import InvalidSchemaError
from constrain.schema.graph import SchemaGraph, SchemaNode
from constrain.schema.json_text import join_pointer


def check_progress(graph: SchemaGraph) -> None:
    """Refuse a circle of subschemas that all apply to the same instance: no validator comes out of it."""
    done: set[int] = set()
    for start in graph.nodes:
        path: list[tuple[SchemaNode, Iterator[SchemaNode]]] = [(start, _in_place(start))]
        on_path = {id(start)}
        while path:
            node, successors = path[-1]
            following = next(successors, None)
            if following is None:
                path.pop()
                on_path.discard(id(node))
                done.add(id(node))
            elif id(following) in on_path:
                circle = [item for item, _ in path]
                raise _circle_error(circle[circle.index(following) :])
            elif id(following) not in done:
                path.append((following, _in_place(following)))
                on_path.add(id(following))


_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")


def _in_place(node: SchemaNode) -> Iterator[SchemaNode]:
    yield from node.references.values()
    if not (node.dialect.ref_hides_siblings and node.references):
        for pointer, child in node.children.items():
            if pointer.split("/", 2)[1] in _IN_PLACE:
                yield child


def _circle_error(circle: list[SchemaNode]) -> InvalidSchemaError:
    node = next(node for node in circle if node.references)
    place = join_pointer(node.pointer, next(iter(node.references)))
    through = ", ".join(item.pointer or "/" for item in circle[:8])
    return InvalidSchemaError(
        f"at {place}: the references lead in a circle ({through}) without entering an item or a property, so they "
        f"describe nothing; break the circle",
        pointer=place,
    )
