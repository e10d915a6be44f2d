"""Strings, the names of properties among them: what their content decides, as it comes."""

from constrain.schema.evaluation.characters import Ranges
from constrain.schema.evaluation.containers import ValueReader
from constrain.schema.evaluation.frames import (
    BEGUN,
    COUNT,
    NAME,
    NAME_START,
    OPEN,
    PIECES,
    SPEC,
    Frame,
    unwound,
)
from constrain.schema.evaluation.kinds import STRING
from constrain.schema.evaluation.scanner import Mode
from constrain.schema.evaluation.sources import any_begins


class StringReader(ValueReader):
    """The part of an evaluator that reads strings and names."""

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
        around = frame.parent if frame.is_name else None
        if around is not None and (around.plan.name_gates or around.plan.name_refusals):
            self._advance_name(frame, around, text)
        return self._verdicts.result >= 0

    def _advance_patterns(self, frame: Frame, text: str) -> None:
        status, states = frame.status, frame.states
        for n, (slot, automaton) in enumerate(frame.plan.patterns):
            if not status[slot]:
                state = automaton.advance(states[n], text)  # type: ignore[arg-type]
                if state is not states[n]:
                    self._trail.set(states, n, state)
                if state.verdict:
                    self._verdicts.settle([(frame, slot, state.verdict)])

    def _compare(self, frame: Frame, begun: str, ranges: Ranges | None) -> None:
        """Refuse constants that do not begin so."""
        constants = frame.plan.constants_table
        if constants is not None:
            slots = constants.slots_without(frame.status, begun, (), ranges)
            if slots:
                self._verdicts.settle([(frame, slot, -1) for slot in slots])
        for around, slot, values in self._constants(frame.parent):
            if not any_begins(values.strings, begun, ranges, around.seen):
                self._verdicts.settle([(around, slot, -1)])

    def _advance_name(self, name: Frame, frame: Frame, text: str) -> None:
        """The name has grown by ``text``: what still allows such a name in the object ``frame``?"""
        if not frame.fields[OPEN]:
            return
        plan, states, first = frame.plan, name.states, len(name.plan.patterns)
        for n, automaton in enumerate(plan.name_patterns):
            state = states[first + n]
            if automaton is not None and state is not None:
                following = automaton.advance(state, text)
                if following is not state:
                    self._trail.set(states, first + n, following)
        begun = name.fields[BEGUN]
        if begun is not None:
            if not name.plan.strings:
                begun += text
            listed = (plan.closed is not None and any_begins(plan.closed.names, begun, None)) or any(
                any_begins(source.names, begun, None) for gate in plan.open_gates for source in gate.sources
            )
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
            for n, (slot, automaton) in enumerate(frame.plan.patterns):
                if frame.status[slot]:
                    continue
                verdict = automaton.verdict_of(frame.states[n], ranges)  # type: ignore[arg-type]
                if verdict:
                    self._verdicts.settle([(frame, slot, verdict)])
            if frame.plan.strings:
                self._compare(frame, frame.fields[BEGUN], ranges)
        parent = frame.parent
        if frame.is_name and parent is not None and parent.fields[OPEN]:
            states = frame.states[len(frame.plan.patterns) :]
            self._names_are_left(parent, frame.fields[BEGUN], ranges, states)
        return self._verdicts.result >= 0

    def string_ends(self) -> bool:
        frame = self._top
        assert frame is not None
        kept = frame.keeps or frame.plan.texts
        text = "".join(unwound(frame.fields[PIECES])) if kept else ""
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
        if plan.constants_table is not None:
            todo += [(frame, slot, value) for slot, value in plan.constants_table.verdicts(status, frame.fields[BEGUN])]
        self._verdicts.settle(todo)
        for slot, test in plan.texts:
            if frame.fields[OPEN] and not status[slot]:
                self._verdicts.settle([(frame, slot, 1 if test(text) else -1)])
        self._settle_rest(frame)

    # Names.

    def name_begins(self, is_first: bool) -> bool:
        frame = self._top
        assert frame is not None
        self._trail.set(frame.fields, NAME_START, self.offset)
        if is_first:
            self._one_more(frame)
            if not self._names_are_left(frame, "", None, frame.plan.name_starts()):
                return False
        if not self._open(self._program.names(frame.plan), STRING, keeps=True, is_name=True):
            return False
        name = self._top
        assert name is not None
        if frame.fields[OPEN]:
            name.states += frame.plan.name_starts()
        return True

    def name_ends(self) -> bool:
        name = self._top
        assert name is not None and name.parent is not None
        frame = name.parent
        text = "".join(unwound(name.fields[PIECES]))
        self._settle_string(name, text)
        self._top, self.mode = frame, Mode.COLON
        if text in frame.seen:
            return False
        trail = self._trail
        trail.add(frame.seen, text)
        trail.set(frame.fields, NAME, text)
        if not frame.fields[OPEN]:
            return self._verdicts.result >= 0
        slot = frame.plan.presence.get(text)
        if slot is not None:
            self._verdicts.settle([(frame, slot, 1)])
        spec = self._program.member(frame.plan, text)
        trail.set(frame.fields, SPEC, spec)
        self._refuse_doomed(frame, spec)
        return self._verdicts.result >= 0
