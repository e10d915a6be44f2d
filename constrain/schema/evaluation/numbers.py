"""Numbers: what their beginning decides, and when nothing that they can still become is valid."""

from collections.abc import Iterable
from typing import Any

from constrain.schema.evaluation.frames import OPEN, Frame
from constrain.schema.evaluation.scanner import is_number
from constrain.schema.evaluation.spans import Span, exponent_spans, span_of, whole_span
from constrain.schema.evaluation.strings import StringReader
from constrain.schema.evaluation.values import MAX_NUMBER_BYTES, digits_of, may_become, read_number
from constrain.schema.evaluation.verdicts import Pending


class NumberReader(StringReader):
    """The part of an evaluator that reads numbers."""

    def number_so_far(self, text: bytes) -> bool:
        frame = self._top
        assert frame is not None
        for slot, digits in frame.plan.digits:
            if not frame.status[slot] and not may_become(text, digits):
                self._verdicts.settle([(frame, slot, -1)])
        left = MAX_NUMBER_BYTES - len(text)
        for slot, multiple in frame.plan.multiples:
            if left < frame.plan.room and not frame.status[slot] and not multiple.may_follow(text, left):
                self._verdicts.settle([(frame, slot, -1)])
        spans = frame.plan.spans
        if spans and frame.fields[OPEN] and (span := span_of(text)) is not None:
            self._verdicts.settle(_decided(frame, span))
        for around, slot, values in self._constants(frame.parent):
            if not may_become(text, [digits_of(number) for number in values.numbers if number not in around.seen]):
                self._verdicts.settle([(around, slot, -1)])
        return self._verdicts.result >= 0 and self._may_be_valid(frame, text, left)

    def number_ends(self, text: bytes) -> bool:
        frame = self._top
        assert frame is not None
        value = read_number(text) if frame.keeps or frame.fields[OPEN] else None
        if value is not None:
            self._verdicts.settle(_tested(frame, text))
        return self._close(value)

    def _may_be_valid(self, frame: Frame, text: bytes, left: int) -> bool:
        """False where every case of what the number can become is refused, each maybe by another keyword."""
        if not frame.fields[OPEN] or not frame.plan.numbers:
            return True
        if left <= 1:
            ends = [text, *(text + b"%d" % digit for digit in range(10 * left))]
            return not self._all_fail(_tested(frame, end) for end in ends if is_number(end))
        undecided = [(slot, early) for slot, early in frame.plan.spans if not frame.status[slot]]
        if not undecided:
            return True
        for slot in frame.plan.integers if len(undecided) > 1 else ():
            if not frame.status[slot] and (span := whole_span(text)) is not None:
                found = _decided(frame, span)
                if found and self._all_fail(([(frame, slot, 1), *found], [(frame, slot, -1)])):
                    return False
        spans = exponent_spans(text)
        return not spans or not self._all_fail(_decided(frame, span) for span in spans)

    def _all_fail(self, cases: Iterable[list[Pending]]) -> bool:
        """Whether all is false in each of ``cases``, of which one will be; the state is kept."""
        mark, result = len(self._trail.changes), self._verdicts.result
        for case in cases:
            self._verdicts.settle(case)
            failed = self._verdicts.result < 0
            self._trail.undo(mark)
            self._verdicts.result = result
            if not failed:
                return False
        return True


def _decided(frame: Frame, span: Span) -> list[Pending]:
    """The leaves that are true, or false, of all values of ``span``."""
    found = ((slot, early(span)) for slot, early in frame.plan.spans if not frame.status[slot])
    return [(frame, slot, verdict) for slot, verdict in found if verdict]


def _tested(frame: Frame, text: bytes) -> list[Pending]:
    """The leaves as the whole number ``text`` decides them."""
    value: Any = read_number(text)
    return [
        (frame, slot, 1 if test(value, text) else -1) for slot, test in frame.plan.numbers if not frame.status[slot]
    ]
