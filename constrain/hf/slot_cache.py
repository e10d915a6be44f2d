"""A key-value cache in which column j of a row always holds position j.

Rejecting tokens then costs nothing: later writes overwrite them, and the attention mask hides them until then.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin

_FIRST_LENGTH = 256


@dataclass(slots=True)
class WritePlan:
    """Where the next forward pass writes, and what it reads; the same for every layer."""

    rows: slice  # B rows side by side, so that reading them is a view and no copy
    columns: (
        slice | tuple[torch.Tensor, torch.Tensor]
    )  # the same of each row, or (row, column) indices that give [B, Q]
    width: int  # columns read, from 0
    past: int  # columns before the new ones, where all rows agree, else 0


class SlotCache(Cache):  # type: ignore[misc]  # transformers is not typed
    """Buffers [rows, H, length, D] for every layer; the caller plans each write. Grows on ``reserve`` only.

    ``max_rows`` and ``max_length`` bound what growing takes in advance; the caller keeps its requests below them.
    """

    def __init__(self, num_layers: int, max_rows: int | None = None, max_length: int | None = None) -> None:
        self.num_rows = 0
        self.length = 0
        self.max_rows = max_rows
        self.max_length = max_length
        self.plan: WritePlan | None = None
        super().__init__(layers=[_SlotLayer(self) for _ in range(num_layers)])

    @property
    def bytes_per_token(self) -> int:
        """Of one column of one row, over all layers; 0 before the first write."""
        buffers = [each for layer in self.layers if layer.keys is not None for each in (layer.keys, layer.values)]
        return sum(each.shape[1] * each.shape[3] * each.element_size() for each in buffers)

    def reserve(self, num_rows: int, length: int) -> None:
        """Make room, at least doubling what grows."""
        if num_rows <= self.num_rows and length <= self.length:
            return
        new_rows, new_length = self.num_rows, self.length
        if num_rows > self.num_rows:
            new_rows = max(num_rows, _at_most(2 * self.num_rows, self.max_rows))
        if length > self.length:
            new_length = max(length, _at_most(max(2 * self.length, _FIRST_LENGTH), self.max_length))
        for layer in self.layers:
            layer.resize(new_rows, new_length)
        self.num_rows, self.length = new_rows, new_length  # last: memory may have run out on the way

    def move(self, source_row: int, target_row: int, length: int) -> None:
        """Copy the first ``length`` columns of one row over another."""
        for layer in self.layers:
            for buffer in layer.buffers():
                buffer[target_row, :, :length] = buffer[source_row, :, :length]

    def swap(self, row: int, other: int, length: int) -> None:
        """Exchange the first ``length`` columns of two rows."""
        for layer in self.layers:
            for buffer in layer.buffers():
                kept = buffer[row, :, :length].clone()
                buffer[row, :, :length] = buffer[other, :, :length]
                buffer[other, :, :length] = kept


class _SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    is_sliding = False  # sliding windows are kept whole, and hidden by the mask

    def __init__(self, owner: SlotCache) -> None:
        super().__init__()
        self._owner = owner

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        shape = (self._owner.num_rows, self._owner.length)
        self.keys = key_states.new_zeros(shape[0], key_states.shape[1], shape[1], key_states.shape[3])
        self.values = value_states.new_zeros(shape[0], value_states.shape[1], shape[1], value_states.shape[3])
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.keys is None:
            self.lazy_initialization(key_states, value_states)
        plan = self._owner.plan
        assert plan is not None and self.keys is not None and self.values is not None
        if isinstance(plan.columns, slice):
            self.keys[plan.rows, :, plan.columns] = key_states
            self.values[plan.rows, :, plan.columns] = value_states
        else:
            rows, columns = plan.columns
            self.keys[rows, :, columns] = key_states.transpose(1, 2)
            self.values[rows, :, columns] = value_states.transpose(1, 2)
        return self.keys[plan.rows, :, : plan.width], self.values[plan.rows, :, : plan.width]

    def buffers(self) -> tuple[torch.Tensor, ...]:
        return () if self.keys is None or self.values is None else (self.keys, self.values)

    def resize(self, num_rows: int, length: int) -> None:
        if self.keys is None or self.values is None:
            return
        self.keys = _enlarged(self.keys, num_rows, length)
        self.values = _enlarged(self.values, num_rows, length)

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        return (self._owner.plan.width if self._owner.plan is not None else 0), 0

    def get_seq_length(self, *args: Any) -> int:
        # Positions are given explicitly; only a model that makes its own mask asks, and then the rows agree.
        return self._owner.plan.past if self._owner.plan is not None else 0

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:  # its name before transformers 5.24
        return -1


def _at_most(wanted: int, limit: int | None) -> int:
    return wanted if limit is None else min(wanted, limit)


def _enlarged(buffer: torch.Tensor, num_rows: int, length: int) -> torch.Tensor:
    num_rows, length = max(num_rows, buffer.shape[0]), max(length, buffer.shape[2])
    if (num_rows, length) == (buffer.shape[0], buffer.shape[2]):
        return buffer  # enlarged before memory ran out for another
    enlarged = buffer.new_zeros(num_rows, buffer.shape[1], length, buffer.shape[3])
    enlarged[: buffer.shape[0], :, : buffer.shape[2]] = buffer
    return enlarged
