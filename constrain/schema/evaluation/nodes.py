"""Subschemas of every draft in one form: what each keyword asks, without the drafts' names for it."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from constrain.schema.evaluation.formats import FormatCheck
from constrain.schema.evaluation.kinds import (
    ARRAY,
    EVERY_KIND,
    FALSE,
    LITERAL_VALUES,
    NEGATIVE,
    NULL,
    OBJECT,
    POSITIVE,
    STRING,
    TRUE,
)
from constrain.schema.evaluation.pattern_automaton import Pattern
from constrain.schema.evaluation.values import Number, canonical, digits_of
from constrain.schema.matching import MatchTimeoutError


@dataclass(slots=True)
class Values:
    """An ``enum`` or a ``const``: strings, numbers and literals as they are, containers as subschemas."""

    strings: tuple[str, ...] = ()
    numbers: frozenset[Number] = frozenset()
    literals: int = 0
    containers: list[tuple[int, "Node"]] = field(default_factory=list)

    @property
    def digits(self) -> tuple[tuple[bool, str], ...]:
        """``digits_of`` each number."""
        return tuple(map(digits_of, self.numbers))

    def kinds_left(self, used: Container[Any]) -> int:
        """The kinds of those that are not ``used``, as bits; containers aside."""
        kinds = 1 << STRING if any(text not in used for text in self.strings) else 0
        for number in self.numbers:
            if number not in used:
                kinds |= (1 << POSITIVE if number >= 0 else 0) | (1 << NEGATIVE if number <= 0 else 0)
        for kind, value in LITERAL_VALUES.items():
            if self.literals >> kind & 1 and value not in used:
                kinds |= 1 << kind
        return kinds


@dataclass(eq=False)
class Node:
    """One subschema. ``number`` is its place in the program; an unset keyword is None or empty."""

    number: int
    pointer: str = ""
    is_false: bool = False
    types: int = EVERY_KIND
    integers: str = ""  # "value": 1.0 is one, too; "form": it is not (draft 4); "": numbers need be none
    values: list[Values] = field(default_factory=list)
    all_of: list["Node"] = field(default_factory=list)
    any_of: list["Node"] | None = None
    one_of: list["Node"] | None = None
    negated: "Node | None" = None
    condition: "Node | None" = None
    then: "Node | None" = None
    otherwise: "Node | None" = None
    # Objects.
    properties: dict[str, "Node"] = field(default_factory=dict)
    pattern_properties: list[tuple[Pattern, "Node"]] = field(default_factory=list)
    additional: "Node | None" = None
    property_names: "Node | None" = None
    required: tuple[str, ...] = ()
    dependent_required: dict[str, tuple[str, ...]] = field(default_factory=dict)
    dependent_schemas: dict[str, "Node"] = field(default_factory=dict)
    unevaluated_properties: "Node | None" = None
    min_properties: int = 0
    max_properties: int | None = None
    # Arrays.
    first_items: list["Node"] = field(default_factory=list)
    other_items: "Node | None" = None
    contains: "Node | None" = None
    min_contains: int = 1
    max_contains: int | None = None
    contains_evaluates: bool = True
    unevaluated_items: "Node | None" = None
    unique: bool = False
    min_items: int = 0
    max_items: int | None = None
    # Strings.
    patterns: list[Pattern] = field(default_factory=list)
    format: FormatCheck | None = None
    min_length: int = 0
    max_length: int | None = None
    # Numbers.
    minimum: Number | None = None
    maximum: Number | None = None
    exclusive_minimum: Number | None = None
    exclusive_maximum: Number | None = None
    multiple_of: Number | None = None

    def refuse_strings(self) -> None:
        """Leave out the listed strings that the keywords beside them refuse: nothing else would before their end."""
        for values in self.values:
            values.strings = tuple(text for text in values.strings if self._takes(text))

    def _takes(self, text: str) -> bool:
        if len(text) < self.min_length or (self.max_length is not None and len(text) > self.max_length):
            return False
        try:
            matches = all(pattern.matches(text) for pattern in self.patterns)
        except MatchTimeoutError:
            return True
        return matches and (self.format is None or self.format.test(text))

    def in_place(self) -> Iterator["Node"]:
        """The subschemas that apply to the same value."""
        yield from self.all_of
        yield from self.any_of or ()
        yield from self.one_of or ()
        for node in (self.negated, self.condition, self.then, self.otherwise):
            if node is not None:
                yield node
        yield from self.dependent_schemas.values()

    @cached_property
    def kinds(self) -> int:
        """The kinds of values that may be valid, as bits: all others are not, whatever comes."""
        if self.is_false:
            return 0
        kinds = self.types
        for values in self.values:
            kinds &= _kinds_of_values(values)
        for node in self.all_of:
            kinds &= node.kinds
        for options in (self.any_of, self.one_of):
            if options is not None:
                united = 0
                for node in options:
                    united |= node.kinds
                kinds &= united
        if self.negated is not None and self.negated.is_true:
            kinds = 0
        return kinds

    @cached_property
    def constants(self) -> Values | None:
        """The only values that may be valid, if they are few and none is a container."""
        for values in (*self.values, *(node.constants for node in self.all_of)):
            if values is not None and not values.containers:
                return values
        return Values(literals=self.kinds) if not self.kinds & ~_LITERALS else None

    @property
    def is_never(self) -> bool:
        """Nothing is valid, as far as types and constants show."""
        return self.kinds == 0

    @cached_property
    def is_true(self) -> bool:
        """No keyword asks or evaluates anything."""
        blank = Node(self.number, self.pointer)
        return all(getattr(self, name) == getattr(blank, name) for name in self.__dataclass_fields__)


_LITERALS = sum(1 << kind for kind in LITERAL_VALUES)


def _kinds_of_values(values: Values) -> int:
    kinds = values.literals | (1 << STRING if values.strings else 0)
    for number in values.numbers:
        kinds |= (1 << POSITIVE if number >= 0 else 0) | (1 << NEGATIVE if number <= 0 else 0)
    for kind, _ in values.containers:
        kinds |= 1 << kind
    return kinds


class NodeTable:
    """The nodes of one program, numbered as they are made."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def new(self, pointer: str = "", **fields: Any) -> Node:
        """A node with a number of its own."""
        node = Node(len(self.nodes), pointer, **fields)
        self.nodes.append(node)
        return node

    def values(self, options: list[Any], pointer: str) -> Values:
        """What an ``enum`` of ``options`` asks."""
        found = Values()
        literals = {True: TRUE, False: FALSE, None: NULL}
        strings: set[str] = set()
        numbers: set[Number] = set()
        for option in options:
            if isinstance(option, bool) or option is None:
                found.literals |= 1 << literals[option]
            elif isinstance(option, str):
                strings.add(option)
            elif isinstance(option, list):
                found.containers.append((ARRAY, self._array(option, pointer)))
            elif isinstance(option, dict):
                found.containers.append((OBJECT, self._object(option, pointer)))
            else:
                numbers.add(canonical(option))
        found.strings, found.numbers = tuple(sorted(strings)), frozenset(numbers)
        return found

    def _constant(self, value: Any, pointer: str) -> Node:
        return self.new(pointer, values=[self.values([value], pointer)])

    def _array(self, items: list[Any], pointer: str) -> Node:
        return self.new(
            pointer,
            types=1 << ARRAY,
            first_items=[self._constant(item, pointer) for item in items],
            other_items=self.new(pointer, is_false=True),
            min_items=len(items),
            max_items=len(items),
        )

    def _object(self, members: dict[str, Any], pointer: str) -> Node:
        return self.new(
            pointer,
            types=1 << OBJECT,
            properties={name: self._constant(value, pointer) for name, value in members.items()},
            additional=self.new(pointer, is_false=True),
            required=tuple(members),
        )
