"""Survivors among more candidates than can be listed: a search for the last survivor's value.

Each pass over the sub-blocks that hold candidates reads their logits again and settles two bits of the value.
"""

import triton
import triton.language as tl

from constrain.sampling.ops._tile_kernel import PAGES_OF_SUB, gumbel, load_tile

_PAGES = tl.constexpr(PAGES_OF_SUB)
_NONE = tl.constexpr(0x7FFFFFFF)


@triton.jit
def bits(distance):  # type: ignore[no-untyped-def]
    """Of a float32 that is not negative, as int32 of the same order."""
    return distance.to(tl.int32, bitcast=True)


@triton.jit
def ordinal(kept):  # type: ignore[no-untyped-def]
    """How many of ``kept`` [R, SUB / 16, 16] stand before each place in the order of the tokens, and in all."""
    ones = kept.to(tl.int32)
    pages = tl.sum(ones, axis=2)
    subs = tl.sum(pages, axis=1)
    before = (tl.cumsum(subs, axis=0) - subs)[:, None] + tl.cumsum(pages, axis=1) - pages
    return before[:, :, None] + tl.cumsum(ones, axis=2) - ones, tl.sum(subs, axis=0)


@triton.jit
def first_or_last(reached, has_weight, tokens):  # type: ignore[no-untyped-def]
    """The lowest token that is reached and has a weight, or else the highest with a weight."""
    first = tl.min(tl.where(reached & has_weight, tokens, _NONE), axis=0)
    last = tl.max(tl.where(has_weight, tokens, 0), axis=0)
    return tl.where(first == _NONE, last, first)


@triton.jit  # type: ignore[untyped-decorator]
def token_of_many(  # type: ignore[no-untyped-def]
    candidates,
    place,  # (row, slot, offset)
    top,
    scale,
    reach,
    num_listed,
    num,
    top_k,
    top_p,
    total,  # the mass that top-p is a share of, unless there is a top-k
    u,
    seed,
    index,
    noisy,
    R: tl.constexpr,
    FLAGS: tl.constexpr,
    GUMBEL: tl.constexpr,
    PURPOSE: tl.constexpr,
):
    end = num_listed
    bound = tl.full((), 0, tl.int64)  # survivors have a key over it, or this one and a token up to last
    last = tl.full((), _NONE, tl.int32)
    for stage in range(0, 2):
        by_mass = stage == 1
        goal = tl.where(by_mass, top_p * total, top_k.to(tl.float64))
        if (by_mass & (top_p < 1.0)) | ((stage == 0) & (top_k > 0) & (top_k <= num)):
            found = tl.full((), 0, tl.int64)
            ties = tl.full((), 0.0, tl.float64)
            number = tl.full((), 0.0, tl.float64)
            over = tl.full((), 0.0, tl.float64)
            for digit in range(0, 17):
                # 16 passes for two bits each; the last one counts ties, and what is over them.
                is_last = digit == 16
                step = tl.full((), 1, tl.int64) << tl.where(is_last, 0, 30 - 2 * digit)
                found = tl.where(is_last, tl.maximum(found, bound), found)  # rounding must not undo the top-k
                lower = tl.where(is_last, found, found + step)
                middle = tl.where(is_last, found + 1, found + 2 * step)
                upper = tl.where(is_last, found + 1, found + 3 * step)
                one = tl.zeros((R, _PAGES), tl.float64)
                two = tl.zeros((R, _PAGES), tl.float64)
                three = tl.zeros((R, _PAGES), tl.float64)
                for start in range(0, end, R):
                    values, _, kept = _chunk(candidates, place, top, reach, num_listed, start, R, FLAGS)
                    key = tl.where(kept, key_of(values), -1)
                    weights = tl.exp2((values - top) * scale)
                    amount = tl.where(by_mass & (digit < 16), weights, 1.0)
                    one += tl.sum(tl.where(key >= lower, amount, 0.0), axis=2).to(tl.float64)
                    two += tl.sum(tl.where(key >= middle, amount, 0.0), axis=2).to(tl.float64)
                    amount = tl.where(by_mass | is_last, weights, 1.0)
                    three += tl.sum(tl.where(key >= upper, amount, 0.0), axis=2).to(tl.float64)
                ties = tl.sum(tl.sum(one, axis=1), axis=0)
                number = tl.sum(tl.sum(two, axis=1), axis=0)
                over = tl.sum(tl.sum(three, axis=1), axis=0)
                steps = (ties >= goal).to(tl.int64) + (number >= goal).to(tl.int64) + (over >= goal).to(tl.int64)
                found += tl.where(is_last, 0, steps * step)
            ties -= number
            weight = tl.exp2((value_of(found) - top) * scale).to(tl.float64)
            missing = tl.where(weight > 0, tl.ceil((goal - over) / weight), ties)
            keep = tl.where(by_mass, tl.minimum(tl.maximum(missing, 1.0), ties), goal - number)
            total = over + keep * weight
            last = tl.where(found > bound, _NONE, last)
            bound = found
            if keep < ties:
                seen = tl.full((), 0, tl.int32)
                cut = tl.full((), -1, tl.int32)
                for start in range(0, end, R):
                    values, tokens, kept = _chunk(candidates, place, top, reach, num_listed, start, R, FLAGS)
                    equal = kept & (key_of(values) == found)
                    order, count = ordinal(equal)
                    among = equal & (seen + order < keep.to(tl.int32))
                    cut = tl.maximum(cut, _largest(tl.where(among, tokens, -1)))
                    seen += count
                last = tl.minimum(last, cut)
    token = tl.full((), 0, tl.int32)
    target = u * total
    before = tl.full((), 0.0, tl.float64)
    best = tl.full((), float("-inf"), tl.float32)
    start = 0
    while start < end:
        values, tokens, kept = _chunk(candidates, place, top, reach, num_listed, start, R, FLAGS)
        key = key_of(values)
        survives = kept & ((key > bound) | ((key == bound) & (tokens <= last)))
        start += R
        if GUMBEL and noisy:
            noise = gumbel(seed, index, tokens, PURPOSE)
            score = tl.where(survives, (values - top) * (scale * 0.6931471805599453) + noise, float("-inf"))
            here = tl.max(tl.max(tl.max(score, axis=2), axis=1), axis=0)
            if here > best:
                best = here
                token = _least(tl.where((score == here) & survives, tokens, _NONE))
        else:
            weights = tl.where(survives, tl.exp2((values - top) * scale), 0.0)
            pages = tl.sum(weights, axis=2).to(tl.float64)
            subs = tl.sum(pages, axis=1)
            ends = (tl.cumsum(subs, axis=0) - subs)[:, None] + tl.cumsum(pages, axis=1) - pages
            reached = before + ends[:, :, None] + tl.cumsum(weights.to(tl.float64), axis=2) > target
            first = _least(tl.where(reached & (weights > 0), tokens, _NONE))
            token = tl.maximum(token, _largest(tl.where(weights > 0, tokens, 0)))
            before += tl.sum(subs, axis=0)
            if first != _NONE:
                token = first
                start = end
    return token


@triton.jit  # type: ignore[untyped-decorator]
def _chunk(candidates, place, top, reach, num_listed, start, R: tl.constexpr, FLAGS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(values, tokens, whether each is a candidate) of ``R`` sub-blocks."""
    position = start + tl.arange(0, R)
    sub = tl.load(candidates[2] + position, mask=position < num_listed, other=candidates[5])
    values, tokens = load_tile(candidates[0], candidates[1], place, sub, FLAGS)
    return values, tokens, bits(top - values) <= reach


@triton.jit
def key_of(values):  # type: ignore[no-untyped-def]
    """Integers from 0 in the order of the floats, 0.0 and -0.0 being one."""
    raw = tl.where(values == 0, 0.0, values).to(tl.int32, bitcast=True)
    return tl.where(raw >= 0, raw, raw ^ 0x7FFFFFFF).to(tl.int64) + 2147483648


@triton.jit
def value_of(key):  # type: ignore[no-untyped-def]
    """The float of a key."""
    raw = (key - 2147483648).to(tl.int32)
    return tl.where(raw >= 0, raw, raw ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)


@triton.jit
def _least(tile):  # type: ignore[no-untyped-def]
    return tl.min(tl.min(tl.min(tile, axis=2), axis=1), axis=0)


@triton.jit
def _largest(tile):  # type: ignore[no-untyped-def]
    return tl.max(tl.max(tl.max(tile, axis=2), axis=1), axis=0)
