"""The verdict of a whole schema on a JSON text that is still being written.

Every open value has a frame: the circuit of all subschemas that apply to it, whose leaves are decided by what is read
and push their verdicts up, through the values around it, to the root. Circuits compute in Kleene's strong logic, so
that an early false is a proof that no completion is valid, under ``not`` and in ``oneOf``, too.
"""

from collections.abc import Hashable
from enum import IntEnum
from typing import Any, NamedTuple

from constrain.schema.evaluation.bounds import ContentBounds, EndBounds, content_bounds, end_bounds
from constrain.schema.evaluation.characters import ANY_CHARACTER, Ranges
from constrain.schema.evaluation.frames import BEGUN, COUNT, LIMIT, NAME_START, OPEN, SPEC, Frame
from constrain.schema.evaluation.kinds import ARRAY, OBJECT
from constrain.schema.evaluation.network import NoAutomatonError
from constrain.schema.evaluation.numbers import NumberReader
from constrain.schema.evaluation.program import Program
from constrain.schema.evaluation.scanner import MAX_DEPTH, Mode
from constrain.schema.evaluation.values import MAX_NUMBER_BYTES
from constrain.schema.matching import MatchTimeoutError


class Verdict(IntEnum):
    """What is proved about every way to complete the text to a JSON text without repeated names.

    ``FALSE``: none is valid (or there is none); ``TRUE``: all are; ``UNKNOWN``: neither is proved.
    """

    FALSE = -1
    UNKNOWN = 0
    TRUE = 1


class Bears(IntEnum):
    """How far a text may go on in any way at all: to a quote; to a quote or a closing bracket; to these or a comma."""

    NOTHING = 0
    UNTIL_QUOTE = 1
    UNTIL_CLOSING = 2
    UNTIL_COMMA = 3


class ScanState(NamedTuple):
    """What the bytes so far ask of the next as JSON, whatever the schema: equal states, equal continuations.

    ``container`` is "object", "array" or "" for the top level; ``partial`` as in ``Scanner``.
    """

    mode: Mode
    container: str
    partial: bytes


class Evaluator(NumberReader):
    """One text against one program. Owned by one sequence.

    Any JSON text of RFC 8259 is read, in any order of properties, form of numbers and layout, with these limits: names
    are not repeated in an object; strings are Unicode (no half surrogate pairs); ``MAX_DEPTH`` levels;
    ``MAX_NUMBER_BYTES`` a number, ``MAX_EXPONENT_DIGITS`` of its exponent.

    Escapes of characters outside of ``escapes`` are refused.
    """

    def __init__(self, program: Program, escapes: Ranges = ANY_CHARACTER) -> None:
        super().__init__(program, escapes)
        self._is_alive = not program.is_unsatisfiable
        self._base = 0

    # What callers see.

    @property
    def verdict(self) -> Verdict:
        """What is proved so far."""
        return Verdict(self._verdicts.result) if self._is_alive else Verdict.FALSE

    @property
    def is_complete(self) -> bool:
        """A whole JSON text stands there, and only blanks can follow; a number at the top level never ends itself."""
        return self.mode == Mode.DONE

    def feed(self, data: bytes) -> bool:
        """Go on over ``data``. False as soon as no completion is valid; the state is then only good for ``undo``."""
        state = (self.mode, self._top, self.offset, self.partial, self.literal, self._verdicts.result, self._is_alive)
        self._trail.changes.append((None, None, state))
        if self._is_alive:
            try:
                self._is_alive = self.scan(data) and self._verdicts.result >= 0
            except (MatchTimeoutError, NoAutomatonError):
                # What takes too long to match is refused: it could not be shown to be valid.
                self._is_alive = False
        return self._is_alive

    def mark(self) -> int:
        """A place to ``undo`` to."""
        return self._base + len(self._trail.changes)

    def undo(self, mark: int) -> None:
        """Take back everything since ``mark``; marks made after it are void."""
        assert mark >= self._base, (mark, self._base)
        state = self._trail.undo(mark - self._base)
        if state is not None:
            self.mode, self._top, self.offset, self.partial, self.literal, self._verdicts.result, self._is_alive = state

    def forget(self, mark: int) -> None:
        """Give up what undoing to before ``mark`` needs, and its memory."""
        del self._trail.changes[: max(mark - self._base, 0)]
        self._base = max(self._base, mark)

    def fresh(self) -> "Evaluator":
        """One of the same program at its start."""
        return Evaluator(self._program, self.escapes)

    def fork(self) -> "Evaluator":
        """The same state on its own; marks of this one mean nothing there."""
        other = self.fresh()
        other.mode, other.offset, other.partial, other.literal = self.mode, self.offset, self.partial, self.literal
        other._verdicts.result, other._is_alive = self._verdicts.result, self._is_alive
        for frame in reversed(self._frames()):
            other._top = frame.copy(other._top)
        return other

    def can_end(self) -> bool:
        """The text is a whole JSON value, and valid."""
        if not self._is_alive:
            return False
        if self.mode != Mode.IN_NUMBER or self.container() is not None:
            return self.mode == Mode.DONE and self._verdicts.result > 0
        mark = self.mark()
        self.feed(b" ")
        ends = self._is_alive and self._verdicts.result > 0
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
        around = frame.parent if frame.is_name else None
        if around is not None:
            for gate in around.plan.name_gates:
                if not around.status[gate.slot]:
                    return False
            if any(not around.status[slot] for slot, _ in around.plan.name_refusals):
                return False
        if frame.fields[OPEN] == 0:
            return True
        if any(status[slot] == 0 for slot, _ in plan.patterns) or any(status[slot] == 0 for slot, _ in plan.strings):
            return False
        within = None if num_bytes is None else frame.fields[COUNT] + num_bytes
        later = plan.limits[frame.fields[LIMIT] :]
        return not any(status[slot] == 0 and (within is None or count <= within) for count, slot in later)

    def bears(self, num_bytes: int) -> Bears:
        """What ``num_bytes`` more cannot make false, as long as they are JSON."""
        frame, mode = self._top, self.mode
        if not self._is_alive or frame is None:
            return Bears.NOTHING
        if mode in (Mode.IN_STRING, Mode.IN_NAME):
            return Bears.UNTIL_QUOTE if self.is_insensitive() else Bears.NOTHING
        if mode == Mode.IN_LITERAL:
            return Bears.NOTHING
        if mode == Mode.IN_NUMBER:
            parent, partial = frame.parent, self.partial
            if parent is None or len(partial) + num_bytes > MAX_NUMBER_BYTES or b"e" in partial or b"E" in partial:
                return Bears.NOTHING
            frame = parent
        if frame.depth + num_bytes >= MAX_DEPTH:
            return Bears.NOTHING
        if not frame.fields[OPEN]:
            return Bears.UNTIL_CLOSING
        is_free = mode in (Mode.COLON, Mode.VALUE) and frame.plan.kind == OBJECT
        return Bears.UNTIL_COMMA if is_free and frame.fields[SPEC] is self._program.empty else Bears.NOTHING

    def ignores_text(self) -> bool:
        """Inside a string of which neither the content nor the end means anything to the schema."""
        frame = self._top
        return self.mode == Mode.IN_STRING and frame is not None and not frame.fields[OPEN] and not frame.keeps

    def content_key(self, num_characters: int) -> Hashable | None:
        """What the verdict of content that goes on rests on: equal keys of a program, equal verdicts until the quote.

        Up to ``num_characters`` of content count. None where there is no such key, which is always so in names.
        """
        frame = self._top
        if frame is None or self.mode != Mode.IN_STRING or len(frame.entries) != 1:
            return None
        plan, fields, parent = frame.plan, frame.fields, frame.parent
        if parent is not None and parent.plan.distinct:
            return None
        later = [count for count, slot in plan.limits[fields[LIMIT] :] if not frame.status[slot]]
        near = fields[COUNT] if later and later[0] - fields[COUNT] <= num_characters + 1 else -1
        begun = fields[BEGUN] if plan.strings else ""
        fatal = (self._is_fatal(frame, -1), self._is_fatal(frame, 1)) if fields[OPEN] else (False, False)
        return plan, tuple(frame.status), tuple(frame.states), near, begun, self.partial, fatal

    def ends_alike(self) -> bool:
        """Whether what follows the quote after a string rests on its ``content_key`` alone, as long as it is open."""
        frame = self._top
        return frame is not None and not frame.keeps and not any(not frame.status[slot] for slot, _ in frame.plan.texts)

    def _is_fatal(self, frame: Frame, value: int) -> bool:
        """Whether all is false once the one entry of ``frame`` is ``value``."""
        entry = frame.plan.entries[0]
        assert not isinstance(entry, bool)
        return self._all_fail([[(frame, entry, value)]])

    def ignores_digits(self, num_bytes: int) -> bool:
        """Inside a number that ``num_bytes`` more cannot make false before it ends.

        Of an exponent, these may be the sign and ``MAX_EXPONENT_DIGITS`` digits.
        """
        frame = self._top
        if frame is None or self.mode != Mode.IN_NUMBER or len(self.partial) + num_bytes > MAX_NUMBER_BYTES:
            return False
        if b"e" in self.partial or b"E" in self.partial:
            return False
        status, plan = frame.status, frame.plan
        if len(self.partial) + num_bytes >= MAX_NUMBER_BYTES - plan.room and frame.fields[OPEN]:
            return False
        return not any(status[slot] == 0 for leaves in (plan.digits, plan.spans) for slot, _ in leaves)

    def content_bounds(self) -> ContentBounds | None:
        """What is asked of the content of the string or name that is open; None where only feeding it tells."""
        frame = self._top
        if frame is None or self.mode not in (Mode.IN_STRING, Mode.IN_NAME) or self.partial:
            return None
        return content_bounds(frame)

    def end_bounds(self) -> EndBounds | None:
        """What the content means, once it ends; None where only feeding it tells."""
        frame = self._top
        if frame is None or self.mode not in (Mode.IN_STRING, Mode.IN_NAME) or self.partial:
            return None
        try:
            return end_bounds(frame, self._program)
        except NoAutomatonError:
            return None

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

    def innermost_start(self) -> int:
        """Where the innermost open value, or name, began."""
        frame = self._top
        return -1 if frame is None else frame.start

    def literal_ends(self, value: Any) -> bool:
        return self._close(value)

    def _frames(self) -> list[Frame]:
        found = []
        frame = self._top
        while frame is not None:
            found.append(frame)
            frame = frame.parent
        return found
