"""Verdicts on their way up: from a leaf through the circuit of its value, and on to the values around it."""

from constrain.schema.evaluation.circuit import ALL, ANY, NOT, ONE_TRUE
from constrain.schema.evaluation.frames import CLAUSES, LATE, OPEN, Frame, Trail
from constrain.schema.evaluation.program import CHILD, HIT, ROOT, UNEVALUATED
from constrain.schema.evaluation.sources import Clause, asks_item, clause_status

Pending = tuple[Frame, int, int]
"""A slot of a frame and the status that it gets."""


class Verdicts:
    """Sets statuses, with all that follows. ``result`` is the status of the whole text: 1, -1 or 0."""

    def __init__(self, result: int) -> None:
        self.trail = Trail()
        self.result = result

    def require(self, frame: Frame, slot: int, clause: Clause) -> None:
        """``slot`` is false unless ``clause`` turns out true."""
        if frame.status[slot]:
            return
        status = clause_status(clause, frame.status)
        if status < 0:
            self.settle([(frame, slot, -1)])
        elif status == 0:
            self.trail.set(frame.fields, CLAUSES, (*frame.fields[CLAUSES], (slot, clause)))

    def settle(self, todo: list[Pending]) -> None:
        """Decide slots, and all that follows from them."""
        asking: dict[Frame, None] = {}
        while todo or asking:
            if todo:
                self._settle_one(*todo.pop(), todo, asking)
                continue
            frame = asking.popitem()[0]
            for slot, clause in frame.fields[CLAUSES]:
                if not frame.status[slot] and clause_status(clause, frame.status) < 0:
                    todo.append((frame, slot, -1))

    def _settle_one(self, frame: Frame, slot: int, value: int, todo: list[Pending], asking: dict[Frame, None]) -> None:
        """Set one status; ``todo`` takes what follows, ``asking`` the frame if its clauses must be looked at."""
        status = frame.status
        if status[slot]:
            return
        changes = self.trail.changes
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
                self.tell(frame, entry, value, todo)
        if frame.fields[CLAUSES]:
            asking[frame] = None

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
        self.trail.set(pending, slot, left)
        if operation == ALL:
            return 0 if left else 1
        if operation == ANY:
            return 0 if left else -1
        num_true, undecided = divmod(left, ONE_TRUE)
        if num_true > 1:
            return -1
        return 0 if undecided else 1 if num_true else -1

    def tell(self, frame: Frame, entry: int, value: int, todo: list[Pending]) -> None:
        """Tell all who wait for an entry that it is decided."""
        for what, slot, counter, clause in frame.waiters[entry]:
            parent = frame.parent
            if what == ROOT:
                self.result = value
                continue
            assert parent is not None
            if what == CHILD:
                if value < 0:
                    todo.append((parent, slot, -1))
                elif counter >= 0:
                    left = parent.counters[counter] - 1
                    self.trail.set(parent.counters, counter, left)
                    if not left:
                        todo.append((parent, slot, 1))
            elif what == HIT and value > 0:
                hits = parent.plan.hits[slot]
                number = parent.counters[hits.counter] + 1
                self.trail.set(parent.counters, hits.counter, number)
                todo += [(parent, limit, 1) for count, limit in hits.limits if count == number]
            elif what == HIT and frame.fields[LATE]:
                todo += [
                    (parent, late, -1) for late, asked in frame.fields[LATE] if self._is_lost(asked, frame, parent)
                ]
            elif what == UNEVALUATED and value < 0:
                if asks_item(clause):
                    self.trail.set(frame.fields, LATE, (*frame.fields[LATE], (slot, clause)))
                else:
                    self._await(parent, slot, clause, todo)

    @staticmethod
    def _is_lost(clause: Clause, item: Frame, parent: Frame) -> bool:
        """Whether ``clause`` is false by what is decided of ``item``, which is still open, and around it."""
        statuses = {node.number: item.status_of(entry) for entry, node in enumerate(item.entries)}
        return all(
            any(
                (parent.status[slot] if slot >= 0 else statuses[-1 - slot]) * wanted < 0 for slot, wanted in conjunction
            )
            for conjunction in clause
        )

    def _await(self, frame: Frame, slot: int, clause: Clause, todo: list[Pending]) -> None:
        """As ``require``, from within ``settle``."""
        if not frame.status[slot]:
            status = clause_status(clause, frame.status)
            if status < 0:
                todo.append((frame, slot, -1))
            elif status == 0:
                self.trail.set(frame.fields, CLAUSES, (*frame.fields[CLAUSES], (slot, clause)))
