"""The verdict of a whole schema on a JSON text that is still being written.

Every open value has a frame: the circuit of all subschemas that apply to it, whose leaves are decided by what is read
and push their verdicts up, through the values around it, to the root. Circuits compute in Kleene's strong logic, so that
an early false is a proof that no completion is valid, under ``not`` and in ``oneOf``, too.
"""

from bisect import bisect_left
from enum import IntEnum
from typing import Any, NamedTuple

from constrain.schema.evaluation.characters import Ranges
from constrain.schema.evaluation.circuit import ALL, ANY, NOT, ONE_TRUE
from constrain.schema.evaluation.frames import (
    BEGUN,
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
    Trail,
)
from constrain.schema.evaluation.kinds import ARRAY, OBJECT, STRING
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.program import CHILD, HIT, ROOT, UNEVALUATED, Program, Spec, Waiter
from constrain.schema.evaluation.scanner import MAX_DEPTH, Mode, Scanner
from constrain.schema.evaluation.sources import Clause, any_begins, clause_status
from constrain.schema.evaluation.values import MAX_NUMBER_BYTES, may_become, read_number
from constrain.schema.matching import MatchTimeoutError


class Verdict(IntEnum):
    """What is proved about every way to complete the text to a JSON text without repeated names.

    ``FALSE``: none is valid (or there is none); ``TRUE``: all are; ``UNKNOWN``: neither is proved.
    """

    FALSE = -1
    UNKNOWN = 0
    TRUE = 1


class ScanState(NamedTuple):
    """What the bytes so far ask of the next as JSON, whatever the schema: equal states, equal continuations.

    ``container`` is "object", "array" or "" for the top level; ``partial`` as in ``Scanner``.
    """

    mode: Mode
    container: str
    partial: bytes


_Pending = tuple[Frame, int, int]


class Evaluator(Scanner):
    """One text against one program. Owned by one sequence.

    Any JSON text of RFC 8259 is read, in any order of properties, form of numbers and layout, with these limits: names
    are not repeated in an object; strings are Unicode (no half surrogate pairs); ``MAX_DEPTH`` levels;
    ``MAX_NUMBER_BYTES`` a number, ``MAX_EXPONENT_DIGITS`` of its exponent.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._program = program
        self._trail = Trail()
        self._top: Frame | None = None
        self._result = -1 if program.is_unsatisfiable else 0  # of the root
        self._is_alive = not program.is_unsatisfiable
        self._base = 0

    # What callers see.

    @property
    def verdict(self) -> Verdict:
        """What is proved so far."""
        return Verdict(self._result) if self._is_alive else Verdict.FALSE

    @property
    def is_complete(self) -> bool:
        """A whole JSON text stands there, and only blanks can follow; a number at the top level never ends itself."""
        return self.mode == Mode.DONE

    def feed(self, data: bytes) -> bool:
        """Go on over ``data``. False as soon as no completion is valid; the state is then only good for ``undo``."""
        state = (self.mode, self._top, self.offset, self.partial, self.literal, self._result, self._is_alive)
        self._trail.changes.append((None, None, state))
        if self._is_alive:
            try:
                self._is_alive = self.scan(data) and self._result >= 0
            except MatchTimeoutError:
                # What takes too long to match is refused: it could not be shown to be valid.
                self._is_alive = False
        return self._is_alive

    def mark(self) -> int:
        """A place to ``undo`` to."""
        return self._base + len(self._trail.changes)

    def undo(self, mark: int) -> None:
        """Take back everything since ``mark``; marks made after it are void."""
        state = self._trail.undo(mark - self._base)
        if state is not None:
            self.mode, self._top, self.offset, self.partial, self.literal, self._result, self._is_alive = state

    def forget(self, mark: int) -> None:
        """Give up what undoing to before ``mark`` needs, and its memory."""
        del self._trail.changes[: max(mark - self._base, 0)]
        self._base = max(self._base, mark)

    def fork(self) -> "Evaluator":
        """The same state on its own; marks of this one mean nothing there."""
        other = Evaluator(self._program)
        other.mode, other.offset, other.partial, other.literal = self.mode, self.offset, self.partial, self.literal
        other._result, other._is_alive = self._result, self._is_alive
        for frame in reversed(self._frames()):
            other._top = frame.copy(other._top)
        return other

    def can_end(self) -> bool:
        """The text is a whole JSON value, and valid."""
        if not self._is_alive:
            return False
        if self.mode != Mode.IN_NUMBER or self.container() is not None:
            return self.mode == Mode.DONE and self._result > 0
        mark = self.mark()
        self.feed(b" ")
        ends = self._is_alive and self._result > 0
        self.undo(mark)
        return ends

    def is_insensitive(self, num_bytes: int | None = None) -> bool:
        """Inside a string or a name whose content, before the closing quote, cannot make the verdict false any more.

        ``num_bytes`` of content, if given: further ones may. Content is all but the quote: it must go on as a JSON
        string (UTF-8, escapes), which ``scan_state().partial`` tells of.
        """
        frame = self._top
        if not self._is_alive or frame is None or self.mode not in (Mode.IN_STRING, Mode.IN_NAME):
            return False
        status, plan = frame.status, frame.plan
        if frame.is_name and frame.parent is not None:
            if any(frame.parent.status[gate.slot] == 0 for gate in frame.parent.plan.name_gates):
                return False
        if frame.fields[OPEN] == 0:
            return True
        if any(status[slot] == 0 for slot, _ in plan.patterns) or any(status[slot] == 0 for slot, _ in plan.strings):
            return False
        within = None if num_bytes is None else frame.fields[COUNT] + num_bytes
        later = plan.limits[frame.fields[LIMIT] :]
        return not any(status[slot] == 0 and (within is None or count <= within) for count, slot in later)

    def ignores_text(self) -> bool:
        """Inside a string of which neither the content nor the end means anything to the schema."""
        frame = self._top
        return self.mode == Mode.IN_STRING and frame is not None and not frame.fields[OPEN] and not frame.keeps

    def ignores_digits(self, num_bytes: int) -> bool:
        """Inside a number that ``num_bytes`` more cannot make false before it ends.

        Of an exponent, these may be the sign and ``MAX_EXPONENT_DIGITS`` digits.
        """
        frame = self._top
        if frame is None or self.mode != Mode.IN_NUMBER or len(self.partial) + num_bytes > MAX_NUMBER_BYTES:
            return False
        if b"e" in self.partial or b"E" in self.partial:
            return False
        return not any(frame.status[slot] == 0 for slot, _ in frame.plan.digits)

    def scan_state(self) -> ScanState:
        """Hashable, and small but for numbers."""
        names = {OBJECT: "object", ARRAY: "array", None: ""}
        return ScanState(Mode(self.mode), names[self.container()], self.partial)

    def value_starts(self) -> list[int]:
        """Where every open value began, and the name of every property that is not finished; innermost last."""
        starts: list[int] = []
        for frame in reversed(self._frames()):
            starts.append(frame.start)
            if frame.plan.kind == OBJECT and frame.fields[NAME_START] >= 0:
                starts.append(frame.fields[NAME_START])
        return starts

    # Values.

    def container(self) -> int | None:
        frame = self._top
        while frame is not None and frame.plan.kind > ARRAY:
            frame = frame.parent
        return None if frame is None else frame.plan.kind

    def _frames(self) -> list[Frame]:
        found = []
        frame = self._top
        while frame is not None:
            found.append(frame)
            frame = frame.parent
        return found

    def value_begins(self, kind: int, is_first: bool) -> bool:
        parent = self._top
        if parent is None:
            return self._open(self._program.root, kind, keeps=False)
        if is_first and not self._item_is_certain(parent):
            return False
        if parent.plan.kind == ARRAY:
            spec = self._program.item(parent.plan, parent.fields[COUNT] - 1)
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
            frame.states = [pattern.start for _, pattern in plan.patterns]
        if plan.constants:
            todo: list[_Pending] = []
            for entry, value in plan.constants:
                self._tell(frame, entry, value, todo)
            self._settle(todo)
        return self._result >= 0

    def _close(self, value: Any) -> bool:
        """The innermost value has ended, and all that it decides is decided."""
        frame = self._top
        assert frame is not None and frame.fields[OPEN] == 0, frame
        parent = self._top = frame.parent
        if frame.fields[LATE] and parent is not None:
            for slot, clause in frame.fields[LATE]:
                self._require(parent, slot, _resolved(clause, frame))
        if parent is None:
            self.mode = Mode.DONE
            return self._result >= 0
        self.mode = Mode.AFTER
        if parent.plan.kind == OBJECT:
            self._trail.set(parent.fields, NAME_START, -1)
            if parent.keeps:
                self._trail.set(parent.fields, PIECES, (parent.fields[PIECES], (parent.fields[NAME], value)))
            return self._result >= 0
        if parent.keeps:
            self._trail.set(parent.fields, PIECES, (parent.fields[PIECES], value))
        if parent.plan.unique:
            if value in parent.seen:
                self._settle([(parent, slot, -1) for slot in parent.plan.unique])
            else:
                self._trail.add(parent.seen, value)
        return self._result >= 0

    def container_ends(self) -> bool:
        frame = self._top
        assert frame is not None
        self._settle_rest(frame)
        value: Any = None
        if frame.keeps:
            parts = _unwound(frame.fields[PIECES])
            value = frozenset(parts) if frame.plan.kind == OBJECT else tuple(parts)
        return self._close(value)

    def _settle_rest(self, frame: Frame) -> None:
        """Decide the leaves that only the end decides."""
        if frame.fields[OPEN]:
            status, plan = frame.status, frame.plan
            self._settle([(frame, slot, value) for slot, value in plan.at_close if not status[slot]])
            for unevaluated in plan.unevaluated:
                if not status[unevaluated.slot]:
                    self._settle([(frame, unevaluated.slot, 1)])

    def comma(self) -> bool:
        frame = self._top
        assert frame is not None
        if frame.plan.kind == ARRAY:
            return self._item_is_certain(frame)
        self._one_more(frame)
        return self._names_are_left(frame, "", None, [pattern.start for pattern in frame.plan.name_patterns])

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
            self._settle([(frame, slot, 1) for _, slot in limits[first:at]])

    def _item_is_certain(self, frame: Frame) -> bool:
        """Another item will follow."""
        self._one_more(frame)
        if frame.fields[OPEN]:
            spec = self._program.item(frame.plan, frame.fields[COUNT] - 1)
            self._refuse_doomed(frame, spec)
        return self._result >= 0

    def _refuse_doomed(self, frame: Frame, spec: Spec) -> None:
        """What is false of a property or an item whatever its value is."""
        if spec.doomed:
            self._settle([(frame, slot, -1) for slot in spec.doomed])
        for slot, clause in spec.clauses:
            self._require(frame, slot, clause)

    # Names.

    def name_begins(self, is_first: bool) -> bool:
        frame = self._top
        assert frame is not None
        self._trail.set(frame.fields, NAME_START, self.offset)
        if is_first:
            self._one_more(frame)
            if not self._names_are_left(frame, "", None, [pattern.start for pattern in frame.plan.name_patterns]):
                return False
        if not self._open(self._program.names(frame.plan), STRING, keeps=True, is_name=True):
            return False
        name = self._top
        assert name is not None
        if frame.fields[OPEN]:
            name.states += [pattern.start for pattern in frame.plan.name_patterns]
        return True

    def name_ends(self) -> bool:
        name = self._top
        assert name is not None and name.parent is not None
        frame = name.parent
        text = "".join(_unwound(name.fields[PIECES]))
        self._settle_string(name, text)
        self._top, self.mode = frame, Mode.COLON
        if text in frame.seen:
            return False
        trail = self._trail
        trail.add(frame.seen, text)
        trail.set(frame.fields, NAME, text)
        if not frame.fields[OPEN]:
            return self._result >= 0
        slot = frame.plan.presence.get(text)
        if slot is not None:
            self._settle([(frame, slot, 1)])
        spec = self._program.member(frame.plan, text)
        trail.set(frame.fields, SPEC, spec)
        self._refuse_doomed(frame, spec)
        return self._result >= 0

    def _names_are_left(self, frame: Frame, begun: str | None, ranges: Ranges | None, states: list[Any]) -> bool:
        """Decide the leaves that allow no unused name that begins with ``begun``; None: no listed one does.

        ``states`` are those of ``Plan.name_patterns`` after the same text.
        """
        patterns, status = frame.plan.name_patterns, frame.status
        for gate in frame.plan.name_gates:
            if status[gate.slot]:
                continue
            for source, places in gate.sources_left(status):
                if source.everything or (begun is not None and source.name_begins(begun, frame.seen, ranges)):
                    break
                if any(states[n] is None for n in places):
                    break
                if ranges is None and any(states[n].verdict >= 0 for n in places):
                    break
                if ranges is not None and any(patterns[n].may_go_on(states[n], ranges) for n in places):
                    break
            else:
                self._settle([(frame, gate.slot, -1)])
        return self._result >= 0

    # Strings.

    def text_goes_on(self, text: str) -> bool:
        frame = self._top
        assert frame is not None
        trail, fields, plan = self._trail, frame.fields, frame.plan
        if frame.keeps or plan.texts:
            trail.set(fields, PIECES, (fields[PIECES], text))
        if fields[OPEN]:
            if plan.limits:
                self._one_more(frame, len(text))
            if plan.patterns:
                self._advance_patterns(frame, text)
            if plan.strings:
                begun = fields[BEGUN] + text
                trail.set(fields, BEGUN, begun)
                self._compare(frame, begun, None)
        if frame.is_name and frame.parent is not None and frame.parent.plan.name_gates:
            self._advance_name(frame, frame.parent, text)
        return self._result >= 0

    def _advance_patterns(self, frame: Frame, text: str) -> None:
        status, states = frame.status, frame.states
        for n, (slot, pattern) in enumerate(frame.plan.patterns):
            if not status[slot]:
                state = pattern.advance(states[n], text)  # type: ignore[arg-type]
                if state is not states[n]:
                    self._trail.set(states, n, state)
                if state.verdict:
                    self._settle([(frame, slot, state.verdict)])

    def _compare(self, frame: Frame, begun: str, ranges: Ranges | None) -> None:
        """Refuse constants that do not begin so."""
        for slot, strings in frame.plan.strings:
            if not frame.status[slot] and not any_begins(strings, begun, ranges):
                self._settle([(frame, slot, -1)])

    def _advance_name(self, name: Frame, frame: Frame, text: str) -> None:
        """The name has grown by ``text``: what still allows such a name in the object ``frame``?"""
        if not frame.fields[OPEN]:
            return
        plan, states, first = frame.plan, name.states, len(name.plan.patterns)
        for n, pattern in enumerate(plan.name_patterns):
            state = states[first + n]
            if state is not None:
                following = pattern.advance(state, text)
                if following is not state:
                    self._trail.set(states, first + n, following)
        begun = name.fields[BEGUN]
        if begun is not None:
            if not name.plan.strings:
                begun += text
            listed = any(any_begins(source.names, begun, None) for gate in plan.name_gates for source in gate.sources)
            if not name.plan.strings:
                self._trail.set(name.fields, BEGUN, begun if listed else None)
            begun = begun if listed else None
        self._names_are_left(frame, begun, None, states[first:])

    def character_begins(self, ranges: Ranges) -> bool:
        frame = self._top
        assert frame is not None
        if not ranges:
            return False
        if frame.fields[OPEN]:
            self._reach(frame, frame.fields[COUNT] + 1)
            for n, (slot, pattern) in enumerate(frame.plan.patterns):
                if not frame.status[slot] and not pattern.may_go_on(frame.states[n], ranges):  # type: ignore[arg-type]
                    self._settle([(frame, slot, -1)])
            if frame.plan.strings:
                self._compare(frame, frame.fields[BEGUN], ranges)
        parent = frame.parent
        if frame.is_name and parent is not None and parent.fields[OPEN] and parent.plan.name_gates:
            states = frame.states[len(frame.plan.patterns) :]
            self._names_are_left(parent, frame.fields[BEGUN], ranges, states)
        return self._result >= 0

    def string_ends(self) -> bool:
        frame = self._top
        assert frame is not None
        kept = frame.keeps or frame.plan.texts
        text = "".join(_unwound(frame.fields[PIECES])) if kept else ""
        self._settle_string(frame, text)
        return self._close(text)

    def _settle_string(self, frame: Frame, text: str) -> None:
        if not frame.fields[OPEN]:
            return
        plan, status = frame.plan, frame.status
        todo = []
        for n, (slot, _) in enumerate(plan.patterns):
            if not status[slot]:
                state = frame.states[n]
                todo.append((frame, slot, 1 if state is not None and state.accepts else -1))
        begun = frame.fields[BEGUN]
        for slot, strings in plan.strings:
            if not status[slot]:
                at = bisect_left(strings, begun)
                todo.append((frame, slot, 1 if strings[at : at + 1] == (begun,) else -1))
        self._settle(todo)
        for slot, test in plan.texts:
            if frame.fields[OPEN] and not status[slot]:
                self._settle([(frame, slot, 1 if test(text) else -1)])
        self._settle_rest(frame)

    # Numbers and literals.

    def number_so_far(self, text: bytes) -> bool:
        frame = self._top
        assert frame is not None
        for slot, digits in frame.plan.digits:
            if not frame.status[slot] and not may_become(text, digits):
                self._settle([(frame, slot, -1)])
        return self._result >= 0

    def number_ends(self, text: bytes) -> bool:
        frame = self._top
        assert frame is not None
        value = read_number(text) if frame.keeps or frame.fields[OPEN] else None
        if value is not None:
            self._settle(
                [
                    (frame, slot, 1 if test(value, text) else -1)
                    for slot, test in frame.plan.numbers
                    if not frame.status[slot]
                ]
            )
        return self._close(value)

    def literal_ends(self, value: Any) -> bool:
        return self._close(value)

    # Verdicts on their way up.

    def _require(self, frame: Frame, slot: int, clause: Clause) -> None:
        """``slot`` is false unless ``clause`` turns out true."""
        if frame.status[slot]:
            return
        status = clause_status(clause, frame.status)
        if status < 0:
            self._settle([(frame, slot, -1)])
        elif status == 0:
            self._trail.set(frame.fields, CLAUSES, (*frame.fields[CLAUSES], (slot, clause)))

    def _settle(self, todo: list[_Pending]) -> None:
        """Decide slots, and all that follows from them."""
        changes = self._trail.changes
        asking: dict[Frame, None] = {}
        while todo:
            frame, slot, value = todo.pop()
            status = frame.status
            if status[slot]:
                continue
            changes.append((status, slot, 0))
            status[slot] = value
            plan = frame.plan
            for parent in plan.parents[slot]:
                if not status[parent]:
                    verdict = self._combine(frame, plan.operations[parent], parent, value)
                    if verdict:
                        todo.append((frame, parent, verdict))
            entries = plan.entries_at[slot]
            if entries:
                changes.append((frame.fields, OPEN, frame.fields[OPEN]))
                frame.fields[OPEN] -= len(entries)
                for entry in entries:
                    self._tell(frame, entry, value, todo)
            if frame.fields[CLAUSES]:
                asking[frame] = None
            while asking and not todo:
                frame = asking.popitem()[0]
                for slot, clause in frame.fields[CLAUSES]:
                    if not frame.status[slot] and clause_status(clause, frame.status) < 0:
                        todo.append((frame, slot, -1))

    def _combine(self, frame: Frame, operation: int, slot: int, value: int) -> int:
        """The status of ``slot`` after one of its inputs has become ``value``."""
        if operation == NOT:
            return -value
        if operation == ALL and value < 0:
            return -1
        if operation == ANY and value > 0:
            return 1
        pending = frame.pending
        left = pending[slot] - 1
        if operation not in (ALL, ANY) and value > 0:
            left += ONE_TRUE
        self._trail.set(pending, slot, left)
        if operation == ALL:
            return 0 if left else 1
        if operation == ANY:
            return 0 if left else -1
        num_true, undecided = divmod(left, ONE_TRUE)
        if num_true > 1:
            return -1
        return 0 if undecided else 1 if num_true else -1

    def _tell(self, frame: Frame, entry: int, value: int, todo: list[_Pending]) -> None:
        """Tell all who wait for an entry that it is decided."""
        for what, slot, counter, clause in frame.waiters[entry]:
            parent = frame.parent
            if what == ROOT:
                self._result = value
                continue
            assert parent is not None
            if what == CHILD:
                if value < 0:
                    todo.append((parent, slot, -1))
                elif counter >= 0:
                    left = parent.counters[counter] - 1
                    self._trail.set(parent.counters, counter, left)
                    if not left:
                        todo.append((parent, slot, 1))
            elif what == HIT and value > 0:
                hits = parent.plan.hits[slot]
                number = parent.counters[hits.counter] + 1
                self._trail.set(parent.counters, hits.counter, number)
                todo += [(parent, limit, 1) for count, limit in hits.limits if count == number]
            elif what == UNEVALUATED and value < 0:
                if any(literal < 0 for conjunction in clause for literal, _ in conjunction):
                    self._trail.set(frame.fields, LATE, (*frame.fields[LATE], (slot, clause)))
                else:
                    self._await(parent, slot, clause, todo)

    def _await(self, frame: Frame, slot: int, clause: Clause, todo: list[_Pending]) -> None:
        """As ``_require``, from within ``_settle``."""
        if not frame.status[slot]:
            status = clause_status(clause, frame.status)
            if status < 0:
                todo.append((frame, slot, -1))
            elif status == 0:
                self._trail.set(frame.fields, CLAUSES, (*frame.fields[CLAUSES], (slot, clause)))


def _is_awaited(waiting: tuple[Waiter, ...], status: list[int]) -> bool:
    return any(what == HIT or not status[slot] for what, slot, _, _ in waiting)


def _resolved(clause: Clause, item: Frame) -> Clause:
    """``clause`` without what it asks of ``item``, which has ended."""
    numbers: dict[int, int] = {}
    nodes: tuple[Node, ...] = item.entries
    for entry, node in enumerate(nodes):
        reference = item.plan.entries[entry]
        true = reference if isinstance(reference, bool) else item.status[reference] > 0
        numbers[node.number] = 1 if true else -1
    kept = []
    for conjunction in clause:
        if all(slot >= 0 or numbers[-1 - slot] == wanted for slot, wanted in conjunction):
            kept.append(tuple(literal for literal in conjunction if literal[0] >= 0))
    return tuple(kept)


def _unwound(pieces: Any) -> list[Any]:
    found = []
    while pieces is not None:
        pieces, last = pieces
        found.append(last)
    found.reverse()
    return found
