"""Rows stay dense, and a step's rows lie side by side."""

import random

import pytest
import torch

from constrain.hf.slot_cache import SlotCache, WritePlan
from constrain.hf.slot_rows import SlotRows


def make_rows(lengths: list[int]) -> tuple[SlotCache, SlotRows]:
    """Slot 10 + i in row i, ``lengths[i]`` tokens; every key of a slot's column j is slot + j / 100."""
    cache = SlotCache(2)
    rows = SlotRows(cache)
    cache.reserve(len(lengths), max(lengths))
    for row, length in enumerate(lengths):
        slot = 10 + row
        rows.join(slot)
        rows.seen(slot).extend(range(length))
        cache.plan = WritePlan(slice(row, row + 1), slice(0, length), length, 0)
        keys = (slot + torch.arange(length) / 100).expand(1, 1, length)[..., None]
        for layer in range(2):
            cache.update(keys, -keys, layer)
    return cache, rows


def assert_in_place(cache: SlotCache, rows: SlotRows, slots: list[int]) -> None:
    assert sorted(rows.row(slot) for slot in slots) == list(range(len(slots)))
    for slot in slots:
        length = len(rows.seen(slot))
        for layer in cache.layers:
            wanted = slot + torch.arange(length) / 100
            assert torch.equal(layer.keys[rows.row(slot), 0, :length, 0], wanted)
            assert torch.equal(layer.values[rows.row(slot), 0, :length, 0], -wanted)


@pytest.mark.parametrize("seed", range(20))
def test_rows_are_dense_and_contiguous_after_any_moves(seed: int) -> None:
    rng = random.Random(seed)
    cache, rows = make_rows([rng.randint(1, 9) for _ in range(7)])
    slots = list(range(10, 17))
    for _ in range(6):
        if rng.random() < 0.4 and len(slots) > 1:
            rows.leave(slots.pop(rng.randrange(len(slots))))
        chosen = rng.sample(slots, rng.randint(1, len(slots)))
        where = rows.make_contiguous(chosen)
        assert sorted(rows.row(slot) for slot in chosen) == list(range(where.start, where.stop))
        assert_in_place(cache, rows, slots)


def test_the_fewest_rows_are_swapped() -> None:
    cache, rows = make_rows([3] * 8)
    rows.make_contiguous([10, 13, 14, 16])
    assert rows.row(13) == 3 and rows.row(14) == 4  # two of four stay, whichever window is taken
    assert_in_place(cache, rows, list(range(10, 18)))


def test_joining_twice_and_leaving_unknown_are_harmless() -> None:
    _, rows = make_rows([2, 2])
    rows.join(10)
    rows.leave(99)
    assert len(rows) == 2 and 10 in rows and 99 not in rows


def test_the_buffers_double_within_their_limits() -> None:
    cache = SlotCache(1, max_rows=5, max_length=700)
    sizes = []
    for num_rows, length in [(1, 10), (2, 257), (3, 513), (5, 700)]:
        cache.reserve(num_rows, length)
        sizes.append((cache.num_rows, cache.length))
    assert sizes == [(1, 256), (2, 512), (4, 700), (5, 700)]
