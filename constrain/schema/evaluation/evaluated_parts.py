"""The leaves of ``unevaluatedProperties`` and ``unevaluatedItems``, and what evaluates for them."""

from constrain.schema.evaluation.circuit import Reference
from constrain.schema.evaluation.kinds import OBJECT
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.plan_builder import PlanBuilder
from constrain.schema.evaluation.sources import Conjunction, Source, Unevaluated


def unevaluated_leaf(builder: PlanBuilder, node: Node, inside: Node) -> Reference:
    """A leaf that is false at the first property or item that is not evaluated and not valid ``inside``."""
    sources: list[Source] = []
    _collect(builder, node, (), sources, is_own=True)
    if any(source.everything and not source.condition for source in sources):
        return True
    slot = builder.circuit.leaf()
    builder.unevaluated.append(Unevaluated(slot, inside, tuple(sources)))
    if builder.kind == OBJECT and inside.is_never:
        builder.gates.append((slot, tuple(sources)))
    return slot


def _collect(builder: PlanBuilder, node: Node, condition: Conjunction, sources: list[Source], *, is_own: bool) -> None:
    """What ``node`` and the subschemas in place evaluate; where ``node`` itself fails, nobody asks."""
    if not is_own and builder.reference(node) is False:
        return
    source = _source(builder, node, condition, is_own)
    if source is not None:
        sources.append(source)
    for child in node.all_of:
        _collect(builder, child, condition, sources, is_own=False)
    for child in (*(node.any_of or ()), *(node.one_of or ())):
        _collect_if(builder, builder.reference(child), 1, child, condition, sources)
    if node.condition is not None:
        holds = builder.reference(node.condition)
        _collect_if(builder, holds, 1, node.condition, condition, sources)
        if node.then is not None:
            _collect_if(builder, holds, 1, node.then, condition, sources)
        if node.otherwise is not None:
            _collect_if(builder, holds, -1, node.otherwise, condition, sources)
    if builder.kind == OBJECT:
        for name, child in node.dependent_schemas.items():
            _collect_if(builder, builder.present(name), 1, child, condition, sources)


def _collect_if(
    builder: PlanBuilder, reference: Reference, wanted: int, node: Node, condition: Conjunction, sources: list[Source]
) -> None:
    if not isinstance(reference, bool):
        _collect(builder, node, (*condition, (reference, wanted)), sources, is_own=False)
    elif reference is (wanted > 0):
        _collect(builder, node, condition, sources, is_own=False)


def _source(builder: PlanBuilder, node: Node, condition: Conjunction, is_own: bool) -> Source | None:
    """What the keywords of ``node`` evaluate, its own unevaluated keyword only if others ask."""
    if builder.kind == OBJECT:
        everything = node.additional is not None or (node.unevaluated_properties is not None and not is_own)
        if everything or node.properties or node.pattern_properties:
            patterns = tuple(pattern for pattern, _ in node.pattern_properties)
            return Source(condition, everything, tuple(sorted(node.properties)), patterns)
        return None
    everything = node.other_items is not None or (node.unevaluated_items is not None and not is_own)
    contains = node.contains if node.contains_evaluates else None
    if everything or node.first_items or contains is not None:
        return Source(condition, everything, num_items=len(node.first_items), contains=contains)
    return None
