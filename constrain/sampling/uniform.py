"""Random numbers that depend on (seed, output index, purpose) and on nothing else."""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import torch

_U64 = npt.NDArray[np.uint64]
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
# The multipliers and Weyl constants of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)


class Purpose(IntEnum):
    """What a number is for; numbers of different purposes are independent."""

    DRAW = 0
    ACCEPT = 1
    RECOVER = 2
    DRAFT = 3


def uniforms(seeds: Sequence[int], output_indices: Sequence[int], purpose: Purpose) -> torch.Tensor:
    """One number in [0, 1) a row, float64 [N] with 53 random bits: Philox4x32-10 keyed by the row's seed (64 bits)."""
    seed = np.array(seeds, dtype=np.uint64)
    index = np.array(output_indices, dtype=np.uint64)
    counter = (index & _LOW, index >> _SHIFT, np.full_like(index, int(purpose)), np.zeros_like(index))
    high, low, *_ = philox4x32(counter, (seed & _LOW, seed >> _SHIFT))
    bits53 = ((high << np.uint64(21)) | (low >> np.uint64(11))).astype(np.float64)
    return torch.from_numpy(bits53 * 2.0**-53)


def philox4x32(counter: tuple[_U64, _U64, _U64, _U64], key: tuple[_U64, _U64]) -> tuple[_U64, _U64, _U64, _U64]:
    """Ten rounds of Philox4x32 on 32-bit words held in uint64 arrays of one shape."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            (product1 >> _SHIFT) ^ c1 ^ k0,
            product1 & _LOW,
            (product0 >> _SHIFT) ^ c3 ^ k1,
            product0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3
