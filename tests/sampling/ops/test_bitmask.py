"""Masking against bit arithmetic in plain Python."""

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.bitmask import (
    _apply_bitmask_torch,
    _apply_bitmask_triton,
    apply_bitmask,
    apply_bitmask_,
)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on the CPU, kernels are interpreted


@pytest.mark.parametrize("width", [1, 31, 32, 33, 111, 32001])
@pytest.mark.parametrize("extra_words", [0, 3])
def test_exactly_the_clear_bits_become_minus_infinity(width: int, extra_words: int) -> None:
    generator = torch.Generator().manual_seed(width)
    words = (width + 31) // 32 + extra_words
    bitmask = torch.randint(-(2**31), 2**31, (4, words), generator=generator).to(torch.int32)
    bitmask[1], bitmask[2] = 0, -1
    logits = torch.randn(4, width + 5, generator=generator)[:, :width]  # a row stride wider than the row
    expected = [
        [x if bitmask[row, i // 32].item() >> (i % 32) & 1 else float("-inf") for i, x in enumerate(values)]
        for row, values in enumerate(logits.tolist())
    ]
    returned = apply_bitmask_(logits, bitmask)
    assert returned is logits
    assert logits.tolist() == expected


@pytest.mark.parametrize(
    "bitmask",
    [
        torch.zeros(2, 2, dtype=torch.int64),
        torch.zeros(3, 2, dtype=torch.int32),
        torch.zeros(2, 1, dtype=torch.int32),
        torch.zeros(2, dtype=torch.int32),
    ],
)
def test_a_bitmask_that_does_not_fit_is_refused(bitmask: torch.Tensor) -> None:
    with pytest.raises(InvalidInputError):
        apply_bitmask_(torch.zeros(2, 40), bitmask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [1, 33, 111, 32001])
def test_the_kernel_is_its_torch_twin(width: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(width)
    pytest.importorskip("triton")
    words = (width + 31) // 32 + 2
    bitmask = torch.randint(-(2**31), 2**31, (5, words + 1), generator=generator).to(torch.int32)[:, :words]
    bitmask[1], bitmask[2], bitmask[3] = 0, -1, 0
    bitmask[3, width // 32 if width % 32 else 0] = 1  # one legal token
    bitmask = bitmask.to(DEVICE)
    padded = torch.randn(5, width + 7, generator=generator).to(DEVICE, dtype)
    logits = padded[:, :width]  # a row stride wider than the row
    logits[0, 0] = float("nan")
    expected = _apply_bitmask_torch(logits, bitmask, torch.empty(5, width, dtype=dtype, device=DEVICE))
    behind = padded[:, width:].clone()
    output = _apply_bitmask_triton(logits, bitmask, torch.empty(5, width, dtype=dtype, device=DEVICE))
    torch.testing.assert_close(output, expected, rtol=0, atol=0, equal_nan=True)
    assert _apply_bitmask_triton(logits, bitmask, logits) is logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(padded[:, width:], behind), "written past the row"


def test_a_new_tensor_leaves_the_logits_alone() -> None:
    logits, bitmask = torch.randn(3, 70), torch.tensor([[5, 0, -1], [0, 0, 0], [-1, -1, -1]], dtype=torch.int32)
    before = logits.clone()
    masked = apply_bitmask(logits, bitmask)
    assert torch.equal(logits, before)
    assert torch.equal(masked, apply_bitmask_(logits, bitmask))
    with pytest.raises(InvalidInputError):
        apply_bitmask(logits, bitmask[:, :2])
