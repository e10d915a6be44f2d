"""Logit bias and penalties: the torch path against plain Python, the kernels against the torch path."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.adjust import Adjustments, _adjust_torch, _adjust_triton, adjust_, adjusted
from constrain.sampling.penalties import PenaltyState
from constrain.sampling.rows import DeviceRows, Rows
from tests.sampling.penalty_oracle import Wish, expected

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU, kernels are interpreted
WIDTHS = [1, 33, 111, 32001, *([128256, 151936] if torch.cuda.is_available() else [])]


def wishes(width: int, rng: random.Random) -> list[Wish]:
    """Six slots: everything, nothing, bias alone, each penalty alone (one of them without any history)."""

    def ids(count: int) -> list[int]:
        some = [rng.randrange(width) for _ in range(count)]
        return some + some[: count // 2]  # repeats

    bias = {token: rng.uniform(-5, 5) for token in ids(9)}
    return [
        Wish(1.3, 0.4, 0.7, bias, ids(40), ids(30)),
        Wish(prompt=ids(5), output=ids(5)),
        Wish(bias=bias),
        Wish(repetition=1.7, prompt=ids(8), output=ids(8)),
        Wish(presence=-0.5, prompt=ids(8), output=ids(8)),
        Wish(frequency=0.25),
    ]


def some_rows(width: int, rng: random.Random) -> Rows:
    """One to five rows a slot, in a jumbled order of slots; drafts that come again, and some that lie side by side."""
    slots, offsets, drafts = [], [], []
    for slot in rng.sample(range(6), 6):
        length = rng.randrange(5)
        some = [rng.randrange(width) for _ in range(2)]
        slots += [slot] * (length + 1)
        offsets += range(length + 1)
        drafts += [*rng.choices([*some, some[0] ^ 1 if (some[0] ^ 1) < width else 0], k=length), -1]
    return Rows(slots, offsets, [0] * len(slots), drafts)


def case(width: int, seed: int) -> tuple[list[Wish], Rows, torch.Tensor, Adjustments, DeviceRows]:
    rng = random.Random(seed)
    asked = wishes(width, rng)
    rows = some_rows(width, rng)
    state = PenaltyState(6, width, DEVICE)
    for slot, wish in enumerate(asked):
        wish.enter(state, slot)
    wide = torch.randn(len(rows), width + 5, generator=torch.Generator().manual_seed(seed)) * 4
    logits = wide.to(DEVICE)[:, :width]  # a row stride wider than the row
    logits[-1] = float("-inf")
    logits[0, ::7] = float("-inf")
    assert state.adjustments is not None
    return asked, rows, logits, state.adjustments, rows.to(DEVICE)


def drafts_before(rows: Rows, row: int) -> list[int]:
    return list(rows.drafts[row - rows.offsets[row] : row])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(2))
def test_each_row_is_what_its_slot_asks_for(width: int, seed: int) -> None:
    asked, rows, logits, adjustments, device_rows = case(width, seed)
    before = logits.clone()
    result = adjusted(logits, adjustments, device_rows)
    assert torch.equal(logits, before)
    for row, slot in enumerate(rows.slots):
        want = expected(before[row], asked[slot], drafts_before(rows, row))
        torch.testing.assert_close(result[row].double().cpu(), want, rtol=1e-6, atol=1e-6)
        untouched = {*range(width)} - {*asked[slot].bias, *asked[slot].prompt, *asked[slot].output, *rows.drafts}
        same = torch.tensor(sorted(untouched), dtype=torch.int64, device=DEVICE)
        assert torch.equal(result[row][same], before[row][same])
    assert adjust_(logits, adjustments, device_rows) is logits
    assert torch.equal(logits, result)


def test_bias_alone_and_then_penalties_alone_are_both() -> None:
    asked, rows, logits, adjustments, device_rows = case(111, 1)
    want = adjusted(logits, adjustments, device_rows)
    before = logits.clone()
    adjust_(logits, adjustments, device_rows, penalties=False)
    for row, slot in enumerate(rows.slots):
        torch.testing.assert_close(
            logits[row].double().cpu(), expected(before[row], asked[slot], penalties=False), rtol=1e-6, atol=1e-6
        )
    adjust_(logits, adjustments, device_rows, bias=False)
    assert torch.equal(logits, want)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("seed", range(2, 4))
def test_the_kernel_is_its_torch_twin(width: int, seed: int) -> None:
    pytest.importorskip("triton")
    _, _, logits, adjustments, rows = case(width, seed)
    on_twin, on_kernel = logits.clone(), logits.clone()
    for pages in (adjustments.bias, adjustments.counts):
        assert pages is not None
        _adjust_torch(on_twin, adjustments, pages, rows)
        _adjust_triton(on_kernel, adjustments, pages, rows)
    torch.testing.assert_close(on_kernel, on_twin, rtol=3e-7, atol=1e-6)
    assert torch.equal(on_kernel == logits, on_twin == logits)  # the same tokens were touched


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("half", ["both", "bias", "counts"])
def test_a_tile_inside_a_kernel_is_the_torch_twin(width: int, half: str) -> None:
    pytest.importorskip("triton")
    _, _, logits, adjustments, rows = case(width, 5)
    if half == "bias":
        adjustments = replace(adjustments, counts=None)
    if half == "counts":
        adjustments = replace(adjustments, bias=None)
    from tests.sampling.ops.tile_kernel import BLOCK, tiles_kernel

    kernel: Any = tiles_kernel
    result = torch.empty_like(logits)
    kernel[(len(logits), -(-width // BLOCK))](
        logits, logits.stride(0), result, result.stride(0), width, rows.slots, rows.offsets, rows.drafts,
        *adjustments.tile_arguments,
        HAS_BIAS=adjustments.bias is not None, HAS_PENALTIES=adjustments.counts is not None,
    )  # fmt: skip
    want = adjusted(logits, adjustments, rows)
    if DEVICE.type == "cuda":
        assert torch.equal(result, want)  # the fused and the unfused path round alike
    torch.testing.assert_close(result, want, rtol=3e-7, atol=1e-6)
    assert torch.equal(result == logits, want == logits)


def test_what_does_not_fit_is_refused() -> None:
    _, _, logits, adjustments, rows = case(33, 0)
    for wrong in (logits.double(), logits[:-1], logits[0], logits[:, :-1], logits.to("meta")):
        with pytest.raises(InvalidInputError):
            adjust_(wrong, adjustments, rows)
