"""The plan of a value, from the nodes that apply to it."""

from collections.abc import Callable, Sequence

from constrain.schema.evaluation.circuit import Reference
from constrain.schema.evaluation.container_parts import array_parts, object_parts
from constrain.schema.evaluation.kinds import ARRAY, NEGATIVE, OBJECT, POSITIVE, STRING
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.plan import Plan
from constrain.schema.evaluation.plan_builder import PlanBuilder
from constrain.schema.evaluation.scalar_parts import number_parts, string_parts


def build_plan(kind: int, nodes: Sequence[Node]) -> Plan:
    """The plan of ``nodes`` for values of ``kind``; its entries are theirs, in order."""
    return PlanBuilder(kind, _PARTS.get(kind, _no_parts)).build(nodes)


def _no_parts(builder: PlanBuilder, node: Node) -> list[Reference]:
    return []


_PARTS: dict[int, Callable[[PlanBuilder, Node], list[Reference]]] = {
    OBJECT: object_parts,
    ARRAY: array_parts,
    STRING: string_parts,
    POSITIVE: number_parts,
    NEGATIVE: number_parts,
}
