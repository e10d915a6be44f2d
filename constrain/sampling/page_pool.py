"""Room for the pages of slots that come, grow and go."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from constrain.sampling.ops.pages import PAGE, Pages

Region = tuple[int, int]
"""Start and length, in pages."""


class PagePool:
    """Owns :class:`~constrain.sampling.ops.pages.Pages`, and knows on the host how much each slot may still touch.

    A slot has one region of the pool. It is sized when the slot is entered, and doubled by a copy on the device when
    the tokens added since, were each on a page of its own, would not fit; so nothing is ever read back from the
    device. A region never has more than twice as many pages as its slot was given tokens (and those reserved), nor more
    than the vocabulary has. The pool doubles when it is full: its tensors are then others than before, which a captured
    graph does not know; ``num_pages`` asks for room beforehand.
    """

    def __init__(
        self, num_slots: int, vocab_size: int, dtype: torch.dtype, device: torch.device, *, num_pages: int = 0
    ) -> None:
        self._width = -(-vocab_size // PAGE)
        self._start, self._length = np.zeros((2, num_slots), np.int64)  # the region of each slot, in pages
        self._touched = np.zeros(num_slots, np.int64)  # at least as many as the slot has used
        self._free: list[Region] = [(0, num_pages)]  # in order, no two of them adjacent
        self.pages = Pages(
            table=torch.zeros(num_slots, self._width, dtype=torch.int16, device=device),
            base=torch.zeros(num_slots, dtype=torch.int32, device=device),
            used=torch.zeros(num_slots, dtype=torch.int32, device=device),
            numbers=torch.zeros(num_pages, dtype=torch.int32, device=device),
            cells=torch.zeros(num_pages, PAGE, dtype=dtype, device=device),
        )

    def enter(self, slot: int, tokens: npt.NDArray[np.int64], cells: npt.NDArray[np.generic], *, reserve: int) -> None:
        """Give an empty slot its numbers, one for each of distinct tokens, and room for ``reserve`` more tokens."""
        numbers, place = np.unique(tokens // PAGE, return_inverse=True)
        used = len(numbers)
        start, length = self._take(slot, used + reserve)
        block = np.zeros((length, PAGE), cells.dtype)
        block[place, tokens % PAGE] = cells
        row = np.zeros(self._width, np.int16)
        row[numbers] = np.arange(1, used + 1)
        self._upload(self.pages.cells[start : start + length], block)
        self._upload(self.pages.numbers[start : start + used], numbers.astype(np.int32))
        self._upload(self.pages.table[slot], row)
        self.pages.base[slot] = start
        self.pages.used[slot] = used
        self._touched[slot] = used

    def make_room(self, slots: npt.NDArray[np.int64], num_tokens: npt.NDArray[np.int64]) -> None:
        """See to it that each of distinct slots can touch this many tokens more."""
        self._touched[slots] = np.minimum(self._touched[slots] + num_tokens, self._width)
        for slot in slots[self._touched[slots] > self._length[slots]].tolist():
            self._move(slot, 2 * int(self._touched[slot]))

    def clear(self, slot: int) -> None:
        """Forget the numbers of a slot."""
        self.pages.table[slot] = 0
        self.pages.used[slot] = 0
        self._give(int(self._start[slot]), int(self._length[slot]))

    def _move(self, slot: int, wanted: int) -> None:
        start, length = int(self._start[slot]), int(self._length[slot])
        new_start, new_length = self._take(slot, wanted)
        old, new = slice(start, start + length), slice(new_start, new_start + length)
        self.pages.cells[new] = self.pages.cells[old]
        self.pages.numbers[new] = self.pages.numbers[old]
        self.pages.cells[new_start + length : new_start + new_length] = 0
        self.pages.base[slot] = new_start
        self._give(start, length)

    def _take(self, slot: int, wanted: int) -> Region:
        length = min(max(wanted, 1), self._width)
        index = next((i for i, (_, free) in enumerate(self._free) if free >= length), None)
        if index is None:
            self._grow(length)
            index = len(self._free) - 1
        start, free = self._free[index]
        self._free[index : index + 1] = [(start + length, free - length)] if free > length else []
        self._start[slot], self._length[slot] = start, length
        return start, length

    def _give(self, start: int, length: int) -> None:
        merged: list[Region] = []
        for region in sorted([*self._free, (start, length)]):
            if merged and sum(merged[-1]) == region[0]:
                merged[-1] = merged[-1][0], merged[-1][1] + region[1]
            else:
                merged.append(region)
        self._free = merged

    def _grow(self, length: int) -> None:
        numbers, cells = self.pages.numbers, self.pages.cells
        more = max(length, len(numbers))
        self.pages = replace(
            self.pages,
            numbers=torch.cat([numbers, numbers.new_zeros(more)]),
            cells=torch.cat([cells, cells.new_zeros(more, PAGE)]),
        )
        self._give(len(numbers), more)

    @staticmethod
    def _upload(target: torch.Tensor, values: npt.NDArray[np.generic]) -> None:
        host = torch.from_numpy(values)
        target.copy_(host.pin_memory() if target.device.type == "cuda" else host, non_blocking=True)
