"""Regular expressions over the bytes of UTF-8, and how large their automata are."""

from collections.abc import Iterable
from itertools import pairwise

from constrain.backends._utf8 import ByteRanges, byte_ranges
from constrain.regex import Alternation, Chars, Concat, Node, Repeat


def byte_regex(node: Node) -> Node:
    """``node``, a tree of characters, as a tree of bytes: its ``Chars`` hold 0 to 255."""
    match node:
        case Chars(ranges):
            options: dict[ByteRanges, list[tuple[int, int]]] = {}
            for low, high in ranges:
                for *first, last in byte_ranges(low, high):
                    options.setdefault(tuple(first), []).append(last)
            written = [_bytes([*((span,) for span in first), tuple(last)]) for first, last in options.items()]
            return written[0] if len(written) == 1 else Alternation(tuple(written))
        case Concat(parts):
            return Concat(tuple(map(byte_regex, parts)))
        case Alternation(options_):
            return Alternation(tuple(map(byte_regex, options_)))
        case Repeat(body, minimum, maximum):
            return Repeat(byte_regex(body), minimum, maximum)


def _bytes(spans: list[tuple[tuple[int, int], ...]]) -> Node:
    parts = tuple(Chars(ranges) for ranges in spans)
    return parts[0] if len(parts) == 1 else Concat(parts)


def has_more_states(node: Node, limit: int) -> bool:
    """Whether the deterministic automaton of ``node``, a tree of bytes, has more than ``limit`` states.

    By the subset construction, without joining states that are alike, which is what the libraries do.
    """
    steps = _Steps(10 * limit)
    try:
        end = steps.add(node, steps.new())
    except _TooManyError:
        return True
    start = steps.closed([0])
    found, todo = {start}, [start]
    while todo:
        spans = [(low, high + 1, target) for state in todo.pop() for low, high, target in steps.moves[state]]
        cuts = sorted({cut for low, behind, _ in spans for cut in (low, behind)})
        for first, _ in pairwise(cuts):
            reached = steps.closed(target for low, behind, target in spans if low <= first < behind)
            if reached and reached not in found:
                found.add(reached)
                todo.append(reached)
        if len(found) > limit:
            return True
    assert any(end in states for states in found), "the tree matches nothing"
    return False


class _TooManyError(Exception):
    pass


class _Steps:
    """A non-deterministic automaton; state 0 is the first that was made."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.moves: list[list[tuple[int, int, int]]] = []  # lowest byte, highest byte, target
        self.empty: list[list[int]] = []

    def new(self) -> int:
        if len(self.moves) >= self._limit:
            raise _TooManyError
        self.moves.append([])
        self.empty.append([])
        return len(self.moves) - 1

    def add(self, node: Node, source: int) -> int:
        """Build ``node`` behind ``source``; the state behind it."""
        match node:
            case Chars(ranges):
                end = self.new()
                self.moves[source] += [(low, high, end) for low, high in ranges]
                return end
            case Concat(parts):
                for part in parts:
                    source = self.add(part, source)
                return source
            case Alternation(options):
                end = self.new()
                for option in options:
                    self.empty[self.add(option, source)].append(end)
                return end
            case Repeat(body, minimum, maximum):
                for _ in range(minimum):
                    source = self.add(body, source)
                return self._more(body, source, None if maximum is None else maximum - minimum)

    def _more(self, body: Node, source: int, most: int | None) -> int:
        end = self.new()
        if most is None:
            loop = self.new()
            self.empty[source].append(loop)
            self.empty[self.add(body, loop)].append(loop)
            source = loop
        for _ in range(most or 0):
            self.empty[source].append(end)
            source = self.add(body, source)
        self.empty[source].append(end)
        return end

    def closed(self, states: Iterable[int]) -> frozenset[int]:
        """``states`` that lead on or end, with all that is reached without a byte."""
        found, todo = set[int](), list(states)
        while todo:
            state = todo.pop()
            if state not in found:
                found.add(state)
                todo += self.empty[state]
        return frozenset(state for state in found if self.moves[state] or not self.empty[state])
