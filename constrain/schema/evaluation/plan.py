"""What a set of subschemas asks of one value of one kind: built once, shared by every such value."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from constrain.schema.evaluation.automaton import Pattern
from constrain.schema.evaluation.circuit import Circuit, Reference
from constrain.schema.evaluation.kinds import ARRAY, NEGATIVE, NUMBERS, OBJECT, STRING
from constrain.schema.evaluation.nodes import Node, Values
from constrain.schema.evaluation.sources import Conjunction, NameGate, Source, Unevaluated
from constrain.schema.evaluation.values import Number
from constrain.schema.exact import is_multiple


@dataclass(frozen=True, slots=True)
class Children:
    """The leaf that the properties, or the items, of one node decide.

    ``counter``: where the constrained ones that are still to come are counted, if nothing else constrains; at 0 the
    leaf is true. -1 if there is no such count.
    """

    slot: int
    node: Node
    counter: int = -1


@dataclass(frozen=True, slots=True)
class Hits:
    """How many items match ``node``: leaves that are true from a count on."""

    node: Node
    counter: int
    limits: tuple[tuple[int, int], ...]  # (count, slot)


@dataclass(slots=True)
class Plan:
    """One circuit with its leaves by what decides them. Statuses are 1 true, -1 false, 0 unknown."""

    kind: int
    entries: tuple[Reference, ...] = ()
    operations: list[int] = field(default_factory=list)
    parents: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    entries_at: list[tuple[int, ...]] = field(default_factory=list)
    constants: tuple[tuple[int, int], ...] = ()  # (entry, status) of those decided from the start
    num_open: int = 0
    counters: list[int] = field(default_factory=list)
    at_close: tuple[tuple[int, int], ...] = ()  # (slot, status) of leaves that nothing decided before
    limits: tuple[tuple[int, int], ...] = ()  # (count, slot), ascending: of members, items or characters
    unevaluated: tuple[Unevaluated, ...] = ()  # those inside others first
    # Objects.
    presence: dict[str, int] = field(default_factory=dict)
    children: tuple[Children, ...] = ()
    names: tuple[tuple[int, Node], ...] = ()
    name_gates: tuple[NameGate, ...] = ()
    name_patterns: tuple[Pattern, ...] = ()
    # Arrays.
    hits: tuple[Hits, ...] = ()
    unique: tuple[int, ...] = ()
    # Strings.
    patterns: tuple[tuple[int, Pattern], ...] = ()
    strings: tuple[tuple[int, tuple[str, ...]], ...] = ()
    texts: tuple[tuple[int, Callable[[str], bool]], ...] = ()
    # Numbers.
    numbers: tuple[tuple[int, Callable[[Number, bytes], bool]], ...] = ()
    digits: tuple[tuple[int, tuple[tuple[bool, str], ...]], ...] = ()


def build_plan(kind: int, nodes: Sequence[Node]) -> Plan:
    """The plan of ``nodes`` for values of ``kind``; its entries are theirs, in order."""
    return _Builder(kind).build(nodes)


class _Builder:
    def __init__(self, kind: int) -> None:
        self._kind = kind
        self._circuit = Circuit()
        self._known: dict[int, Reference] = {}
        self._plan = Plan(kind)
        self._at_close: dict[int, int] = {}
        self._limits: dict[int, int] = {}
        self._children: list[Children] = []
        self._names: list[tuple[int, Node]] = []
        self._gates: list[tuple[int, tuple[Source, ...]]] = []
        self._hits: list[Hits] = []
        self._unique: list[int] = []
        self._unevaluated: list[Unevaluated] = []
        self._patterns: list[tuple[int, Pattern]] = []
        self._strings: list[tuple[int, tuple[str, ...]]] = []
        self._texts: list[tuple[int, Callable[[str], bool]]] = []
        self._numbers: list[tuple[int, Callable[[Number, bytes], bool]]] = []
        self._digits: list[tuple[int, tuple[tuple[bool, str], ...]]] = []

    def build(self, nodes: Sequence[Node]) -> Plan:
        entries = tuple(self._of(node) for node in nodes)
        plan, circuit = self._plan, self._circuit
        roots = {entry for entry in entries if not isinstance(entry, bool)}
        live = self._live(roots)
        plan.entries = entries
        plan.operations = circuit.operations
        plan.parents = circuit.parents()
        plan.pending = [len(inputs) for inputs in circuit.inputs]
        places: dict[int, list[int]] = {}
        for number, entry in enumerate(entries):
            if not isinstance(entry, bool):
                places.setdefault(entry, []).append(number)
        plan.entries_at = [tuple(places.get(slot, ())) for slot in range(len(circuit.operations))]
        plan.constants = tuple((n, 1 if e else -1) for n, e in enumerate(entries) if isinstance(e, bool))
        plan.num_open = len(entries) - len(plan.constants)
        plan.at_close = tuple((slot, value) for slot, value in self._at_close.items() if slot in live)
        plan.limits = tuple((count, slot) for count, slot in sorted(self._limits.items()) if slot in live)
        plan.unevaluated = tuple(item for item in self._unevaluated if item.slot in live)
        plan.presence = {name: slot for name, slot in plan.presence.items() if slot in live}
        plan.children = tuple(item for item in self._children if item.slot in live)
        plan.names = tuple(item for item in self._names if item[0] in live)
        self._place_name_gates(live)
        plan.hits = tuple(self._hits)
        plan.unique = tuple(slot for slot in self._unique if slot in live)
        plan.patterns = tuple(item for item in self._patterns if item[0] in live)
        plan.strings = tuple(item for item in self._strings if item[0] in live)
        plan.texts = tuple(item for item in self._texts if item[0] in live)
        plan.numbers = tuple(item for item in self._numbers if item[0] in live)
        plan.digits = tuple(item for item in self._digits if item[0] in live)
        return plan

    def _live(self, roots: set[int]) -> set[int]:
        """The slots that an entry rests on, by the circuit or by what an unevaluated leaf asks."""
        live: set[int] = set()
        todo = roots
        while not todo <= live:
            live = self._circuit.below(live | todo)
            todo = {
                slot
                for item in self._unevaluated
                if item.slot in live
                for source in item.sources
                for slot, _ in source.condition
            }
        return live

    def _place_name_gates(self, live: set[int]) -> None:
        patterns: dict[Pattern, int] = {}
        gates = []
        for slot, sources in self._gates:
            if slot in live:
                places = tuple(
                    tuple(patterns.setdefault(pattern, len(patterns)) for pattern in source.patterns)
                    for source in sources
                )
                gates.append(NameGate(slot, sources, places))
        self._plan.name_gates, self._plan.name_patterns = tuple(gates), tuple(patterns)

    # References of nodes.

    def _of(self, node: Node) -> Reference:
        if node.number not in self._known:
            self._known[node.number] = self._build(node) if node.kinds >> self._kind & 1 else False
        return self._known[node.number]

    def _build(self, node: Node) -> Reference:
        circuit = self._circuit
        parts: list[Reference] = [self._of(item) for item in node.all_of]
        if node.any_of is not None:
            parts.append(circuit.any_of([self._of(item) for item in node.any_of]))
        if node.one_of is not None:
            parts.append(circuit.one_of([self._of(item) for item in node.one_of]))
        if node.negated is not None:
            parts.append(circuit.negation(self._of(node.negated)))
        if node.condition is not None:
            parts.append(self._conditional(node))
        parts += [self._values(values) for values in node.values]
        if self._kind == OBJECT:
            parts += self._object(node)
        elif self._kind == ARRAY:
            parts += self._array(node)
        elif self._kind == STRING:
            parts += self._string(node)
        elif self._kind in NUMBERS:
            parts += self._number(node)
        return circuit.all_of(parts)

    def _conditional(self, node: Node) -> Reference:
        assert node.condition is not None
        circuit = self._circuit
        holds = self._of(node.condition)
        then = self._of(node.then) if node.then is not None else True
        otherwise = self._of(node.otherwise) if node.otherwise is not None else True
        # The third follows from the first two, and is decided where the condition is not.
        return circuit.all_of(
            [
                circuit.any_of([circuit.negation(holds), then]),
                circuit.any_of([holds, otherwise]),
                circuit.any_of([then, otherwise]),
            ]
        )

    def _values(self, values: Values) -> Reference:
        kind = self._kind
        if values.literals >> kind & 1:
            return True
        if kind == STRING and values.strings:
            slot = self._circuit.leaf()
            self._strings.append((slot, values.strings))
            return slot
        if kind in NUMBERS and values.numbers:
            slot = self._circuit.leaf()
            self._numbers.append((slot, partial(_is_among, values.numbers)))
            self._digits.append((slot, values.digits))
            return slot
        return self._circuit.any_of([self._of(node) for of, node in values.containers if of == kind])

    def _leaf(self, at_close: int) -> int:
        slot = self._circuit.leaf()
        self._at_close[slot] = at_close
        return slot

    def _at_least(self, count: int) -> Reference:
        """Whether there are ``count`` members, items or characters."""
        if count <= 0:
            return True
        if count not in self._limits:
            self._limits[count] = self._leaf(at_close=-1)
        return self._limits[count]

    def _counted(self, least: int, most: int | None) -> list[Reference]:
        parts = [self._at_least(least)]
        if most is not None:
            parts.append(self._circuit.negation(self._at_least(most + 1)))
        return parts

    def _counter(self, start: int) -> int:
        self._plan.counters.append(start)
        return len(self._plan.counters) - 1

    # Objects.

    def _present(self, name: str) -> int:
        if name not in self._plan.presence:
            self._plan.presence[name] = self._leaf(at_close=-1)
        return self._plan.presence[name]

    def _object(self, node: Node) -> list[Reference]:
        circuit = self._circuit
        parts: list[Reference] = [self._present(name) for name in node.required]
        for name, names in node.dependent_required.items():
            needed = circuit.all_of([self._present(other) for other in names])
            parts.append(circuit.any_of([circuit.negation(self._present(name)), needed]))
        for name, schema in node.dependent_schemas.items():
            parts.append(circuit.any_of([circuit.negation(self._present(name)), self._of(schema)]))
        parts += self._counted(node.min_properties, node.max_properties)
        parts.append(self._members(node))
        if node.property_names is not None and not node.property_names.is_true:
            if not node.property_names.kinds >> STRING & 1:
                parts.append(circuit.negation(self._at_least(1)))
            else:
                slot = self._leaf(at_close=1)
                self._names.append((slot, node.property_names))
                parts.append(slot)
        if node.unevaluated_properties is not None and not node.unevaluated_properties.is_true:
            parts.append(self._unevaluated_leaf(node, node.unevaluated_properties))
        return parts

    def _members(self, node: Node) -> Reference:
        constrained = [name for name, child in node.properties.items() if not child.is_true]
        others = [child for _, child in node.pattern_properties]
        others += [node.additional] if node.additional is not None else []
        is_open = all(child.is_true for child in others)
        if is_open and not constrained:
            return True
        slot = self._leaf(at_close=1)
        self._children.append(Children(slot, node, self._counter(len(constrained)) if is_open else -1))
        if node.additional is not None and node.additional.is_never:
            names = tuple(sorted(name for name, child in node.properties.items() if not child.is_never))
            patterns = tuple(pattern for pattern, child in node.pattern_properties if not child.is_never)
            self._gates.append((slot, (Source((), names=names, patterns=patterns),)))
        return slot

    # Arrays.

    def _array(self, node: Node) -> list[Reference]:
        parts = self._counted(node.min_items, node.max_items)
        parts.append(self._items(node))
        if node.contains is not None:
            parts += self._contains(node.contains, node)
        if node.unique:
            slot = self._leaf(at_close=1)
            self._unique.append(slot)
            parts.append(slot)
        if node.unevaluated_items is not None and not node.unevaluated_items.is_true:
            parts.append(self._unevaluated_leaf(node, node.unevaluated_items))
        return parts

    def _items(self, node: Node) -> Reference:
        constrained = [child for child in node.first_items if not child.is_true]
        is_open = node.other_items is None or node.other_items.is_true
        if is_open and not constrained:
            return True
        slot = self._leaf(at_close=1)
        self._children.append(Children(slot, node, self._counter(len(constrained)) if is_open else -1))
        return slot

    def _contains(self, contains: Node, node: Node) -> list[Reference]:
        limits: list[tuple[int, int]] = []
        parts: list[Reference] = []
        if node.min_contains > 0:
            limits.append((node.min_contains, self._leaf(at_close=-1)))
            parts.append(limits[-1][1])
        if node.max_contains is not None:
            limits.append((node.max_contains + 1, self._leaf(at_close=-1)))
            parts.append(self._circuit.negation(limits[-1][1]))
        self._hits.append(Hits(contains, self._counter(0), tuple(limits)))
        return parts

    # What is evaluated.

    def _unevaluated_leaf(self, node: Node, inside: Node) -> Reference:
        sources: list[Source] = []
        self._collect(node, (), sources, is_own=True)
        if any(source.everything and not source.condition for source in sources):
            return True
        slot = self._circuit.leaf()
        self._unevaluated.append(Unevaluated(slot, inside, tuple(sources)))
        if self._kind == OBJECT and inside.is_never:
            self._gates.append((slot, tuple(sources)))
        return slot

    def _collect(self, node: Node, condition: Conjunction, sources: list[Source], *, is_own: bool) -> None:
        """What ``node`` and the subschemas in place evaluate; where ``node`` itself fails, nobody asks."""
        if not is_own and self._of(node) is False:
            return
        source = self._source(node, condition, is_own)
        if source is not None:
            sources.append(source)
        for child in node.all_of:
            self._collect(child, condition, sources, is_own=False)
        for child in (*(node.any_of or ()), *(node.one_of or ())):
            self._collect_if(self._of(child), 1, child, condition, sources)
        if node.condition is not None:
            holds = self._of(node.condition)
            self._collect_if(holds, 1, node.condition, condition, sources)
            if node.then is not None:
                self._collect_if(holds, 1, node.then, condition, sources)
            if node.otherwise is not None:
                self._collect_if(holds, -1, node.otherwise, condition, sources)
        if self._kind == OBJECT:
            for name, child in node.dependent_schemas.items():
                self._collect_if(self._present(name), 1, child, condition, sources)

    def _collect_if(
        self, reference: Reference, wanted: int, node: Node, condition: Conjunction, sources: list[Source]
    ) -> None:
        if not isinstance(reference, bool):
            self._collect(node, (*condition, (reference, wanted)), sources, is_own=False)
        elif reference is (wanted > 0):
            self._collect(node, condition, sources, is_own=False)

    def _source(self, node: Node, condition: Conjunction, is_own: bool) -> Source | None:
        """What the keywords of ``node`` evaluate, its own unevaluated keyword only if others ask."""
        if self._kind == OBJECT:
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

    # Strings and numbers.

    def _string(self, node: Node) -> list[Reference]:
        parts = self._counted(node.min_length, node.max_length)
        for pattern in node.patterns:
            if pattern.start is None:
                parts.append(self._text_leaf(pattern.matches))
            elif pattern.start.verdict:
                parts.append(pattern.start.verdict > 0)
            else:
                parts.append(self._circuit.leaf())
                self._patterns.append((int(parts[-1]), pattern))
        if node.format is not None:
            parts.append(self._text_leaf(node.format))
        return parts

    def _text_leaf(self, test: Callable[[str], bool]) -> int:
        slot = self._circuit.leaf()
        self._texts.append((slot, test))
        return slot

    def _number(self, node: Node) -> list[Reference]:
        parts: list[Reference] = []
        negative = self._kind == NEGATIVE
        if node.integers:
            parts.append(self._number_leaf(_is_integer if node.integers == "value" else _is_written_as_integer))
        if (bound := node.minimum) is not None:
            known = (False if negative else None) if bound > 0 else (None if negative else True)
            parts.append(self._number_leaf(partial(_is_at_least, bound)) if known is None else known)
        if (bound := node.maximum) is not None:
            known = (None if negative else False) if bound < 0 else (True if negative else None)
            parts.append(self._number_leaf(partial(_is_at_most, bound)) if known is None else known)
        if (bound := node.exclusive_minimum) is not None:
            known = (False if negative else None) if bound >= 0 else (None if negative else True)
            parts.append(self._number_leaf(partial(_is_above, bound)) if known is None else known)
        if (bound := node.exclusive_maximum) is not None:
            known = (None if negative else False) if bound <= 0 else (True if negative else None)
            parts.append(self._number_leaf(partial(_is_below, bound)) if known is None else known)
        if node.multiple_of is not None:
            parts.append(self._number_leaf(partial(_is_multiple_of, node.multiple_of)))
        return parts

    def _number_leaf(self, test: Callable[[Number, bytes], bool]) -> int:
        slot = self._circuit.leaf()
        self._numbers.append((slot, test))
        return slot


def _is_integer(value: Number, text: bytes) -> bool:
    return isinstance(value, int) or is_multiple(value, 1)


def _is_written_as_integer(value: Number, text: bytes) -> bool:
    return text.lstrip(b"-").isdigit()


def _is_among(values: frozenset[Number], value: Number, text: bytes) -> bool:
    return value in values


def _is_at_least(bound: Number, value: Number, text: bytes) -> bool:
    return value >= bound


def _is_at_most(bound: Number, value: Number, text: bytes) -> bool:
    return value <= bound


def _is_above(bound: Number, value: Number, text: bytes) -> bool:
    return value > bound


def _is_below(bound: Number, value: Number, text: bytes) -> bool:
    return value < bound


def _is_multiple_of(divisor: Number, value: Number, text: bytes) -> bool:
    return is_multiple(value, divisor)
