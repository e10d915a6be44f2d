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


def uniforms_on_device(
    seeds: torch.Tensor,  # [N] int64, the 64 bits of the seed
    output_indices: torch.Tensor,  # [N] int64
    purpose: Purpose,
) -> torch.Tensor:
    """The numbers of :func:`uniforms`, bit for bit, in tensors of any device; float64 [N]."""
    zero = torch.zeros_like(seeds)
    high, low, *_ = _philox4x32_int64(_counter(output_indices, zero + int(purpose), zero), seeds)
    return ((high << 21) | (low >> 11)).double() * 2.0**-53


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
    purposes = torch.full_like(tokens, int(purpose) + GUMBEL_TAG)
    words = _philox4x32_int64(
        _counter(output_indices[:, None].expand_as(tokens), purposes, tokens >> 2), seeds[:, None]
    )
    word = torch.stack(words, dim=-1).gather(-1, (tokens & 3).unsqueeze(-1)).squeeze(-1)
    v = ((word >> 8).float() + 0.5) * 2.0**-24
    v = v.clamp(max=1 - 2.0**-24)
    # -log(1 - v): the series keeps the small values apart, whose noise is large.
    series = v * (1 + v * (0.5 + v * (1 / 3 + v * 0.25)))
    return -torch.log(torch.where(v < 0.01, series, -torch.log(1 - v)))


_Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _counter(index: torch.Tensor, second: torch.Tensor, third: torch.Tensor) -> _Words:
    return index & 0xFFFFFFFF, (index >> 32) & 0xFFFFFFFF, second, third


def _philox4x32_int64(counter: _Words, seeds: torch.Tensor) -> _Words:
    """:func:`philox4x32` on words held in int64: products wrap, and their words are right all the same."""
    c0, c1, c2, c3 = counter
    k0, k1 = seeds & 0xFFFFFFFF, (seeds >> 32) & 0xFFFFFFFF
    for _ in range(10):
        product0, product1 = int(_M0) * c0, int(_M1) * c2
        c0, c1, c2, c3 = (
            ((product1 >> 32) & 0xFFFFFFFF) ^ c1 ^ k0,
            product1 & 0xFFFFFFFF,
            ((product0 >> 32) & 0xFFFFFFFF) ^ c3 ^ k1,
            product0 & 0xFFFFFFFF,
        )
        k0, k1 = (k0 + int(_W0)) & 0xFFFFFFFF, (k1 + int(_W1)) & 0xFFFFFFFF
    return c0, c1, c2, c3
