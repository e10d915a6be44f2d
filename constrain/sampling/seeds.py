"""The seeds of several outputs for one prompt."""

import numpy as np

from constrain.errors import InvalidInputError
from constrain.sampling.uniform import philox4x32

_OUTPUTS = 1024
"""Stands in the counter where draws have their purpose, so that seeds and draws share no randomness."""


def output_seed(seed: int, index: int) -> int:
    """The seed of output ``index`` of a request with ``n`` outputs: ``seed`` itself for the first.

    64 bits that depend on ``seed`` and ``index`` alone; outputs of neighbouring seeds have nothing in common.
    """
    if not 0 <= seed < 2**64 or not 0 <= index < 2**32:
        raise InvalidInputError(f"seed={seed}, index={index}: want 64 bits, and an index from 0 on")
    if index == 0:
        return seed
    counter, key = [index, 0, _OUTPUTS, 0], [seed & 0xFFFFFFFF, seed >> 32]
    c0, c1, c2, c3 = (np.array([word], np.uint64) for word in counter)
    k0, k1 = (np.array([word], np.uint64) for word in key)
    low, high, *_ = philox4x32((c0, c1, c2, c3), (k0, k1))
    return int(high[0]) << 32 | int(low[0])
