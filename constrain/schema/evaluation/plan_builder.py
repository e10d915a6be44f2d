"""From nodes to a plan: every node that applies in place becomes a slot of one circuit."""

from collections.abc import Callable, Sequence
from functools import partial

from constrain.schema.evaluation.automaton import Automaton
from constrain.schema.evaluation.circuit import Circuit, Reference
from constrain.schema.evaluation.kinds import NUMBERS, STRING
from constrain.schema.evaluation.nodes import Node, Values
from constrain.schema.evaluation.pattern_automaton import Pattern
from constrain.schema.evaluation.plan import Children, Distinct, Hits, Plan
from constrain.schema.evaluation.sources import NameGate, Source, Unevaluated, name_table
from constrain.schema.evaluation.spans import EarlyTest, Multiple, of_values
from constrain.schema.evaluation.values import Number


class PlanBuilder:
    """The plan of several nodes for values of ``kind``, under construction.

    ``parts_of`` adds the leaves of the keywords that speak of this kind of value, and gives what the node conjoins.
    """

    def __init__(self, kind: int, parts_of: Callable[["PlanBuilder", Node], list[Reference]]) -> None:
        self.kind, self._parts_of = kind, parts_of
        self.circuit = Circuit()
        self._known: dict[int, Reference] = {}
        self.plan = Plan(kind)
        self._at_close: dict[int, int] = {}
        self.limits: dict[int, int] = {}
        self.children: list[Children] = []
        self.names: list[tuple[int, Node]] = []
        self.gates: list[tuple[int, tuple[Source, ...]]] = []
        self.hits: list[Hits] = []
        self.unique: list[int] = []
        self.distinct: list[Distinct] = []
        self.unevaluated: list[Unevaluated] = []
        self.patterns: list[tuple[int, Automaton]] = []
        self.strings: list[tuple[int, tuple[str, ...]]] = []
        self.texts: list[tuple[int, Callable[[str], bool]]] = []
        self.numbers: list[tuple[int, Callable[[Number, bytes], bool]]] = []
        self.digits: list[tuple[int, tuple[tuple[bool, str], ...]]] = []
        self.spans: list[tuple[int, EarlyTest]] = []
        self.integers: list[int] = []
        self.multiples: list[tuple[int, Multiple]] = []

    def build(self, nodes: Sequence[Node]) -> Plan:
        """The plan whose entries are those of ``nodes``, in order."""
        entries = tuple(self.reference(node) for node in nodes)
        plan, circuit = self.plan, self.circuit
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
        plan.limits = tuple((count, slot) for count, slot in sorted(self.limits.items()) if slot in live)
        plan.unevaluated = tuple(item for item in self.unevaluated if item.slot in live)
        plan.presence = {name: slot for name, slot in plan.presence.items() if slot in live}
        plan.children = tuple(item for item in self.children if item.slot in live)
        plan.names = tuple(item for item in self.names if item[0] in live)
        self._place_name_gates(live)
        plan.hits = tuple(self.hits)
        plan.unique = tuple(slot for slot in self.unique if slot in live)
        plan.distinct = tuple(item for item in self.distinct if item.slot in live and item.has_constants)
        plan.patterns = tuple(item for item in self.patterns if item[0] in live)
        plan.strings = tuple(item for item in self.strings if item[0] in live)
        plan.constants_table = name_table(plan.strings) if plan.strings else None
        plan.texts = tuple(item for item in self.texts if item[0] in live)
        plan.numbers = tuple(item for item in self.numbers if item[0] in live)
        plan.digits = tuple(item for item in self.digits if item[0] in live)
        plan.spans = tuple(item for item in self.spans if item[0] in live)
        plan.integers = tuple(slot for slot in self.integers if slot in live)
        plan.multiples = tuple(item for item in self.multiples if item[0] in live)
        plan.room = max((multiple.room for _, multiple in plan.multiples), default=1)
        return plan

    def _live(self, roots: set[int]) -> set[int]:
        """The slots that an entry rests on, by the circuit or by what an unevaluated leaf asks."""
        live: set[int] = set()
        todo = roots
        while not todo <= live:
            live = self.circuit.below(live | todo)
            todo = {
                slot
                for item in self.unevaluated
                if item.slot in live
                for source in item.sources
                for slot, _ in source.condition
            }
        return live

    def _place_name_gates(self, live: set[int]) -> None:
        plan = self.plan
        patterns: dict[Pattern, int] = {}
        gates = []
        for slot, sources in self.gates:
            if slot in live:
                places = tuple(
                    tuple(patterns.setdefault(pattern, len(patterns)) for pattern in source.patterns)
                    for source in sources
                )
                gates.append(NameGate(slot, sources, places))
        plan.name_refusals = tuple(
            (item.slot, patterns.setdefault(pattern, len(patterns)))
            for item in plan.children
            for pattern, child in item.node.pattern_properties
            if child.is_never and pattern.automaton is not None
        )
        plan.name_gates, plan.name_patterns = tuple(gates), tuple(pattern.automaton for pattern in patterns)
        closed = [gate for gate in gates if gate.lists_names_only]
        plan.closed = name_table([(gate.slot, gate.listed) for gate in closed]) if closed else None
        plan.open_gates = tuple(gate for gate in gates if not gate.lists_names_only)

    # References of nodes.

    def reference(self, node: Node) -> Reference:
        """What ``node`` comes to, on the value itself."""
        if node.number not in self._known:
            self._known[node.number] = self._build(node) if node.kinds >> self.kind & 1 else False
        return self._known[node.number]

    def _build(self, node: Node) -> Reference:
        circuit = self.circuit
        parts: list[Reference] = [self.reference(item) for item in node.all_of]
        if node.any_of is not None:
            parts.append(circuit.any_of([self.reference(item) for item in node.any_of]))
        if node.one_of is not None:
            parts.append(circuit.one_of([self.reference(item) for item in node.one_of]))
        if node.negated is not None:
            parts.append(circuit.negation(self.reference(node.negated)))
        if node.condition is not None:
            parts.append(self._conditional(node))
        parts += [self._values(values) for values in node.values]
        return circuit.all_of(parts + self._parts_of(self, node))

    def _conditional(self, node: Node) -> Reference:
        assert node.condition is not None
        circuit = self.circuit
        holds = self.reference(node.condition)
        then = self.reference(node.then) if node.then is not None else True
        otherwise = self.reference(node.otherwise) if node.otherwise is not None else True
        # The third follows from the first two, and is decided where the condition is not.
        return circuit.all_of(
            [
                circuit.any_of([circuit.negation(holds), then]),
                circuit.any_of([holds, otherwise]),
                circuit.any_of([then, otherwise]),
            ]
        )

    def _values(self, values: Values) -> Reference:
        kind = self.kind
        if values.literals >> kind & 1:
            return True
        if kind == STRING and values.strings:
            slot = self.circuit.leaf()
            self.strings.append((slot, values.strings))
            return slot
        if kind in NUMBERS and values.numbers:
            slot = self.circuit.leaf()
            self.numbers.append((slot, partial(_is_among, values.numbers)))
            self.digits.append((slot, values.digits))
            self.spans.append((slot, of_values(values.numbers)))
            return slot
        return self.circuit.any_of([self.reference(node) for of, node in values.containers if of == kind])

    def leaf(self, at_close: int) -> int:
        """A leaf with the status that the end of the value gives it, if nothing does before."""
        slot = self.circuit.leaf()
        self._at_close[slot] = at_close
        return slot

    def at_least(self, count: int) -> Reference:
        """Whether there are ``count`` members, items or characters."""
        if count <= 0:
            return True
        if count not in self.limits:
            self.limits[count] = self.leaf(at_close=-1)
        return self.limits[count]

    def counted(self, least: int, most: int | None) -> list[Reference]:
        """That there are from ``least`` to ``most``."""
        parts = [self.at_least(least)]
        if most is not None:
            parts.append(self.circuit.negation(self.at_least(most + 1)))
        return parts

    def counter(self, start: int) -> int:
        """A counter of the frame; returns its place."""
        self.plan.counters.append(start)
        return len(self.plan.counters) - 1

    def present(self, name: str) -> int:
        """Whether the object has the property ``name``."""
        if name not in self.plan.presence:
            self.plan.presence[name] = self.leaf(at_close=-1)
        return self.plan.presence[name]


def _is_among(values: frozenset[Number], value: Number, text: bytes) -> bool:
    return value in values
