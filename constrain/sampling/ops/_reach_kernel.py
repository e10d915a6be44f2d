"""How far under the maximum of a row its survivors can lie, by what the first pass left of its sub-blocks."""

import triton
import triton.language as tl

from constrain.sampling.ops._search_kernel import bits

_FINITE = tl.constexpr(0x7F7FFFFF)  # the bits of the largest float


@triton.jit
def reach_of_rank(distance, rank):  # type: ignore[no-untyped-def]
    """A little over the ``rank``-th smallest of non-negative float bits, by their upper 16 bits, four at a time."""
    upper = distance >> 15
    found = tl.full((), 0, tl.int32)
    pair = tl.arange(0, 8)
    for digit in tl.static_range(3, -1, -1):
        step = 1 << (4 * digit)
        # Two counts of at most 2**15 in one sum.
        odd = (upper[None, :] < (found + (2 * pair + 1) * step)[:, None]).to(tl.int32)
        even = (upper[None, :] < (found + (2 * pair + 2) * step)[:, None]).to(tl.int32)
        counts = tl.sum(odd + (even << 16), axis=1)
        under = ((counts & 0xFFFF) < rank).to(tl.int32) + ((pair < 7) & ((counts >> 16) < rank)).to(tl.int32)
        found += tl.sum(under, axis=0) * step
    return tl.minimum((found << 15) | 0x7FFF, _FINITE)


@triton.jit
def reach_of_mass(maxima, masses, top, scale, goal, others):  # type: ignore[no-untyped-def]
    """A distance within which the tokens probably weigh ``goal``, in steps of 1/32 of a halving; or all there is.

    Those of a sub-block weigh as much as its maximum, and as the sub-block without ``others`` times the weight that
    lies at the distance: surely so where all others are counted.
    """
    weights = tl.where(maxima == float("-inf"), 0.0, tl.exp2((maxima - top) * scale))
    step_of = tl.minimum((top - maxima) * (scale * 32.0), 4095.0).to(tl.int32)
    found = tl.full((), 0, tl.int32)
    eighth = tl.arange(0, 8)
    for digit in tl.static_range(3, -1, -1):
        step = 1 << (3 * digit)
        pivot = found + (eighth + 1) * step
        rest = others * tl.exp2(pivot.to(tl.float32) * -0.03125)
        mass = tl.maximum(weights[None, :], masses[None, :] - rest[:, None])
        reached = tl.sum(tl.where(step_of[None, :] < pivot[:, None], mass, 0.0), axis=1).to(tl.float64)
        found += tl.sum(((reached < goal) & (eighth < 7)).to(tl.int32), axis=0) * step
    return tl.where(found == 4095, _FINITE, bits((found + 1).to(tl.float32) * 0.03125 / scale))
