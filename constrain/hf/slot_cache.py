"""A key-value cache in which column j of a row always holds position j.

Rejecting tokens then costs nothing: later writes overwrite them, and the attention mask hides them until then.
"""

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(slots=True)
class WritePlan:
    """Where the next forward pass writes, and what it reads; the same for every layer."""

    rows: torch.Tensor  # [B, 1] int64
    columns: torch.Tensor  # [B, Q] int64
    read_rows: slice | torch.Tensor
    width: int  # columns read, from 0


class SlotCache(Cache):  # type: ignore[misc]  # transformers is not typed
    """Buffers [rows, H, length, D] for every layer; the caller plans each write. Grows on ``reserve`` only."""

    def __init__(self, num_layers: int) -> None:
        self.num_rows = 0
        self.length = 0
        self.plan: WritePlan | None = None
        super().__init__(layers=[_SlotLayer(self) for _ in range(num_layers)])

    def reserve(self, num_rows: int, length: int) -> None:
        """Make room, at least doubling what grows."""
        if num_rows <= self.num_rows and length <= self.length:
            return
        if num_rows > self.num_rows:
            self.num_rows = max(num_rows, 2 * self.num_rows)
        if length > self.length:
            self.length = max(length, 2 * self.length, 64)
        for layer in self.layers:
            layer.resize(self.num_rows, self.length)

    def move(self, source_row: int, target_row: int, length: int) -> None:
        """Copy the first ``length`` columns of one row over another."""
        for layer in self.layers:
            if layer.keys is not None:
                layer.keys[target_row, :, :length] = layer.keys[source_row, :, :length]
                layer.values[target_row, :, :length] = layer.values[source_row, :, :length]


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
        self.keys[plan.rows, :, plan.columns] = key_states.transpose(1, 2)
        self.values[plan.rows, :, plan.columns] = value_states.transpose(1, 2)
        return self.keys[plan.read_rows, :, : plan.width], self.values[plan.read_rows, :, : plan.width]

    def resize(self, num_rows: int, length: int) -> None:
        if self.keys is None or self.values is None:
            return
        self.keys = _enlarged(self.keys, num_rows, length)
        self.values = _enlarged(self.values, num_rows, length)

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        return (self._owner.plan.width if self._owner.plan is not None else 0), 0

    def get_seq_length(self, *args: Any) -> int:
        return 0  # positions are given explicitly

    def get_max_length(self) -> int:
        return -1

    def get_max_cache_shape(self) -> int:  # its name before transformers 5.24
        return -1


def _enlarged(buffer: torch.Tensor, num_rows: int, length: int) -> torch.Tensor:
    enlarged = buffer.new_zeros(num_rows, buffer.shape[1], length, buffer.shape[3])
    enlarged[: buffer.shape[0], :, : buffer.shape[2]] = buffer
    return enlarged
