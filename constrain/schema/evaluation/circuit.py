"""Three-valued circuits: what is decided as soon as enough of what it rests on is.

A reference is a slot, or a constant. Every slot is a leaf, decided from outside, or combines others by Kleene's strong
logic, which is what makes an early verdict a proof.
"""

from collections.abc import Iterable

Reference = int | bool
LEAF, ALL, ANY, NOT, ONE = range(5)

ONE_TRUE = 1 << 32
"""What one true input adds to the pending count of a ``ONE``, beside the inputs that are undecided."""


class Circuit:
    """A circuit under construction; constants are folded away as it grows."""

    def __init__(self) -> None:
        self.operations: list[int] = []
        self.inputs: list[tuple[int, ...]] = []
        self._known: dict[tuple[int, tuple[int, ...]], int] = {}

    def leaf(self) -> int:
        """A new leaf."""
        self.operations.append(LEAF)
        self.inputs.append(())
        return len(self.operations) - 1

    def all_of(self, references: Iterable[Reference]) -> Reference:
        """True if all are, false if one is not."""
        return self._combined(ALL, references, neutral=True)

    def any_of(self, references: Iterable[Reference]) -> Reference:
        """True if one is, false if none is."""
        return self._combined(ANY, references, neutral=False)

    def negation(self, reference: Reference) -> Reference:
        """True if it is false."""
        if isinstance(reference, bool):
            return not reference
        if self.operations[reference] == NOT:
            return self.inputs[reference][0]
        return self._gate(NOT, (reference,))

    def one_of(self, references: Iterable[Reference]) -> Reference:
        """True if exactly one is."""
        options = list(references)
        num_true = sum(option is True for option in options)
        unknown = [option for option in options if not isinstance(option, bool)]
        if num_true > 1 or not (num_true or unknown):
            return False
        if num_true:
            return self.negation(self.any_of(unknown))
        return unknown[0] if len(unknown) == 1 else self._gate(ONE, tuple(unknown))

    def below(self, slots: Iterable[int]) -> set[int]:
        """``slots`` and all that they rest on."""
        found, todo = set(slots), list(slots)
        while todo:
            for slot in self.inputs[todo.pop()]:
                if slot not in found:
                    found.add(slot)
                    todo.append(slot)
        return found

    def parents(self) -> list[tuple[int, ...]]:
        """For each slot those that rest on it, as often as they do."""
        above: list[list[int]] = [[] for _ in self.operations]
        for slot, inputs in enumerate(self.inputs):
            for one in inputs:
                above[one].append(slot)
        return [tuple(slots) for slots in above]

    def _combined(self, operation: int, references: Iterable[Reference], neutral: bool) -> Reference:
        kept: dict[int, None] = {}
        for reference in references:
            if not isinstance(reference, bool):
                kept[reference] = None
            elif reference is not neutral:
                return not neutral
        if not kept:
            return neutral
        return next(iter(kept)) if len(kept) == 1 else self._gate(operation, tuple(kept))

    def _gate(self, operation: int, inputs: tuple[int, ...]) -> int:
        key = operation, inputs
        if key not in self._known:
            self._known[key] = self.leaf()
            self.operations[-1], self.inputs[-1] = operation, inputs
        return self._known[key]
