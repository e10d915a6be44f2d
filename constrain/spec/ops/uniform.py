"""The numbers of ``constrain.sampling.uniform`` on the device where seeds and indices lie."""

import torch

from constrain.sampling.uniform import Purpose

_LOW = 0xFFFFFFFF
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85


def uniforms_like(
    seeds: torch.Tensor,  # [...] int64, the 64 bits of each seed
    output_indices: torch.Tensor,  # [...] int64
    purpose: Purpose,
) -> torch.Tensor:
    """``uniforms`` bit for bit, float64 of the shape of both, without a copy to the host."""
    # int64 products wrap, which leaves all 64 bits of a product of two 32-bit words in place.
    c0, c1 = output_indices & _LOW, (output_indices >> 32) & _LOW
    c2, c3 = torch.full_like(c0, int(purpose)), torch.zeros_like(c0)
    k0, k1 = seeds & _LOW, (seeds >> 32) & _LOW
    for _ in range(10):
        product0, product1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (
            ((product1 >> 32) & _LOW) ^ c1 ^ k0,
            product1 & _LOW,
            ((product0 >> 32) & _LOW) ^ c3 ^ k1,
            product0 & _LOW,
        )
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return ((c0 << 21) | (c1 >> 11)).double() * 2.0**-53
