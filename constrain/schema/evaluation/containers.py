"""Values that begin and end: their frames, and what an array or an object as a whole decides."""

from collections.abc import Callable
from typing import Any

from constrain.schema.evaluation.automaton import Automaton, State
from constrain.schema.evaluation.characters import ANY_CHARACTER, Ranges
from constrain.schema.evaluation.frames import (
    CLAUSES,
    COUNT,
    LATE,
    LIMIT,
    NAME,
    NAME_START,
    OPEN,
    PIECES,
    SPEC,
    Frame,
    unwound,
)
from constrain.schema.evaluation.kinds import ARRAY, EVERY_KIND, OBJECT, STRING
from constrain.schema.evaluation.network import NoAutomatonError
from constrain.schema.evaluation.nodes import Values
from constrain.schema.evaluation.program import HIT, Program, Spec, Waiter
from constrain.schema.evaluation.scanner import MAX_DEPTH, Mode, Scanner
from constrain.schema.evaluation.sources import Clause, clause_status
from constrain.schema.evaluation.verdicts import Pending, Verdicts
from constrain.schema.matching import MatchTimeoutError

_MAX_AHEAD = 4
"""How many containers around a value are looked at when it ends; what is not refused there is refused later."""


class ValueReader(Scanner):
    """The part of an evaluator that opens and closes values."""

    def __init__(self, program: Program, escapes: Ranges = ANY_CHARACTER) -> None:
        super().__init__(escapes)
        self._program = program
        self._verdicts = Verdicts(-1 if program.is_unsatisfiable else 0)
        self._trail = self._verdicts.trail
        self._top: Frame | None = None
        self._num_ahead = 0  # ends that are tried inside each other

    def container(self) -> int | None:
        frame = self._top
        while frame is not None and frame.plan.kind > ARRAY:
            frame = frame.parent
        return None if frame is None else frame.plan.kind

    def value_begins(self, kind: int, is_first: bool) -> bool:
        parent = self._top
        if parent is None:
            return self._open(self._program.root, kind, keeps=False)
        if is_first and not self._item_is_certain(parent):
            return False
        if parent.plan.kind == ARRAY:
            spec = self._program.item(parent.plan, parent.fields[COUNT] - 1)
            self._refuse_used(parent, 1 << kind)
        else:
            spec = parent.fields[SPEC]
        return self._open(spec, kind, keeps=parent.keeps or bool(parent.plan.unique))

    def _open(self, spec: Spec, kind: int, *, keeps: bool, is_name: bool = False) -> bool:
        parent, program = self._top, self._program
        if parent is not None and parent.fields[OPEN] == 0:
            spec = program.empty
        entries, waiters = spec.entries, spec.waiters
        if parent is not None and len(entries) > 1:
            kept = [n for n, waiting in enumerate(waiters) if _is_awaited(waiting, parent.status)]
            if len(kept) < len(entries):
                entries, waiters = tuple(entries[n] for n in kept), tuple(waiters[n] for n in kept)
        plan = program.plan(spec, kind) if entries is spec.entries else program.plan_of(entries, kind)
        frame = self._top = Frame(plan, entries, waiters, parent, self.offset, keeps=keeps, is_name=is_name)
        if frame.depth >= MAX_DEPTH and kind <= ARRAY:
            return False
        if spec.late:
            frame.fields[LATE] = spec.late
        if kind == STRING:
            frame.states = [automaton.start for _, automaton in plan.patterns]
        if plan.constants:
            todo: list[Pending] = []
            for entry, value in plan.constants:
                self._verdicts.tell(frame, entry, value, todo)
            self._verdicts.settle(todo)
        return self._verdicts.result >= 0

    def _close(self, value: Any) -> bool:
        """The innermost value has ended, and all that it decides is decided."""
        frame = self._top
        assert frame is not None and frame.fields[OPEN] == 0, frame
        parent = self._top = frame.parent
        if frame.fields[LATE] and parent is not None:
            for slot, clause in frame.fields[LATE]:
                self._verdicts.require(parent, slot, _resolved(clause, frame))
        if parent is None:
            self.mode = Mode.DONE
            return self._verdicts.result >= 0
        self.mode = Mode.AFTER
        if parent.plan.kind == OBJECT:
            self._trail.set(parent.fields, NAME_START, -1)
            if parent.keeps:
                self._trail.set(parent.fields, PIECES, (parent.fields[PIECES], (parent.fields[NAME], value)))
            return self._verdicts.result >= 0 and self._leads_on(parent)
        if parent.keeps:
            self._trail.set(parent.fields, PIECES, (parent.fields[PIECES], value))
        if parent.plan.unique:
            if value in parent.seen:
                self._verdicts.settle([(parent, slot, -1) for slot in parent.plan.unique])
            else:
                self._trail.add(parent.seen, value)
        return self._verdicts.result >= 0 and self._leads_on(parent)

    def _leads_on(self, frame: Frame) -> bool:
        """Whether a comma or the end can follow the last value of ``frame``: both may be refused, and then it is."""
        if not frame.fields[OPEN] or self._num_ahead >= _MAX_AHEAD or self._takes_comma(frame):
            return True
        mode, mark = self.mode, len(self._trail.changes)
        result = self._verdicts.result
        try:
            return self._tried_alone(self.comma, frame, mode, mark, result) or self._tried_alone(
                self.container_ends, frame, mode, mark, result
            )
        except (MatchTimeoutError, NoAutomatonError):
            return True  # nobody knows, until it is there

    def _tried_alone(self, step: Callable[[], bool], frame: Frame, mode: int, mark: int, result: int) -> bool:
        self._num_ahead += 1
        try:
            return step()
        finally:
            self._num_ahead -= 1
            self._trail.undo(mark)
            self._top, self.mode, self._verdicts.result = frame, mode, result

    def _takes_comma(self, frame: Frame) -> bool:
        """Whether nothing of ``frame`` could refuse one."""
        plan, fields = frame.plan, frame.fields
        if fields[LIMIT] < len(plan.limits) and plan.limits[fields[LIMIT]][0] <= fields[COUNT] + 1:
            return False
        if plan.kind == OBJECT:
            return plan.closed is None and not plan.open_gates
        spec = self._program.item(plan, fields[COUNT])
        return not spec.doomed and not spec.clauses and not plan.distinct

    def container_ends(self) -> bool:
        frame = self._top
        assert frame is not None
        self._settle_rest(frame)
        value: Any = None
        if frame.keeps:
            parts = unwound(frame.fields[PIECES])
            value = frozenset(parts) if frame.plan.kind == OBJECT else tuple(parts)
        return self._close(value)

    def _settle_rest(self, frame: Frame) -> None:
        """Decide the leaves that only the end decides."""
        if frame.fields[OPEN]:
            status, plan = frame.status, frame.plan
            self._verdicts.settle([(frame, slot, value) for slot, value in plan.at_close if not status[slot]])
            for unevaluated in plan.unevaluated:
                slot = unevaluated.slot
                if not status[slot]:
                    clauses = (clause for asking, clause in frame.fields[CLAUSES] if asking == slot)
                    holds = all(clause_status(clause, status) > 0 for clause in clauses)
                    self._verdicts.settle([(frame, slot, 1 if holds else -1)])

    def comma(self) -> bool:
        frame = self._top
        assert frame is not None
        if frame.plan.kind == ARRAY:
            return self._item_is_certain(frame)
        self._one_more(frame)
        return self._names_are_left(frame, "", None, frame.plan.name_starts())

    def _one_more(self, frame: Frame, number: int = 1) -> None:
        """There are ``number`` more members, items or characters, for certain."""
        count = frame.fields[COUNT] + number
        self._trail.set(frame.fields, COUNT, count)
        self._reach(frame, count)

    def _reach(self, frame: Frame, count: int) -> None:
        """There will be at least ``count``."""
        fields, limits = frame.fields, frame.plan.limits
        at = first = fields[LIMIT]
        while at < len(limits) and limits[at][0] <= count:
            at += 1
        if at > first:
            self._trail.set(fields, LIMIT, at)
            self._verdicts.settle([(frame, slot, 1) for _, slot in limits[first:at]])

    def _item_is_certain(self, frame: Frame) -> bool:
        """Another item will follow."""
        self._one_more(frame)
        if frame.fields[OPEN]:
            spec = self._program.item(frame.plan, frame.fields[COUNT] - 1)
            self._refuse_doomed(frame, spec)
            self._refuse_used(frame, EVERY_KIND)
        return self._verdicts.result >= 0

    def _refuse_used(self, frame: Frame, kinds: int) -> None:
        """The last item, of one of ``kinds``, must be one of constants that are all used."""
        for _, slot, values in self._constants(frame):
            if not values.kinds_left(frame.seen) & kinds:
                self._verdicts.settle([(frame, slot, -1)])

    def _constants(self, frame: Frame | None) -> list[tuple[Frame, int, Values]]:
        """The constants out of which the last item of ``frame`` must be an unused one, with the leaf that says so."""
        if frame is None or not frame.plan.distinct:
            return []
        last = frame.fields[COUNT] - 1
        found = [(item.slot, item.constants(last)) for item in frame.plan.distinct if not frame.status[item.slot]]
        return [(frame, slot, values) for slot, values in found if values is not None]

    def _refuse_doomed(self, frame: Frame, spec: Spec) -> None:
        """What is false of a property or an item whatever its value is."""
        if spec.doomed:
            self._verdicts.settle([(frame, slot, -1) for slot in spec.doomed])
        for slot, clause in spec.clauses:
            self._verdicts.require(frame, slot, clause)

    def _names_are_left(self, frame: Frame, begun: str | None, ranges: Ranges | None, states: list[Any]) -> bool:
        """Decide the leaves that allow no unused name that begins with ``begun``; None: no listed one does.

        ``states`` are those of ``Plan.name_patterns`` after the same text.
        """
        automata, status, closed = frame.plan.name_patterns, frame.status, frame.plan.closed
        for slot, n in frame.plan.name_refusals:
            if not status[slot] and _must_match(automata[n], states[n], ranges):
                self._verdicts.settle([(frame, slot, -1)])
        if closed is not None:
            slots = closed.slots_without(status, begun, frame.seen, ranges)
            if slots:
                self._verdicts.settle([(frame, slot, -1) for slot in slots])
        for gate in frame.plan.open_gates:
            if status[gate.slot]:
                continue
            for source, places in gate.sources_left(status):
                if source.everything or (begun is not None and source.name_begins(begun, frame.seen, ranges)):
                    break
                if any(_may_match(automata[n], states[n], ranges) for n in places):
                    break
            else:
                self._verdicts.settle([(frame, gate.slot, -1)])
        return self._verdicts.result >= 0


def _may_match(automaton: Automaton | None, state: State | None, ranges: Ranges | None) -> bool:
    """Whether a name so far may come to match; without an automaton nobody knows."""
    if automaton is None or state is None:
        return True
    return (state.verdict if ranges is None else automaton.verdict_of(state, ranges)) >= 0


def _must_match(automaton: Automaton | None, state: State | None, ranges: Ranges | None) -> bool:
    """Whether each name that begins so is known to match."""
    if automaton is None or state is None:
        return False
    return (state.verdict if ranges is None else automaton.verdict_of(state, ranges)) > 0


def _is_awaited(waiting: tuple[Waiter, ...], status: list[int]) -> bool:
    return any(what == HIT or not status[slot] for what, slot, _, _ in waiting)


def _resolved(clause: Clause, item: Frame) -> Clause:
    """``clause`` without what it asks of ``item``, which has ended."""
    numbers: dict[int, int] = {}
    for entry, node in enumerate(item.entries):
        numbers[node.number] = 1 if item.status_of(entry) > 0 else -1
    kept = []
    for conjunction in clause:
        if all(slot >= 0 or numbers[-1 - slot] == wanted for slot, wanted in conjunction):
            kept.append(tuple(literal for literal in conjunction if literal[0] >= 0))
    return tuple(kept)
