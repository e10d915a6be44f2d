"""Survivors among at most FEW candidates, by comparing each with each: no sort, and no search."""

import triton
import triton.language as tl

from constrain.sampling.ops._search_kernel import first_or_last, listed
from constrain.sampling.ops._tile_kernel import gumbel

FEW = 128
_FEW = tl.constexpr(FEW)
_CHUNK = tl.constexpr(64)
_NONE = tl.constexpr(0x7FFFFFFF)


@triton.jit  # type: ignore[untyped-decorator]
def token_of_few(  # type: ignore[no-untyped-def]
    pairs_ptr, num, top, scale, top_k, top_p, total, u, seed, index, noisy, GUMBEL: tl.constexpr,
    PURPOSE: tl.constexpr,
):  # fmt: skip
    """Ranks and masses of at most FEW candidates by comparing each with each; no sort."""
    lane = tl.arange(0, _FEW)
    values, tokens = listed(pairs_ptr, lane, num)
    weights = tl.where(lane < num, tl.exp2((values - top) * scale), 0.0)
    rank = tl.zeros((_FEW,), tl.int32)
    mass = tl.zeros((_FEW,), tl.float64)
    # Rivals stand along the axis that few threads share, so that most of a sum is made inside a thread.
    for start in range(0, num, _CHUNK):
        other = start + tl.arange(0, _CHUNK)
        rival, _ = listed(pairs_ptr, other, num)
        weight = tl.exp2((rival - top) * scale).to(tl.float64)
        equal = (rival[:, None] == values[None, :]) & (other[:, None] < lane[None, :])
        before = (rival[:, None] > values[None, :]) | equal
        rank += tl.sum(before.to(tl.int32), axis=0)
        mass += tl.sum(tl.where(before, weight[:, None], 0.0), axis=0)
    survives = lane < num
    if top_k > 0:
        survives = survives & (rank < top_k)
        total = tl.sum(tl.where(survives, weights, 0.0).to(tl.float64), axis=0)
    goal = tl.where(top_p < 1.0, top_p * total, float("inf"))
    survives = survives & ((mass < goal) | (rank == 0))
    weights = tl.where(survives, weights, 0.0)
    token = tl.full((), 0, tl.int32)
    if GUMBEL and noisy:
        noise = gumbel(seed, index, tokens, PURPOSE)
        score = tl.where(survives, (values - top) * (scale * 0.6931471805599453) + noise, float("-inf"))
        token = tl.min(tl.where((score == tl.max(score, axis=0)) & survives, tokens, _NONE), axis=0)
    else:
        ends = tl.cumsum(weights.to(tl.float64), axis=0)
        token = first_or_last(ends > u * tl.max(ends, axis=0), weights > 0, tokens)
    return token
