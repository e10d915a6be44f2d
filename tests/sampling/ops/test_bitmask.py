"""Masking against bit arithmetic in plain Python."""

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.bitmask import apply_bitmask_


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
