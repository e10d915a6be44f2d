"""Survivors among a few thousand listed candidates, held in registers: a search for the last survivor's value."""

import triton
import triton.language as tl

from constrain.sampling.ops._search_kernel import first_or_last, key_of, value_of
from constrain.sampling.ops._tile_kernel import gumbel

_NONE = tl.constexpr(0x7FFFFFFF)


@triton.jit  # type: ignore[untyped-decorator]
def token_of_listed(  # type: ignore[no-untyped-def]
    values_ptr,  # [LISTED], in the order of their ids
    tokens_ptr,
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
    values = tl.load(values_ptr + lane, mask=lane < num, other=float("-inf"))
    key = tl.where(lane < num, key_of(values), -1)
    weights = tl.where(lane < num, tl.exp2((values - top) * scale), 0.0)
    survives = lane < num
    bound = tl.full((), 0, tl.int64)
    for stage in range(0, 2):
        by_mass = stage == 1
        goal = tl.where(by_mass, top_p * total, top_k.to(tl.float64))
        if (by_mass & (top_p < 1.0)) | ((stage == 0) & (top_k > 0) & (top_k <= num)):
            amount = tl.where(by_mass, weights, tl.where(lane < num, 1.0, 0.0))
            found = tl.full((), 0, tl.int64)
            for bit in range(0, 32):
                middle = found + (tl.full((), 1, tl.int64) << (31 - bit))
                reached = tl.sum(tl.where(key >= middle, amount, 0.0), axis=0)
                found = tl.where(reached.to(tl.float64) >= goal, middle, found)
            found = tl.maximum(found, bound)  # rounding must not undo the top-k
            number = tl.sum((survives & (key > found)).to(tl.int32), axis=0)
            over = tl.sum(tl.where(survives & (key > found), weights, 0.0).to(tl.float64), axis=0)
            equal = survives & (key == found)
            ties = tl.sum(equal.to(tl.int32), axis=0)
            weight = tl.exp2((value_of(found) - top) * scale).to(tl.float64)
            missing = tl.where(weight > 0, tl.minimum(tl.ceil((goal - over) / weight), 1e9), 1e9).to(tl.int32)
            keep = tl.where(by_mass, tl.minimum(tl.maximum(missing, 1), ties), top_k - number)
            total = over + keep.to(tl.float64) * weight
            bound = found
            among = tl.cumsum(equal.to(tl.int32), axis=0) <= keep
            survives = survives & ((key > found) | (equal & among))
    tokens = tl.load(tokens_ptr + lane, mask=lane < num, other=_NONE)
    if GUMBEL and noisy:
        noise = gumbel(seed, index, tokens, PURPOSE)
        score = tl.where(survives, (values - top) * (scale * 0.6931471805599453) + noise, float("-inf"))
        token = tl.min(tl.where((score == tl.max(score, axis=0)) & survives, tokens, _NONE), axis=0)
    else:
        weights = tl.where(survives, weights, 0.0)
        ends = tl.cumsum(weights.to(tl.float64), axis=0)
        token = first_or_last(ends > u * tl.max(ends, axis=0), weights > 0, tokens)
    return token
