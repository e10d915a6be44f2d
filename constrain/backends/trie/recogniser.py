"""Reading a network byte by byte: Earley's algorithm, in states that never change.

A state is a *column*: what a grammar may be in the middle of after some bytes. A column holds on to the earlier columns
in which its rules began, so that states share their past, and going back or taking another branch costs nothing. Equal
columns are one object; where the grammar is regular there are finitely many, and this is the lazy subset construction.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from threading import Lock
from weakref import WeakValueDictionary

from constrain.backends.trie.network import ROOT, Network

CACHED_MOVES = 4096
"""How many columns keep what follows them; others compute it again."""

_Item = tuple[int, "Column"]  # a state of the network, and the column in which its rule was called


class Column:
    """One state of a recogniser. Equal only to itself."""

    __slots__ = ("__weakref__", "may_stop", "scans", "waiting")

    def __init__(self) -> None:
        self.may_stop = False
        self.scans: list[tuple[int, int, int, Column]] = []  # lowest byte, highest byte, and the item behind them
        self.waiting: dict[int, list[_Item]] = {}  # rule called here: the items that go on behind it


class Recogniser:
    """The states of one trimmed network. Every state that is reached can be completed. Shared by threads."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._columns: WeakValueDictionary[frozenset[_Item], Column] = WeakValueDictionary()
        self._lock = Lock()
        self._start = Column()
        self._close(self._start, [(network.starts[ROOT], self._start)])
        self.moves = lru_cache(maxsize=CACHED_MOVES)(self._moves)

    def start(self) -> Column:
        return self._start

    def step(self, column: Column, byte: int) -> Column | None:
        """The state after one more byte, or None where the grammar has no such text."""
        return self.moves(column).get(byte)

    def walk(self, column: Column, text: Iterable[int]) -> Column | None:
        """The state after ``text``."""
        at: Column | None = column
        for byte in text:
            if at is None:
                return None
            at = self.step(at, byte)
        return at

    def _moves(self, column: Column) -> Mapping[int, Column]:
        """Every byte that may come next, with the state behind it."""
        found: dict[int, Column] = {}
        cuts = sorted({cut for low, high, _, _ in column.scans for cut in (low, high + 1)})
        for first, behind in pairwise(cuts):
            kernel = frozenset((state, origin) for low, high, state, origin in column.scans if low <= first <= high)
            if kernel:
                found.update(dict.fromkeys(range(first, behind), self._column(kernel)))
        return found

    def _column(self, kernel: frozenset[_Item]) -> Column:
        with self._lock:
            column = self._columns.get(kernel)
            if column is None:
                column = self._columns[kernel] = Column()
                self._close(column, kernel)
        return column

    def _close(self, column: Column, kernel: Iterable[_Item]) -> None:
        """Fill ``column`` with all that follows from ``kernel`` without another byte."""
        network, seen, todo = self._network, set[_Item](), list(kernel)
        while todo:
            item = todo.pop()
            if item in seen:
                continue
            seen.add(item)
            state, origin = item
            todo += ((target, origin) for target in network.empty[state])
            column.scans += ((low, high, target, origin) for low, high, target in network.edges[state])
            for rule, back in network.calls[state]:
                column.waiting.setdefault(rule, []).append((back, origin))
                todo.append((network.starts[rule], column))
                if rule in network.nullable:
                    todo.append((back, origin))
            finished = network.rule_at_end.get(state)
            if finished is not None:
                column.may_stop |= finished == ROOT and origin is self._start
                # A rule that began in this very column took no byte: `nullable` has seen to those who called it.
                if origin is not column:
                    todo += origin.waiting.get(finished, ())
