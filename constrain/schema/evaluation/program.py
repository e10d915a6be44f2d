"""A schema compiled for evaluation: immutable to its users, shared by sequences and threads."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from constrain.schema.dialects import DRAFT_2020_12, Dialect
from constrain.schema.documents import Documents
from constrain.schema.evaluation.automaton import Automaton
from constrain.schema.evaluation.build_plan import build_plan
from constrain.schema.evaluation.kinds import NUM_KINDS
from constrain.schema.evaluation.nodes import Node, NodeTable
from constrain.schema.evaluation.pattern_automaton import Pattern
from constrain.schema.evaluation.plan import Plan
from constrain.schema.evaluation.read_nodes import read_nodes
from constrain.schema.evaluation.sources import Clause, asks_item
from constrain.schema.graph import SchemaGraph
from constrain.schema.limits import DEFAULT_LIMITS, SchemaLimits
from constrain.schema.load import Schema, load_graph

CHILD, HIT, UNEVALUATED, ROOT = range(4)
"""Who waits for the verdict of an entry: the leaf of the properties or items it is one of, a count of matches, an
unevaluated keyword, or the whole text."""

_MAX_PLANS = 20_000
_MAX_NAMES = 1_000
"""How many plans, and how many names of each, are kept for the next text; others are made again."""

Waiter = tuple[int, int, int, Clause]
"""(one of the above, slot, counter or -1, when it is evaluated otherwise)."""
Late = tuple[int, Clause]


@dataclass(eq=False, slots=True)
class Spec:
    """The subschemas that apply to one property, item or name, and who waits for each."""

    entries: tuple[Node, ...] = ()
    waiters: tuple[tuple[Waiter, ...], ...] = ()
    doomed: tuple[int, ...] = ()  # slots that are false since the value cannot be valid
    clauses: tuple[Late, ...] = ()  # (slot, clause): false unless it is evaluated
    late: tuple[Late, ...] = ()  # the same, where that is known when the item closes
    plans: list[Plan | None] = field(default_factory=lambda: [None] * NUM_KINDS)


@dataclass(slots=True)
class _Kept:
    """What a plan's values share: the specs of their properties, items and names."""

    plan: Plan
    names: Spec
    members: dict[str, Spec] = field(default_factory=dict)
    items: list[Spec] = field(default_factory=list)
    num_first: int = 0
    named: tuple[tuple[str, ...], tuple[Pattern, ...]] = ((), ())


class Program:
    """``num_nodes`` subschemas, in one dynamic scope each. ``automata``: those of their patterns and formats."""

    def __init__(self, root: Node, num_nodes: int, automata: tuple[Automaton, ...] = ()) -> None:
        self.num_nodes, self.automata = num_nodes, automata
        self._plans: dict[tuple[int, tuple[int, ...]], Plan] = {}
        self._kept: dict[int, _Kept] = {}
        self.empty = Spec()
        self.root = Spec((root,), (((ROOT, 0, -1, ()),),))
        for kind in range(NUM_KINDS):
            self.plan(self.empty, kind)
        self.is_unsatisfiable = all(self.plan(self.root, kind).constants == ((0, -1),) for kind in range(NUM_KINDS))

    def plan(self, spec: Spec, kind: int) -> Plan:
        """The plan of a value of ``kind`` at the place that ``spec`` describes."""
        plan = spec.plans[kind]
        if plan is None:
            plan = spec.plans[kind] = self.plan_of(spec.entries, kind)
        return plan

    def plan_of(self, entries: tuple[Node, ...], kind: int) -> Plan:
        """As ``plan``, for some of the subschemas."""
        key = kind, tuple(node.number for node in entries)
        plan = self._plans.get(key)
        if plan is None:
            plan = build_plan(kind, entries)
            if len(self._plans) < _MAX_PLANS:
                plan = self._plans.setdefault(key, plan)
        return plan

    def member(self, plan: Plan, name: str) -> Spec:
        """What applies to the property ``name`` of an object with ``plan``."""
        kept = self._of(plan)
        spec = kept.members.get(name)
        if spec is None:
            spec = _member(plan, name)
            if not spec.entries and not spec.doomed and not spec.clauses:
                spec = self.empty
            if len(kept.members) < _MAX_NAMES:
                kept.members[name] = spec
        return spec

    def item(self, plan: Plan, index: int) -> Spec:
        """What applies to the item at ``index`` of an array with ``plan``."""
        kept = self._of(plan)
        return kept.items[min(index, kept.num_first)]

    def names(self, plan: Plan) -> Spec:
        """What applies to the names in an object with ``plan``."""
        return self._of(plan).names

    def named(self, plan: Plan) -> tuple[tuple[str, ...], tuple[Pattern, ...]]:
        """What an object with ``plan`` tells names apart by: some of them, sorted, and patterns of others."""
        return self._of(plan).named

    def _of(self, plan: Plan) -> _Kept:
        kept = self._kept.get(id(plan))
        if kept is None or kept.plan is not plan:
            kept = _Kept(plan, _spec([(node, (CHILD, slot, -1, ())) for slot, node in plan.names]))
            first = [len(item.node.first_items) for item in plan.children]
            first += [source.num_items for item in plan.unevaluated for source in item.sources]
            kept.num_first = max(first, default=0)
            kept.named = _named(plan)
            kept.items = [_item(plan, index) for index in range(kept.num_first + 1)]
            if len(self._kept) < _MAX_PLANS:
                self._kept[id(plan)] = kept
        return kept


def compile_program(
    schema: Schema,
    *,
    documents: Documents | Mapping[str, Schema] | None = None,
    dialect: Dialect = DRAFT_2020_12,
    limits: SchemaLimits = DEFAULT_LIMITS,
    assert_formats: bool = False,
) -> Program:
    """The program of ``schema``, given as to ``load_graph``, whose errors it raises.

    Besides: ``UnsupportedGrammarError`` with the pointer for a format without a checker, if they are asserted, and for
    ``dependencies`` where the draft ignores it; ``LimitExceededError`` for subschemas nested too deep in place.
    """
    graph = load_graph(schema, documents=documents, dialect=dialect, limits=limits)
    return program_of(graph, assert_formats=assert_formats)


def program_of(graph: SchemaGraph, *, assert_formats: bool = False) -> Program:
    """As ``compile_program``, for a schema that is loaded."""
    table = NodeTable()
    root = read_nodes(graph, table, assert_formats=assert_formats)
    patterns = [
        pattern for node in table.nodes for pattern in (*node.patterns, *(p for p, _ in node.pattern_properties))
    ]
    automata: list[Automaton] = [pattern.automaton for pattern in patterns if pattern.automaton is not None]
    automata += [automaton for node in table.nodes if node.format is not None for automaton in node.format.automata]
    return Program(root, len(table.nodes), tuple(dict.fromkeys(automata)))


def _spec(
    pairs: list[tuple[Node, Waiter]],
    doomed: list[int] | None = None,
    clauses: list[Late] | None = None,
    late: list[Late] | None = None,
) -> Spec:
    waiting: dict[Node, list[Waiter]] = {}
    for node, waiter in pairs:
        waiting.setdefault(node, []).append(waiter)
    waiters = tuple(tuple(found) for found in waiting.values())
    return Spec(tuple(waiting), waiters, tuple(doomed or ()), tuple(clauses or ()), tuple(late or ()))


def _named(plan: Plan) -> tuple[tuple[str, ...], tuple[Pattern, ...]]:
    sources = [source for item in plan.unevaluated for source in item.sources]
    sources += [source for gate in plan.name_gates for source in gate.sources]
    names = {name for item in plan.children for name in item.node.properties}
    names |= {name for source in sources for name in source.names}
    patterns = [pattern for item in plan.children for pattern, _ in item.node.pattern_properties]
    patterns += [pattern for source in sources for pattern in source.patterns]
    return tuple(sorted(names | plan.presence.keys())), tuple(dict.fromkeys(patterns))


def _member(plan: Plan, name: str) -> Spec:
    pairs: list[tuple[Node, Waiter]] = []
    doomed: list[int] = []
    for item in plan.children:
        node = item.node
        found = [node.properties[name]] if name in node.properties else []
        found += [child for pattern, child in node.pattern_properties if pattern.matches(name)]
        if not found and node.additional is not None:
            found.append(node.additional)
        for child in found:
            if child.is_never:
                doomed.append(item.slot)
            elif not child.is_true:
                counter = item.counter if name in node.properties else -1
                pairs.append((child, (CHILD, item.slot, counter, ())))
    clauses: list[Late] = []
    for unevaluated in plan.unevaluated:
        clause = unevaluated.name_clause(name)
        if clause is not None and unevaluated.inside.is_never:
            clauses.append((unevaluated.slot, clause))
        elif clause is not None:
            pairs.append((unevaluated.inside, (UNEVALUATED, unevaluated.slot, -1, clause)))
    return _spec(pairs, doomed, clauses)


def _item(plan: Plan, index: int) -> Spec:
    pairs: list[tuple[Node, Waiter]] = []
    doomed: list[int] = []
    for item in plan.children:
        first = item.node.first_items
        child = first[index] if index < len(first) else item.node.other_items
        if child is not None and child.is_never:
            doomed.append(item.slot)
        elif child is not None and not child.is_true:
            counter = item.counter if index < len(first) else -1
            pairs.append((child, (CHILD, item.slot, counter, ())))
    for number, hits in enumerate(plan.hits):
        pairs.append((hits.node, (HIT, number, -1, ())))
    clauses: list[Late] = []
    late: list[Late] = []
    for unevaluated in plan.unevaluated:
        clause = unevaluated.item_clause(index)
        if clause is None:
            continue
        if not unevaluated.inside.is_never:
            pairs.append((unevaluated.inside, (UNEVALUATED, unevaluated.slot, -1, clause)))
        elif asks_item(clause):
            late.append((unevaluated.slot, clause))
        else:
            clauses.append((unevaluated.slot, clause))
    return _spec(pairs, doomed, clauses, late)
