"""Helpers of the second pass: the order of floats, places in a list, and the last survivor among listed candidates."""

import triton
import triton.language as tl

_NONE = tl.constexpr(0x7FFFFFFF)


@triton.jit
def bits(distance):  # type: ignore[no-untyped-def]
    """Of a float32 that is not negative, as int32 of the same order."""
    return distance.to(tl.int32, bitcast=True)


@triton.jit
def key_of(values):  # type: ignore[no-untyped-def]
    """Integers in the order of the floats, 0.0 and -0.0 being one."""
    raw = tl.where(values == 0, 0.0, values).to(tl.int32, bitcast=True)
    return tl.where(raw >= 0, raw, raw ^ 0x7FFFFFFF)


@triton.jit
def value_of(key):  # type: ignore[no-untyped-def]
    """The float of a key."""
    raw = key.to(tl.int32)
    return tl.where(raw >= 0, raw, raw ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)


@triton.jit
def ordinal(kept):  # type: ignore[no-untyped-def]
    """How many of ``kept`` [R, 4, 16] stand before each place in the order of the tokens, and in all.

    A page's sixteen are bits of one word, and a sub-block's four counts are bytes of another: a scan over each axis
    would pass far more between threads.
    """
    lane = tl.arange(0, 16)[None, None, :]
    page = tl.arange(0, 4)[None, :]
    words = tl.sum(kept.to(tl.int32) << lane, axis=2)
    counts = tl.sum(_ones(words) << (8 * page), axis=1)
    subs = (counts * 0x01010101) >> 24
    ends = tl.cumsum(subs, axis=0)
    before = (ends - subs)[:, None] + (((counts[:, None] & ((1 << (8 * page)) - 1)) * 0x01010101) >> 24)
    return before[:, :, None] + _ones(words[:, :, None] & ((1 << lane) - 1)), tl.max(ends, axis=0)


@triton.jit  # type: ignore[untyped-decorator]
def append(pairs_ptr, kept, values, tokens, num, LISTED: tl.constexpr):  # type: ignore[no-untyped-def]
    """List what is kept behind ``num`` others, as far as there is room; returns how many that is in all."""
    here, count = ordinal(kept)
    here += num
    pairs = (tokens.to(tl.int64) << 32) | (bits(values).to(tl.int64) & 0xFFFFFFFF)
    # Atomics stay with the threads that hold the elements; stores would move all of them first.
    tl.atomic_xchg(pairs_ptr + here, pairs, mask=kept & (here < LISTED), sem="relaxed", scope="cta")
    return count


@triton.jit
def listed(pairs_ptr, lane, num):  # type: ignore[no-untyped-def]
    """(values, tokens) that ``append`` left; -inf from ``num`` on."""
    pairs = tl.load(pairs_ptr + lane, mask=lane < num, other=0x7FFFFFFF_FF800000)
    return pairs.to(tl.int32).to(tl.float32, bitcast=True), (pairs >> 32).to(tl.int32)


@triton.jit
def _ones(word):  # type: ignore[no-untyped-def]
    """How many of 16 bits are set."""
    word = word - ((word >> 1) & 0x5555)
    word = (word & 0x3333) + ((word >> 2) & 0x3333)
    word = (word + (word >> 4)) & 0x0F0F
    return (word + (word >> 8)) & 0x1F


@triton.jit
def ballot(reached, has_weight, tokens):  # type: ignore[no-untyped-def]
    """Numbers whose minimum ``elected`` reads."""
    wide = tokens.to(tl.int64)
    return tl.where(has_weight & reached, wide, tl.where(has_weight, 0x17FFFFFFF - wide, 0x17FFFFFFF))


@triton.jit
def elected(lowest):  # type: ignore[no-untyped-def]
    """The lowest token that is reached and has a weight, or else the highest with a weight, or else 0."""
    return tl.where(lowest < 0x80000000, lowest, 0x17FFFFFFF - lowest).to(tl.int32)


@triton.jit
def first_or_last(reached, has_weight, tokens):  # type: ignore[no-untyped-def]
    """The lowest token that is reached and has a weight, or else the highest with a weight; of one axis."""
    return elected(tl.min(ballot(reached, has_weight, tokens), axis=0))


@triton.jit
def last_survivor(  # type: ignore[no-untyped-def]
    key,  # [LISTED]
    weights,
    tokens,
    valid,
    by_mass,  # whether goal is a mass, or else a number
    goal,
    over,  # mass of all that is over these candidates
    number,  # how many those are
    top,
    scale,
):
    """(key of the last survivor, the highest token that survives with it, mass of all survivors)."""
    amount = tl.where(valid, tl.where(by_mass, weights, 1.0), 0.0)
    base = tl.where(by_mass, over, number.to(tl.float64))
    lowest = tl.min(tl.where(valid, key, _NONE), axis=0).to(tl.int64)
    highest = tl.max(tl.where(valid, key, -_NONE), axis=0).to(tl.int64)
    digits = 0
    while (tl.full((), 1, tl.int64) << (2 * digits)) <= highest - lowest:
        digits += 1
    found = lowest
    step = tl.full((), 1, tl.int64) << (2 * digits)
    # Two bits a turn; three sums are made in one.
    fourth = tl.arange(0, 4)
    for _ in range(0, digits):
        step = step >> 2
        pivots = tl.minimum(found + step * (fourth + 1).to(tl.int64), _NONE).to(tl.int32)
        sums = tl.sum(tl.where(key[None, :] >= pivots[:, None], amount[None, :], 0.0), axis=1)
        reached = (base + sums.to(tl.float64) >= goal) & (fourth < 3)
        found += step * tl.sum(reached.to(tl.int32), axis=0).to(tl.int64)
    last = found.to(tl.int32)
    above = valid & (key > last)
    equal = valid & (key == last)
    number += tl.sum(above.to(tl.int32), axis=0)
    over += tl.sum(tl.where(above, weights, 0.0).to(tl.float64), axis=0)
    order = tl.cumsum(equal.to(tl.int32), axis=0)
    keep, total = kept_of(last, tl.max(order, axis=0), by_mass, goal, over, number, top, scale)
    cut = tl.max(tl.where(equal & (order <= keep), tokens, -1), axis=0)
    return last, cut, total


@triton.jit
def kept_of(last, ties, by_mass, goal, over, number, top, scale):  # type: ignore[no-untyped-def]
    """(how many of the ``ties`` at key ``last`` survive, the mass of all survivors)."""
    weight = tl.exp2((value_of(last) - top) * scale).to(tl.float64)
    missing = tl.where(weight > 0, tl.minimum(tl.ceil((goal - over) / weight), 1e9), 1e9).to(tl.int32)
    missing = tl.where(by_mass, tl.maximum(missing, 1), goal.to(tl.int32) - number)
    keep = tl.minimum(missing, ties)
    return keep, over + keep.to(tl.float64) * weight
