"""Which row of the cache belongs to which slot, and what that row holds."""

from collections.abc import Sequence

from constrain.hf.slot_cache import SlotCache


class SlotRows:
    """Rows 0 .. B-1 without holes, one for each slot that has joined. Moves rows of the cache to keep it so."""

    def __init__(self, cache: SlotCache) -> None:
        self._cache = cache
        self._row_of: dict[int, int] = {}  # slot -> row
        self._slots: list[int] = []  # row -> slot
        self._seen: list[list[int]] = []  # row -> token ids whose keys and values are in the cache

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, slot: int) -> bool:
        return slot in self._row_of

    def row(self, slot: int) -> int:
        """The row of a slot that has joined."""
        return self._row_of[slot]

    def seen(self, slot: int) -> list[int]:
        """The token ids whose keys and values the slot's row holds; the caller keeps the list true."""
        return self._seen[self._row_of[slot]]

    def join(self, slot: int) -> None:
        """Give ``slot`` a row, unless it has one."""
        if slot not in self._row_of:
            self._row_of[slot] = len(self._slots)
            self._slots.append(slot)
            self._seen.append([])

    def leave(self, slot: int) -> None:
        """Take the row back; the last row moves into the hole."""
        row = self._row_of.pop(slot, None)
        if row is None:
            return
        last = len(self._slots) - 1
        if row != last:
            self._cache.move(last, row, len(self._seen[last]))
            self._slots[row], self._seen[row] = self._slots[last], self._seen[last]
            self._row_of[self._slots[row]] = row
        self._slots.pop()
        self._seen.pop()

    def make_contiguous(self, slots: Sequence[int]) -> slice:
        """Bring the rows of ``slots`` side by side with the fewest swaps; where they are then.

        Reading rows that lie apart would copy their keys and values at every layer of every step; a swap is paid once.
        """
        rows = sorted(self._row_of[slot] for slot in slots)
        first = _best_start(rows, len(self._slots))
        window = range(first, first + len(rows))
        inside = {row for row in rows if row in window}
        holes = (row for row in window if row not in inside)
        for row in rows:
            if row not in inside:
                self._swap(row, next(holes))
        return slice(window.start, window.stop)

    def _swap(self, row: int, other: int) -> None:
        self._cache.swap(row, other, max(len(self._seen[row]), len(self._seen[other])))
        self._slots[row], self._slots[other] = self._slots[other], self._slots[row]
        self._seen[row], self._seen[other] = self._seen[other], self._seen[row]
        self._row_of[self._slots[row]], self._row_of[self._slots[other]] = row, other


def _best_start(rows: list[int], num_rows: int) -> int:
    """Where the window of ``len(rows)`` rows begins that already holds most of the sorted ``rows``."""
    size = len(rows)
    if rows[-1] - rows[0] + 1 == size:
        return rows[0]
    starts = {min(row, num_rows - size) for row in rows}
    return max(sorted(starts), key=lambda start: sum(start <= row < start + size for row in rows))
