"""Grammars as networks: automata over bytes, one for each rule, that may call each other.

A fragment is a function that builds one more copy of a construct behind a given state and returns the state behind it;
so repeating is calling again. Without calls a network is a plain non-deterministic automaton.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from constrain.backends._utf8 import ByteRanges, byte_ranges
from constrain.errors import LimitExceededError
from constrain.regex import Alternation, Chars, Concat, Node, Repeat

Fragment = Callable[[int], int]
Ranges = tuple[tuple[int, int], ...]

MAX_STATES = 100_000
"""Counted repeats are written out; a network of more states than this is refused."""

ROOT = 0

TOKEN = 256
"""Special token ``t`` is the symbol ``TOKEN + t``: no byte, and no text writes it."""


class Network:
    """States with byte ranges, empty moves and calls to other states; one start and one end for each rule.

    ``ROOT`` is the first rule. Once ``trim`` has run, every state that is left can reach the end of its rule, and the
    network does not change any more.
    """

    def __init__(self) -> None:
        self.edges: list[list[tuple[int, int, int]]] = []  # lowest byte, highest byte, target
        self.empty: list[list[int]] = []  # targets
        self.calls: list[list[tuple[int, int]]] = []  # rule, the state to return to
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.rule_at_end: dict[int, int] = {}
        self.nullable: frozenset[int] = frozenset()

    def add_state(self) -> int:
        if len(self.edges) >= MAX_STATES:
            raise _too_many_states()
        self.edges.append([])
        self.empty.append([])
        self.calls.append([])
        return len(self.edges) - 1

    def add_rule(self) -> int:
        """A new rule, which derives nothing until ``define`` gives it a body."""
        self.starts.append(self.add_state())
        self.ends.append(self.add_state())
        rule = len(self.starts) - 1
        self.rule_at_end[self.ends[rule]] = rule
        return rule

    def define(self, rule: int, body: Fragment) -> None:
        self.empty[body(self.starts[rule])].append(self.ends[rule])

    def trim(self) -> bool:
        """Take out what cannot reach the end of its rule; return whether the root derives anything."""
        reaching_empty = self._reaching(with_bytes=False)
        self.nullable = frozenset(rule for rule, start in enumerate(self.starts) if start in reaching_empty)
        alive = self._reaching(with_bytes=True)
        for state in range(len(self.edges)):
            self.edges[state] = [edge for edge in self.edges[state] if edge[2] in alive]
            self.empty[state] = [target for target in self.empty[state] if target in alive]
            self.calls[state] = [(r, back) for r, back in self.calls[state] if {self.starts[r], back} <= alive]
        return self.starts[ROOT] in alive

    def _reaching(self, *, with_bytes: bool) -> set[int]:
        """The states that can reach the end of their rule; without bytes, those that can do so on the empty text."""
        before: list[list[int]] = [[] for _ in self.edges]
        callers: dict[int, list[tuple[int, int, int]]] = {}
        for state in range(len(self.edges)):
            for target in self.empty[state]:
                before[target].append(state)
            for _, _, target in self.edges[state] if with_bytes else ():
                before[target].append(state)
            for rule, back in self.calls[state]:
                for needed in (self.starts[rule], back):
                    callers.setdefault(needed, []).append((state, self.starts[rule], back))
        reached: set[int] = set()
        todo = list(self.ends)
        while todo:
            state = todo.pop()
            if state not in reached:
                reached.add(state)
                todo += before[state]
                todo += (
                    caller for caller, start, back in callers.get(state, ()) if start in reached and back in reached
                )
        return reached

    # The fragments.

    def characters(self, ranges: Ranges) -> Fragment:
        """One character out of ``ranges``, in UTF-8."""
        encoded = _encoded(ranges)

        def build(source: int) -> int:
            end = self.add_state()
            # Equal tails are shared: \w has hundreds of ranges and a few dozen tails.
            before: dict[ByteRanges, int] = {(): end}
            for sequence in encoded:
                for n in range(len(sequence) - 1, 0, -1):
                    if sequence[n:] not in before:
                        before[sequence[n:]] = state = self.add_state()
                        self.edges[state].append((*sequence[n], before[sequence[n + 1 :]]))
                self.edges[source].append((*sequence[0], before[sequence[1:]]))
            return end

        return build

    def literal(self, text: bytes) -> Fragment:
        def build(source: int) -> int:
            for byte in text:
                target = self.add_state()
                self.edges[source].append((byte, byte, target))
                source = target
            return source

        return build

    def token(self, token_id: int) -> Fragment:
        """One special token."""

        def build(source: int) -> int:
            target = self.add_state()
            self.edges[source].append((TOKEN + token_id, TOKEN + token_id, target))
            return target

        return build

    def call(self, rule: int) -> Fragment:
        def build(source: int) -> int:
            back = self.add_state()
            self.calls[source].append((rule, back))
            return back

        return build

    def sequence(self, parts: Sequence[Fragment]) -> Fragment:
        def build(source: int) -> int:
            for part in parts:
                source = part(source)
            return source

        return build

    def either(self, options: Sequence[Fragment]) -> Fragment:
        def build(source: int) -> int:
            end = self.add_state()
            for option in options:
                self.empty[option(source)].append(end)
            return end

        return build

    def repeated(self, body: Fragment, minimum: int, maximum: int | None) -> Fragment:
        if max(minimum, maximum or 0) > MAX_STATES:
            raise _too_many_states()

        def build(source: int) -> int:
            for _ in range(minimum):
                behind = body(source)
                if behind == source:  # the empty text, which need not be repeated
                    break
                source = behind
            if maximum is None:
                # The loop has a state of its own, so that going round does not come back to what stood before it.
                hub = self.add_state()
                self.empty[source].append(hub)
                self.empty[body(hub)].append(hub)
                return hub
            end = self.add_state()
            for _ in range(maximum - minimum):
                self.empty[source].append(end)
                source = body(source)
            self.empty[source].append(end)
            return end

        return build

    def pattern(self, node: Node) -> Fragment:
        """What a regular expression matches."""
        match node:
            case Chars():
                return self.characters(node.ranges)
            case Concat():
                return self.sequence([self.pattern(part) for part in node.parts])
            case Alternation():
                return self.either([self.pattern(option) for option in node.options])
            case Repeat():
                return self.repeated(self.pattern(node.body), node.minimum, node.maximum)

    def words(self, texts: Iterable[bytes]) -> Fragment:
        """Exactly one of ``texts``, as a trie."""

        def build(source: int) -> int:
            end = self.add_state()
            targets: dict[tuple[int, int], int] = {}
            for text in texts:
                state = source
                for byte in text:
                    if (state, byte) not in targets:
                        targets[state, byte] = target = self.add_state()
                        self.edges[state].append((byte, byte, target))
                    state = targets[state, byte]
                self.empty[state].append(end)
            return end

        return build


@lru_cache(maxsize=256)
def _encoded(ranges: Ranges) -> tuple[ByteRanges, ...]:
    return tuple(sequence for low, high in ranges for sequence in byte_ranges(low, high))


def _too_many_states() -> LimitExceededError:
    return LimitExceededError(
        f"the constraint needs more than {MAX_STATES} states in the trie backend; repeat less, or use "
        "backend='llguidance'"
    )
