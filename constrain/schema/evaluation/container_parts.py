"""The leaves of objects and arrays."""

from constrain.schema.evaluation.circuit import Reference
from constrain.schema.evaluation.evaluated_parts import unevaluated_leaf
from constrain.schema.evaluation.kinds import STRING
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.plan import Children, Distinct, Hits
from constrain.schema.evaluation.plan_builder import PlanBuilder
from constrain.schema.evaluation.sources import Source


def object_parts(builder: PlanBuilder, node: Node) -> list[Reference]:
    """What ``node`` asks of an object."""
    circuit = builder.circuit
    parts: list[Reference] = [builder.present(name) for name in node.required]
    for name, names in node.dependent_required.items():
        needed = circuit.all_of([builder.present(other) for other in names])
        parts.append(circuit.any_of([circuit.negation(builder.present(name)), needed]))
    for name, schema in node.dependent_schemas.items():
        parts.append(circuit.any_of([circuit.negation(builder.present(name)), builder.reference(schema)]))
    parts += builder.counted(node.min_properties, node.max_properties)
    parts.append(_members(builder, node))
    if node.property_names is not None and not node.property_names.is_true:
        if not node.property_names.kinds >> STRING & 1:
            parts.append(circuit.negation(builder.at_least(1)))
        else:
            slot = builder.leaf(at_close=1)
            builder.names.append((slot, node.property_names))
            if node.property_names.constants is not None:
                builder.gates.append((slot, (Source((), names=node.property_names.constants.strings),)))
            parts.append(slot)
    if node.unevaluated_properties is not None and not node.unevaluated_properties.is_true:
        parts.append(unevaluated_leaf(builder, node, node.unevaluated_properties))
    return parts


def _members(builder: PlanBuilder, node: Node) -> Reference:
    constrained = [name for name, child in node.properties.items() if not child.is_true]
    others = [child for _, child in node.pattern_properties]
    others += [node.additional] if node.additional is not None else []
    is_open = all(child.is_true for child in others)
    if is_open and not constrained:
        return True
    slot = builder.leaf(at_close=1)
    builder.children.append(Children(slot, node, builder.counter(len(constrained)) if is_open else -1))
    if node.additional is not None and node.additional.is_never:
        names = tuple(sorted(name for name, child in node.properties.items() if not child.is_never))
        patterns = tuple(pattern for pattern, child in node.pattern_properties if not child.is_never)
        builder.gates.append((slot, (Source((), names=names, patterns=patterns),)))
    return slot


def array_parts(builder: PlanBuilder, node: Node) -> list[Reference]:
    """What ``node`` asks of an array."""
    parts = builder.counted(node.min_items, node.max_items)
    parts.append(_items(builder, node))
    if node.contains is not None:
        parts += _contains(builder, node.contains, node)
    if node.unique:
        slot = builder.leaf(at_close=1)
        builder.unique.append(slot)
        builder.distinct.append(Distinct(slot, node))
        parts.append(slot)
    if node.unevaluated_items is not None and not node.unevaluated_items.is_true:
        parts.append(unevaluated_leaf(builder, node, node.unevaluated_items))
    return parts


def _items(builder: PlanBuilder, node: Node) -> Reference:
    constrained = [child for child in node.first_items if not child.is_true]
    is_open = node.other_items is None or node.other_items.is_true
    if is_open and not constrained:
        return True
    slot = builder.leaf(at_close=1)
    builder.children.append(Children(slot, node, builder.counter(len(constrained)) if is_open else -1))
    return slot


def _contains(builder: PlanBuilder, contains: Node, node: Node) -> list[Reference]:
    limits: list[tuple[int, int]] = []
    parts: list[Reference] = []
    if node.min_contains > 0:
        limits.append((node.min_contains, builder.leaf(at_close=-1)))
        parts.append(limits[-1][1])
    if node.max_contains is not None:
        limits.append((node.max_contains + 1, builder.leaf(at_close=-1)))
        parts.append(builder.circuit.negation(limits[-1][1]))
    builder.hits.append(Hits(contains, builder.counter(0), tuple(limits)))
    return parts
