"""What a set of subschemas asks of one value of one kind: built once, shared by every such value."""

from collections.abc import Callable
from dataclasses import dataclass, field

from constrain.schema.evaluation.automaton import Automaton, State
from constrain.schema.evaluation.circuit import Reference
from constrain.schema.evaluation.nodes import Node, Values
from constrain.schema.evaluation.sources import NameGate, NameTable, Unevaluated
from constrain.schema.evaluation.spans import EarlyTest, Multiple
from constrain.schema.evaluation.values import Number


@dataclass(frozen=True, slots=True)
class Children:
    """The leaf that the properties, or the items, of one node decide.

    ``counter``: where the constrained ones that are still to come are counted, if nothing else constrains; at 0 the
    leaf is true. -1 if there is no such count.
    """

    slot: int
    node: Node
    counter: int = -1


@dataclass(frozen=True, slots=True)
class Hits:
    """How many items match ``node``: leaves that are true from a count on."""

    node: Node
    counter: int
    limits: tuple[tuple[int, int], ...]  # (count, slot)


@dataclass(frozen=True, slots=True)
class Distinct:
    """The leaf of a ``uniqueItems`` beside ``items`` of constants only, each of which stands there once at most.

    The leaf may be made false where the constants left show that ``node`` is, since nothing else rests on it.
    """

    slot: int
    node: Node

    @property
    def has_constants(self) -> bool:
        """Whether this is the case for some place."""
        places = (*self.node.first_items, self.node.other_items)
        return any(child is not None and child.constants is not None for child in places)

    def constants(self, index: int) -> Values | None:
        """What may stand at ``index``, if that is constants only."""
        first = self.node.first_items
        child = first[index] if index < len(first) else self.node.other_items
        return None if child is None else child.constants


@dataclass(slots=True, eq=False)
class Plan:
    """One circuit with its leaves by what decides them. Statuses are 1 true, -1 false, 0 unknown."""

    kind: int
    entries: tuple[Reference, ...] = ()
    operations: list[int] = field(default_factory=list)
    parents: list[tuple[int, ...]] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    entries_at: list[tuple[int, ...]] = field(default_factory=list)
    constants: tuple[tuple[int, int], ...] = ()  # (entry, status) of those decided from the start
    num_open: int = 0
    counters: list[int] = field(default_factory=list)
    at_close: tuple[tuple[int, int], ...] = ()  # (slot, status) of leaves that nothing decided before
    limits: tuple[tuple[int, int], ...] = ()  # (count, slot), ascending: of members, items or characters
    unevaluated: tuple[Unevaluated, ...] = ()  # those inside others first
    # Objects.
    presence: dict[str, int] = field(default_factory=dict)
    children: tuple[Children, ...] = ()
    names: tuple[tuple[int, Node], ...] = ()
    name_gates: tuple[NameGate, ...] = ()
    closed: NameTable | None = None  # of those that list names and ask nothing else
    open_gates: tuple[NameGate, ...] = ()  # the others
    name_refusals: tuple[tuple[int, int], ...] = ()  # (slot, place): false at a name that matches the pattern there
    name_patterns: tuple[Automaton | None, ...] = ()
    # Arrays.
    hits: tuple[Hits, ...] = ()
    unique: tuple[int, ...] = ()
    distinct: tuple[Distinct, ...] = ()
    # Strings.
    patterns: tuple[tuple[int, Automaton], ...] = ()
    strings: tuple[tuple[int, tuple[str, ...]], ...] = ()
    constants_table: NameTable | None = None  # of the same
    texts: tuple[tuple[int, Callable[[str], bool]], ...] = ()
    # Numbers.
    numbers: tuple[tuple[int, Callable[[Number, bytes], bool]], ...] = ()
    digits: tuple[tuple[int, tuple[tuple[bool, str], ...]], ...] = ()
    spans: tuple[tuple[int, EarlyTest], ...] = ()  # of those in ``numbers`` that a beginning may decide
    integers: tuple[int, ...] = ()  # of those, the ones of integers
    multiples: tuple[tuple[int, Multiple], ...] = ()
    room: int = 1  # in how many of the last bytes that a number may have its digits decide something

    def name_starts(self) -> list[State | None]:
        """The states of ``name_patterns`` before a name."""
        return [None if automaton is None else automaton.start for automaton in self.name_patterns]
