"""The values that are open, one frame each, and the trail that undoes every change to them."""

from typing import Any

from constrain.schema.evaluation.automaton import State
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.plan import Plan
from constrain.schema.evaluation.program import Waiter

COUNT, OPEN, LIMIT, PIECES, NAME, NAME_START, SPEC, CLAUSES, LATE, BEGUN = range(10)
"""Fields of a frame: how many members, items or characters there are for certain; entries that are undecided; the next
of the plan's limits; what is kept of the content, as (the earlier, the last); the property that is open, where it began
and what applies to it; clauses that are undecided; those that the frame's end decides; the text so far, while it is
compared with names or constants."""

MISSING: Any = object()


class Frame:
    """One open value, or the name of a property, which is a string of its own."""

    __slots__ = (
        "counters",
        "depth",
        "entries",
        "fields",
        "is_name",
        "keeps",
        "parent",
        "pending",
        "plan",
        "seen",
        "start",
        "states",
        "status",
        "waiters",
    )

    def __init__(
        self,
        plan: Plan,
        entries: tuple[Node, ...],
        waiters: tuple[tuple[Waiter, ...], ...],
        parent: "Frame | None",
        start: int,
        *,
        keeps: bool,
        is_name: bool = False,
    ) -> None:
        self.plan, self.entries, self.waiters, self.parent, self.start = plan, entries, waiters, parent, start
        self.status = [0] * len(plan.operations)
        self.pending = plan.pending.copy()
        self.counters = plan.counters.copy()
        self.fields: list[Any] = [0, plan.num_open, 0, None, None, -1, None, (), (), ""]
        self.seen: dict[Any, bool] = {}
        self.states: list[State | None] = []
        self.keeps = keeps  # whether the value itself is asked for when it closes
        self.is_name = is_name
        self.depth: int = 0 if parent is None else parent.depth + 1

    def status_of(self, entry: int) -> int:
        """What is decided of one of ``entries``: 1, -1 or 0."""
        reference = self.plan.entries[entry]
        return self.status[reference] if not isinstance(reference, bool) else 1 if reference else -1

    def copy(self, parent: "Frame | None") -> "Frame":
        """The same state in lists of its own."""
        frame: Frame = object.__new__(Frame)
        for name in Frame.__slots__:
            setattr(frame, name, getattr(self, name))
        frame.parent = parent
        for name in ("status", "pending", "counters", "fields", "states", "seen"):
            setattr(frame, name, getattr(self, name).copy())
        return frame


class Trail:
    """What to put back, newest last: ``(container, key, old value)``, or ``(None, None, state of the scanner)``."""

    def __init__(self) -> None:
        self.changes: list[tuple[Any, Any, Any]] = []

    def set(self, container: Any, key: Any, value: Any) -> None:
        """Change one place of a list."""
        self.changes.append((container, key, container[key]))
        container[key] = value

    def add(self, container: dict[Any, bool], key: Any) -> None:
        """Put a new key into a dict."""
        self.changes.append((container, key, MISSING))
        container[key] = True

    def undo(self, length: int) -> Any:
        """Put back all but the oldest ``length`` changes; returns the oldest state of the scanner among them."""
        changes, state = self.changes, None
        while len(changes) > length:
            container, key, old = changes.pop()
            if container is None:
                state = old
            elif old is MISSING:
                del container[key]
            else:
                container[key] = old
        return state


def unwound(pieces: Any) -> list[Any]:
    """What was kept in ``PIECES``, the earliest first."""
    found = []
    while pieces is not None:
        pieces, last = pieces
        found.append(last)
    found.reverse()
    return found
