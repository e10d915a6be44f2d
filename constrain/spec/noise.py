"""Gumbel noise by token id: what a draft shares with the target so that both draw the same token."""

from collections.abc import Sequence

import numpy as np
import torch

from constrain.sampling.uniform import Purpose, philox4x32

_TAG = 256  # added to the purpose, so that the counters never meet those of ``uniforms``
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)


def gumbel_noise(seeds: Sequence[int], output_indices: Sequence[int], vocab_size: int) -> torch.Tensor:
    """[N, V] float32: the noise of the draw at (seed, output index), on the CPU.

    Token t takes 24 bits of word t % 4 of Philox4x32-10 at counter (index, purpose, t // 4).
    """
    seed = np.array(seeds, dtype=np.uint64)[:, None]
    index = np.array(output_indices, dtype=np.uint64)[:, None]
    group = np.arange(-(-vocab_size // 4), dtype=np.uint64)[None, :]
    zeros = np.zeros(np.broadcast_shapes(seed.shape, group.shape), dtype=np.uint64)
    purpose = zeros + np.uint64(int(Purpose.DRAW) + _TAG)
    counter = ((index & _LOW) + zeros, (index >> _SHIFT) + zeros, purpose, group + zeros)
    words = np.stack(philox4x32(counter, ((seed & _LOW) + zeros, (seed >> _SHIFT) + zeros)), axis=2)
    bits = (words.reshape(len(seeds), -1)[:, :vocab_size] >> np.uint64(8)).astype(np.float32)
    v = np.minimum((bits + np.float32(0.5)) * np.float32(2.0**-24), np.float32(1 - 2.0**-24))
    return torch.from_numpy(-np.log(-np.log1p(-v)))
