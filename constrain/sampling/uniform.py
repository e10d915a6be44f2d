"""Random numbers that depend on (seed, output index, purpose) and on nothing else."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import torch

_Words = tuple[Any, Any, Any, Any]  # of 32 bits, in integers, arrays of uint64 or tensors of int64
_LOW = 0xFFFFFFFF
# The multipliers and Weyl constants of Philox4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_FEW = 16


GUMBEL_TAG = 256
"""Added to the purpose in the counters of Gumbel noise, which therefore never meet those of ``uniforms``."""


class Purpose(IntEnum):
    """What a number is for; numbers of different purposes are independent."""

    DRAW = 0
    ACCEPT = 1
    RECOVER = 2
    DRAFT = 3


def uniforms(seeds: Sequence[int], output_indices: Sequence[int], purpose: Purpose) -> torch.Tensor:
    """One number in [0, 1) a row, float64 [N] with 53 random bits: Philox4x32-10 keyed by the row's seed (64 bits)."""
    if len(seeds) <= _FEW:  # numbers of Python, which are the faster ones for few rows
        numbers = [_uniform(seed, index, int(purpose)) for seed, index in zip(seeds, output_indices, strict=True)]
        return torch.tensor(numbers, dtype=torch.float64)
    seed = np.array(seeds, dtype=np.uint64)
    index = np.array(output_indices, dtype=np.uint64)
    counter = (index & _LOW, index >> 32, np.full_like(index, int(purpose)), np.zeros_like(index))
    high, low, *_ = philox4x32(counter, (seed & _LOW, seed >> 32))
    bits53 = ((high << 21) | (low >> 11)).astype(np.float64)
    return torch.from_numpy(bits53 * 2.0**-53)


def _uniform(seed: int, index: int, purpose: int) -> float:
    high, low, *_ = philox4x32((index & _LOW, index >> 32, purpose, 0), (seed & _LOW, seed >> 32))
    return float(((high << 21) | (low >> 11)) * 2.0**-53)


def philox4x32(counter: _Words, key: tuple[Any, Any]) -> _Words:
    """Ten rounds of Philox4x32 on 32-bit words; products that wrap at 64 bits, signed or not, do not matter to it."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        product0, product1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (
            ((product1 >> 32) & _LOW) ^ c1 ^ k0,
            product1 & _LOW,
            ((product0 >> 32) & _LOW) ^ c3 ^ k1,
            product0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


def uniforms_on_device(
    seeds: torch.Tensor,  # [N] int64, the 64 bits of the seed
    output_indices: torch.Tensor,  # [N] int64
    purpose: Purpose,
) -> torch.Tensor:
    """The numbers of :func:`uniforms`, bit for bit, in tensors of any device; float64 [N]."""
    counter = (output_indices & _LOW, (output_indices >> 32) & _LOW, torch.full_like(seeds, int(purpose)), seeds * 0)
    high, low, *_ = philox4x32(counter, (seeds & _LOW, (seeds >> 32) & _LOW))
    bits53: torch.Tensor = (high << 21) | (low >> 11)
    return bits53.double() * 2.0**-53


def gumbel_noise(
    seeds: torch.Tensor,  # [N] int64
    output_indices: torch.Tensor,  # [N] int64
    tokens: torch.Tensor,  # [N, C] int64
    purpose: Purpose,
) -> torch.Tensor:
    """Gumbel noise of (seed, output index, purpose, token), float32 [N, C].

    The counter is (index's low word, its high word, purpose + GUMBEL_TAG, token // 4), and token % 4 picks the word of
    the result, so a token's noise depends on nothing else in the row: a draft model that shares seed and index, and a
    row with another mask, see the same. Of the word, 24 bits count: noise lies between -2.9 and 17.4.
    """
    index, key = output_indices[:, None].expand_as(tokens), seeds[:, None]
    purposes = torch.full_like(tokens, int(purpose) + GUMBEL_TAG)
    counter = (index & _LOW, (index >> 32) & _LOW, purposes, tokens >> 2)
    words = philox4x32(counter, (key & _LOW, (key >> 32) & _LOW))
    word = torch.stack(words, dim=-1).gather(-1, (tokens & 3).unsqueeze(-1)).squeeze(-1)
    v = ((word >> 8).float() + 0.5) * 2.0**-24
    v = v.clamp(max=1 - 2.0**-24)
    # -log(1 - v): the series keeps the small values apart, whose noise is large.
    series = v * (1 + v * (0.5 + v * (1 / 3 + v * 0.25)))
    return -torch.log(torch.where(v < 0.01, series, -torch.log(1 - v)))
