"""The cache's memory: what it holds when memory runs out on the way."""

import pytest
import torch

from constrain.hf import slot_cache
from constrain.hf.slot_cache import SlotCache, WritePlan


def test_running_out_of_memory_leaves_a_cache_that_can_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = SlotCache(num_layers=3)
    cache.reserve(1, 4)
    cache.plan = WritePlan(rows=slice(0, 1), columns=slice(0, 4), width=4, past=0)
    written = torch.arange(8.0).view(1, 1, 4, 2)
    for layer in cache.layers:
        layer.update(written, written + 1)
    enlarge, calls = slot_cache._enlarged, []

    def fails_at_the_fourth(buffer: torch.Tensor, num_rows: int, length: int) -> torch.Tensor:
        calls.append(num_rows)
        if len(calls) == 4:
            raise MemoryError
        return enlarge(buffer, num_rows, length)

    monkeypatch.setattr(slot_cache, "_enlarged", fails_at_the_fourth)
    with pytest.raises(MemoryError):
        cache.reserve(5, 200)
    cache.reserve(2, 100)  # less than some layers already have
    cache.reserve(5, 200)
    for layer in cache.layers:
        assert layer.keys.shape[0] >= 5 and layer.keys.shape[2] >= 200
        assert torch.equal(layer.keys[:1, :, :4], written) and torch.equal(layer.values[:1, :, :4], written + 1)
