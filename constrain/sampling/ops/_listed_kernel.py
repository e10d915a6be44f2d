"""Survivors among a few thousand listed candidates, held in registers."""

import triton
import triton.language as tl

from constrain.sampling.ops._search_kernel import first_or_last, key_of, last_survivor, listed
from constrain.sampling.ops._tile_kernel import gumbel

_NONE = tl.constexpr(0x7FFFFFFF)


@triton.jit  # type: ignore[untyped-decorator]
def token_of_listed(  # type: ignore[no-untyped-def]
    pairs_ptr,  # [LISTED], in the order of their ids
    num,
    top,
    scale,
    top_k,
    top_p,
    total,  # the mass that top-p is a share of, unless there is a top-k
    u,
    seed,
    index,
    noisy,
    LISTED: tl.constexpr,
    GUMBEL: tl.constexpr,
    PURPOSE: tl.constexpr,
):
    lane = tl.arange(0, LISTED)
    values, tokens = listed(pairs_ptr, lane, num)
    key = key_of(values)
    survives = lane < num
    weights = tl.where(survives, tl.exp2((values - top) * scale), 0.0)
    for stage in range(0, 2):
        by_mass = stage == 1
        goal = tl.where(by_mass, top_p * total, top_k.to(tl.float64))
        if (by_mass & (top_p < 1.0)) | ((stage == 0) & (top_k > 0) & (top_k <= num)):
            nothing = tl.full((), 0.0, tl.float64)
            last, cut, total = last_survivor(
                key, weights, tokens, survives, by_mass, goal, nothing, tl.full((), 0, tl.int32), top, scale
            )
            survives = survives & ((key > last) | ((key == last) & (tokens <= cut)))
    if GUMBEL and noisy:
        noise = gumbel(seed, index, tokens, PURPOSE)
        score = tl.where(survives, (values - top) * (scale * 0.6931471805599453) + noise, float("-inf"))
        token = tl.min(tl.where((score == tl.max(score, axis=0)) & survives, tokens, _NONE), axis=0)
    else:
        weights = tl.where(survives, weights, 0.0)
        ends = tl.cumsum(weights.to(tl.float64), axis=0)
        token = first_or_last(ends > u * tl.max(ends, axis=0), weights > 0, tokens)
    return token
