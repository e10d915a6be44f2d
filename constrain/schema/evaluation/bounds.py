"""What is asked of the content of an open string or name: what may go on, and what may end."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from constrain.schema.evaluation.automaton import Automaton, State
from constrain.schema.evaluation.frames import BEGUN, COUNT, LIMIT, OPEN, PIECES, Frame, unwound
from constrain.schema.evaluation.program import Program

Places = tuple[tuple[Automaton, State], ...]
"""Automata and where the content so far has led each."""


class ContentBounds(NamedTuple):
    """What is asked of the content of a string that goes on, from here to its end.

    The automata of ``undecided``, and each group of ``hopeful``, in which one at least must not fail; what is compared
    with texts, of which ``listed`` may follow; and what counts: ``limits``, ascending, are the numbers of characters
    that decide something. Two contents are alike if each of ``undecided`` decides the same of both, they fail in the
    same groups, begin none of ``listed``, and reach the same limits.
    """

    undecided: Places
    hopeful: tuple[Places, ...]
    listed: tuple[str, ...]
    limits: tuple[int, ...]


class EndBounds(NamedTuple):
    """What the content of a string that ends means, together with all that follows its quote but a copy of it.

    Two contents are alike if all ``automata`` say the same of both, they reach the same ``limits``, and neither is one
    of ``listed``.
    """

    automata: Places
    listed: tuple[str, ...]
    limits: tuple[int, ...]


def content_bounds(frame: Frame) -> ContentBounds:
    """Of the open string or name of ``frame``, between two characters."""
    status, plan, begun = frame.status, frame.plan, frame.fields[BEGUN]
    listed = [text for slot, texts in plan.strings if not status[slot] for text in texts]
    hopeful: dict[Places, None] = {}
    around = frame.parent if frame.is_name else None
    for gate in around.plan.name_gates if around is not None and around.fields[OPEN] else ():
        assert around is not None
        if around.status[gate.slot]:
            continue
        left = list(gate.sources_left(around.status))
        places = [place for _, found in left for place in found]
        first, automata = len(plan.patterns), around.plan.name_patterns
        named = [
            (automaton, state) for n in places if (automaton := automata[n]) and (state := frame.states[first + n])
        ]
        if any(source.everything for source, _ in left) or len(named) < len(places):
            continue
        if any(state.verdict > 0 for _, state in named):
            continue
        listed += [name for source, _ in left for name in source.names]
        hopeful[tuple(item for item in named if not item[1].verdict)] = None
    hopeful.pop((), None)  # in which all fail alike
    rests = [] if begun is None else [text[len(begun) :] for text in listed if text.startswith(begun)]
    undecided = (*_undecided(frame), *_refused_names(frame))
    return ContentBounds(undecided, tuple(hopeful), tuple(dict.fromkeys(rests)), _limits(frame))


def end_bounds(frame: Frame, program: Program) -> EndBounds | None:
    """Of the open string or name of ``frame``, between two characters; None where any text may mean something."""
    status, plan = frame.status, frame.plan
    if frame.fields[OPEN] and any(not status[slot] for slot, _ in plan.texts):
        return None
    lists: list[Sequence[str]] = []
    automata: dict[Automaton, State] = {}
    if frame.fields[OPEN]:
        lists += [texts for slot, texts in plan.strings if not status[slot]]
        automata.update(_undecided(frame))
    begun = "".join(unwound(frame.fields[PIECES])) if frame.keeps else frame.fields[BEGUN] if lists else ""
    around = frame.parent
    if frame.keeps:
        if around is None or not (frame.is_name or _compares_items_alone(around)):
            return None
        lists.append(sorted(text for text in around.seen if isinstance(text, str) and text.startswith(begun)))
    if frame.is_name and around is not None and around.fields[OPEN]:
        names, patterns = program.named(around.plan)
        lists.append(names)
        for pattern in patterns:
            if pattern.automaton is None:
                return None
            state = pattern.automaton.advance(pattern.automaton.start, begun)
            automata.setdefault(pattern.automaton, state)
    if frame.keeps and not begun:
        lists.append(("",))  # what follows may hold that, too
    places = tuple(item for item in automata.items() if not item[1].verdict)
    return EndBounds(places, tuple(_rests(lists, begun)), _limits(frame))


def _rests(lists: Sequence[Sequence[str]], begun: str) -> Iterator[str]:
    """How the texts of sorted ``lists`` go on that begin with ``begun``."""
    for texts in lists:
        at = bisect_left(texts, begun)
        while at < len(texts) and texts[at].startswith(begun):
            yield texts[at][len(begun) :]
            at += 1


def _compares_items_alone(array: Frame) -> bool:
    """Whether an item is compared with the others, and ``array`` with nothing."""
    return bool(array.plan.unique) and not array.keeps and not array.plan.distinct


def _undecided(frame: Frame) -> Iterator[tuple[Automaton, State]]:
    for (slot, automaton), state in zip(frame.plan.patterns, frame.states, strict=False):
        if not frame.status[slot] and state is not None:
            yield automaton, state


def _refused_names(frame: Frame) -> Iterator[tuple[Automaton, State]]:
    """The patterns that no name in an object may match, and this one still may."""
    around = frame.parent if frame.is_name else None
    if around is None or not around.fields[OPEN]:
        return
    first, automata = len(frame.plan.patterns), around.plan.name_patterns
    for slot, n in around.plan.name_refusals:
        automaton, state = automata[n], frame.states[first + n]
        if not around.status[slot] and automaton is not None and state is not None and not state.verdict:
            yield automaton, state


def _limits(frame: Frame) -> tuple[int, ...]:
    """How many characters more reach each limit that is left, ascending."""
    if not frame.fields[OPEN]:
        return ()
    later = frame.plan.limits[frame.fields[LIMIT] :]
    return tuple(count - frame.fields[COUNT] for count, slot in later if not frame.status[slot])
