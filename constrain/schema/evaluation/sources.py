"""What evaluates a property or an item, for the ``unevaluated`` keywords and for the names that an object may have."""

from bisect import bisect_left
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from constrain.schema.evaluation.characters import Ranges
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.pattern_automaton import Pattern

Literal = tuple[int, int]
"""A slot and the status that is wanted of it, 1 or -1; a negative slot ``-1 - n`` is node ``n`` applied to the item."""
Conjunction = tuple[Literal, ...]
Clause = tuple[Conjunction, ...]
"""True if one of the conjunctions is."""


@dataclass(frozen=True, slots=True)
class Source:
    """One subschema that evaluates properties or items, if ``condition`` holds."""

    condition: Conjunction
    everything: bool = False
    names: tuple[str, ...] = ()  # sorted
    patterns: tuple[Pattern, ...] = ()
    num_items: int = 0
    contains: Node | None = None

    def has_name(self, name: str) -> bool:
        """Whether it evaluates the property ``name``."""
        if self.everything:
            return True
        at = bisect_left(self.names, name)
        return self.names[at : at + 1] == (name,) or any(pattern.matches(name) for pattern in self.patterns)

    def name_begins(self, text: str, used: Container[str], ranges: Ranges | None) -> bool:
        """Whether one of ``names`` that is not ``used`` begins with ``text``, and goes on with one of ``ranges``."""
        return any_begins(self.names, text, ranges, used)


def any_begins(names: Sequence[str], text: str, ranges: Ranges | None, used: Container[str] = ()) -> bool:
    """As ``Source.name_begins``, for sorted ``names``."""
    at = bisect_left(names, text)
    while at < len(names) and names[at].startswith(text):
        name = names[at]
        if name not in used and (ranges is None or goes_on(name, len(text), ranges)):
            return True
        at += 1
    return False


def goes_on(name: str, at: int, ranges: Ranges) -> bool:
    """Whether the character of ``name`` at ``at`` is one of ``ranges``."""
    return at < len(name) and any(low <= ord(name[at]) <= high for low, high in ranges)


@dataclass(frozen=True, slots=True)
class NameGate:
    """A leaf that is false at a name which no source has: ``additionalProperties: false`` and its like."""

    slot: int
    sources: tuple[Source, ...]
    places: tuple[tuple[int, ...], ...]  # for each source, where its patterns stand in Plan.name_patterns

    @property
    def lists_names_only(self) -> bool:
        """Whether no condition and no pattern plays a part."""
        return not any(source.condition or source.everything or source.patterns for source in self.sources)

    @property
    def listed(self) -> tuple[str, ...]:
        """The names of all sources."""
        return tuple(name for source in self.sources for name in source.names)

    def sources_left(self, status: Sequence[int]) -> Iterator[tuple[Source, tuple[int, ...]]]:
        """Those whose condition may hold, with the places of their patterns."""
        for source, places in zip(self.sources, self.places, strict=True):
            if conjunction_status(source.condition, status) >= 0:
                yield source, places


@dataclass(frozen=True, slots=True)
class NameTable:
    """Leaves that allow some texts and nothing else, and for each text the bits of the leaves that allow it."""

    slots: tuple[int, ...]
    names: tuple[str, ...]  # sorted
    bits: tuple[int, ...]

    def slots_without(
        self, status: Sequence[int], text: str | None, used: Container[str], ranges: Ranges | None
    ) -> list[int]:
        """The undecided slots without an unused name that begins so; None begins no name."""
        left = 0
        for number, slot in enumerate(self.slots):
            if not status[slot]:
                left |= 1 << number
        at = len(self.names) if text is None else bisect_left(self.names, text)
        while left and text is not None and at < len(self.names) and self.names[at].startswith(text):
            name = self.names[at]
            if left & self.bits[at] and name not in used and (ranges is None or goes_on(name, len(text), ranges)):
                left &= ~self.bits[at]
            at += 1
        return [slot for number, slot in enumerate(self.slots) if left >> number & 1] if left else []

    def verdicts(self, status: Sequence[int], text: str) -> list[tuple[int, int]]:
        """For each undecided slot whether it allows the whole of ``text``: 1 or -1."""
        at = bisect_left(self.names, text)
        bits = self.bits[at] if self.names[at : at + 1] == (text,) else 0
        return [(slot, 1 if bits >> n & 1 else -1) for n, slot in enumerate(self.slots) if not status[slot]]


def name_table(gates: Sequence[tuple[int, tuple[str, ...]]]) -> NameTable:
    """The table of ``(slot, names)``."""
    bits: dict[str, int] = {}
    for number, (_, names) in enumerate(gates):
        for name in names:
            bits[name] = bits.get(name, 0) | 1 << number
    names = tuple(sorted(bits))
    return NameTable(tuple(slot for slot, _ in gates), names, tuple(bits[name] for name in names))


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """One ``unevaluatedProperties`` or ``unevaluatedItems``; its leaf is false at what neither it nor a source has."""

    slot: int
    inside: Node
    sources: tuple[Source, ...]

    def name_clause(self, name: str) -> Clause | None:
        """When the property ``name`` is evaluated; None: in any case."""
        found = [source.condition for source in self.sources if source.has_name(name)]
        return tuple(found) if () not in found else None

    def item_clause(self, index: int) -> Clause | None:
        """When the item at ``index`` is evaluated; None: in any case."""
        found: list[Conjunction] = []
        for source in self.sources:
            if source.everything or index < source.num_items:
                found.append(source.condition)
            elif source.contains is not None:
                found.append((*source.condition, (-1 - source.contains.number, 1)))
        return tuple(found) if () not in found else None


def conjunction_status(conjunction: Conjunction, status: Sequence[int]) -> int:
    """1, -1 or 0, by the statuses of the slots."""
    lowest = 1
    for slot, wanted in conjunction:
        value = status[slot] * wanted
        if value < lowest:
            lowest = value
    return lowest


def clause_status(clause: Clause, status: Sequence[int]) -> int:
    """1, -1 or 0, by the statuses of the slots."""
    highest = -1
    for conjunction in clause:
        value = conjunction_status(conjunction, status)
        if value > 0:
            return 1
        highest = max(highest, value)
    return highest


def asks_item(clause: Clause) -> bool:
    """Whether the clause rests on what a subschema says of the item itself."""
    return any(slot < 0 for conjunction in clause for slot, _ in conjunction)
