"""Survivors among more candidates than can be listed: their logits are read again, a few times.

The value of the last survivor is enclosed ever closer, each pass at three values that lie where it is expected, until
the candidates inside can be listed. Every third pass halves by the order of the floats instead, twice, and each pass
moves its bounds onto values that occur: whatever the logits, the search ends, and equal values end it soon.
"""

import triton
import triton.language as tl

from constrain.sampling.ops._search_kernel import (
    append,
    ballot,
    bits,
    elected,
    kept_of,
    key_of,
    last_survivor,
    listed,
    ordinal,
    value_of,
)
from constrain.sampling.ops._tile_kernel import PAGES_OF_SUB, gumbel, load_tile
from constrain.sampling.ops.pages import PAGE

_PAGES = tl.constexpr(PAGES_OF_SUB)
_PAGE = tl.constexpr(PAGE)
_NONE = tl.constexpr(0x7FFFFFFF)
_LEAST = tl.constexpr(-0x7F800001)  # the key of -inf

MAX_COUNTED = 1023 // PAGES_OF_SUB
"""The most chunks of ``R`` sub-blocks in which survivors are counted: a lane counts one of each page, up to 1023."""


@triton.jit  # type: ignore[untyped-decorator]
def token_of_many(  # type: ignore[no-untyped-def]
    candidates,  # (source, adjust, sub-blocks, pairs, num_subs)
    place,
    top,
    scale,
    spread,  # a first guess at how far under the top the last survivor lies
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
    LISTED: tl.constexpr,
    R: tl.constexpr,
    FLAGS: tl.constexpr,
    GUMBEL: tl.constexpr,
    PURPOSE: tl.constexpr,
):
    # Survivors have a key over the bound, or this one and a token up to last.
    bound = tl.full((), _LEAST, tl.int32)
    last = tl.full((), _NONE, tl.int32)
    for stage in range(0, 2):
        by_mass = stage == 1
        goal = tl.where(by_mass, top_p * total, top_k.to(tl.float64))
        if (by_mass & (top_p < 1.0)) | ((stage == 0) & (top_k > 0) & (top_k <= num)):
            bound, last, total = _last_of_many(
                candidates, place, top, scale, spread, reach, num_listed, bound, last, by_mass, goal, LISTED, R, FLAGS
            )
    token = tl.full((), 0, tl.int32)
    target = u * total
    before = tl.full((), 0.0, tl.float64)
    best = tl.full((), float("-inf"), tl.float32)
    start = 0
    latest = 0  # the last chunk with a weight
    while start < num_listed:
        values, tokens, survives = _chunk(candidates, place, top, reach, num_listed, bound, last, start, R, FLAGS)
        following = start + R
        if GUMBEL and noisy:
            noise = gumbel(seed, index, tokens, PURPOSE)
            # ln(2) takes the 1 / ln(2) out of scale: noise is added to nats.
            score = tl.where(survives, (values - top) * (scale * 0.6931471805599453) + noise, float("-inf"))
            highest = _largest(score)
            if highest > best:
                best = highest
                token = _least(tl.where((score == highest) & survives, tokens, _NONE))
        else:
            weights = tl.where(survives, tl.exp2((values - top) * scale), 0.0)
            pages = tl.sum(weights, axis=2).to(tl.float64)
            subs = tl.sum(pages, axis=1)
            mass = tl.sum(subs, axis=0)
            latest = tl.where(mass > 0, start, latest)
            # Only the chunk that reaches the target is looked at closely: in the end, the last one with a weight.
            is_end = following >= num_listed
            if (before + mass > target * 0.999999) | (is_end & (latest == start)):
                ends = (tl.cumsum(subs, axis=0) - subs)[:, None] + tl.cumsum(pages, axis=1) - pages
                reached = before + ends[:, :, None] + tl.cumsum(weights.to(tl.float64), axis=2) > target
                lowest = _least(ballot(reached, weights > 0, tokens))
                if (lowest < 0x80000000) | is_end:
                    token = elected(lowest)
                    following = num_listed
            else:
                if is_end:
                    following = latest
                    num_listed = tl.minimum(num_listed, latest + R)
            before += mass
        start = following
    return token


@triton.jit  # type: ignore[untyped-decorator]
def _last_of_many(  # type: ignore[no-untyped-def]
    candidates, place, top, scale, spread, reach, num_listed, bound, last, by_mass, goal, LISTED: tl.constexpr,
    R: tl.constexpr, FLAGS: tl.constexpr,
):  # fmt: skip
    """(key of the last survivor, the highest token that survives with it, mass of all survivors)."""
    low = tl.full((), _LEAST, tl.int64)  # the last survivor's key is at least low, and under high
    high = key_of(top).to(tl.int64) + 1
    inside = tl.full((), _NONE, tl.int32)  # how many candidates are
    from_low = tl.full((), 0.0, tl.float64)  # the amount from low on
    over = tl.full((), 0.0, tl.float64)  # the mass, and the number, from high on
    number = tl.full((), 0, tl.int32)
    turn = 0
    while (inside > LISTED) & (high - low > 1):
        # Three pivots, the first the highest.
        width = value_of(high) - value_of(low)
        share = ((goal - tl.where(by_mass, over, number.to(tl.float64))) / from_low).to(tl.float32)
        share = tl.minimum(tl.maximum(share, 0.15), 0.85)
        is_open = low == _LEAST
        gap = tl.where(is_open, spread * 0.75, width * 0.125)
        first = value_of(high) - tl.where(is_open, spread, width * (share - 0.125))
        fourth = (high - low) >> 2
        halve = (turn % 3 == 2) | (spread == 0)
        upper = tl.where(halve, high - fourth, key_of(first).to(tl.int64))
        middle = tl.where(halve, low + 2 * fourth, key_of(first - gap).to(tl.int64))
        lower = tl.where(halve, low + fourth, key_of(first - gap * 2).to(tl.int64))
        upper = tl.minimum(tl.maximum(upper, low + 1), high - 1)
        middle = tl.minimum(tl.maximum(middle, low + 1), high - 1)
        lower = tl.minimum(tl.maximum(lower, low + 1), high - 1)
        one = value_of(upper)
        two = value_of(middle)
        three = value_of(lower)
        mass_one = tl.zeros((R, _PAGE), tl.float64)
        mass_two = tl.zeros((R, _PAGE), tl.float64)
        mass_three = tl.zeros((R, _PAGE), tl.float64)
        numbers = tl.zeros((R, _PAGE), tl.int32)  # three of 10 bits each: MAX_COUNTED says how far they reach
        under = tl.full((R, _PAGE), float("-inf"), tl.float32)
        from_two = tl.full((R, _PAGE), float("inf"), tl.float32)
        for start in range(0, num_listed, R):
            values, _, kept = _chunk(candidates, place, top, reach, num_listed, bound, last, start, R, FLAGS)
            weights = tl.exp2((values - top) * scale)
            is_one = kept & (values >= one)
            is_two = kept & (values >= two)
            is_three = kept & (values >= three)
            # Over the pages, so that threads add what is theirs.
            mass_one += tl.sum(tl.where(is_one, weights, 0.0), axis=1).to(tl.float64)
            mass_two += tl.sum(tl.where(is_two, weights, 0.0), axis=1).to(tl.float64)
            mass_three += tl.sum(tl.where(is_three, weights, 0.0), axis=1).to(tl.float64)
            ones = is_one.to(tl.int32) + (is_two.to(tl.int32) << 10) + (is_three.to(tl.int32) << 20)
            numbers += tl.sum(ones, axis=1)
            under = tl.maximum(under, tl.max(tl.where(kept & (values < two), values, float("-inf")), axis=1))
            from_two = tl.minimum(from_two, tl.min(tl.where(is_two, values, float("inf")), axis=1))
        masses = (_sum(mass_one), _sum(mass_two), _sum(mass_three))
        counts = (_sum(numbers & 0x3FF), _sum((numbers >> 10) & 0x3FF), _sum(numbers >> 20))
        highest_under = tl.max(tl.max(under, axis=1), axis=0)
        lowest_over = tl.min(tl.min(from_two, axis=1), axis=0)
        amount_one = tl.where(by_mass, masses[0], counts[0].to(tl.float64))
        amount_two = tl.where(by_mass, masses[1], counts[1].to(tl.float64))
        amount_three = tl.where(by_mass, masses[2], counts[2].to(tl.float64))
        to_low = number + inside  # the number from low on
        amount_low = from_low + tl.where(by_mass, over, number.to(tl.float64))
        if amount_one >= goal:
            low = upper
            to_low = counts[0]
            amount_low = amount_one
        else:
            over = masses[0]
            number = counts[0]
            high = upper
            if amount_two >= goal:
                low = tl.maximum(middle, key_of(lowest_over).to(tl.int64))
                to_low = counts[1]
                amount_low = amount_two
            else:
                over = masses[1]
                number = counts[1]
                high = tl.minimum(middle, tl.maximum(key_of(highest_under).to(tl.int64), low) + 1)
                if amount_three >= goal:
                    low = lower
                    to_low = counts[2]
                    amount_low = amount_three
                else:
                    if lower < high:
                        over = masses[2]
                        number = counts[2]
                        high = lower
        inside = tl.where(low == _LEAST, _NONE, to_low - number)
        from_low = tl.where(low == _LEAST, 0.0, amount_low - tl.where(by_mass, over, number.to(tl.float64)))
        spread = tl.where(is_open, spread * 2, spread)
        turn += 1
    num = 0
    if high - low > 1:
        for start in range(0, num_listed, R):
            values, tokens, kept = _chunk(candidates, place, top, reach, num_listed, bound, last, start, R, FLAGS)
            kept = kept & (values >= value_of(low)) & (values < value_of(high))
            num += append(candidates[3], kept, values, tokens, num, LISTED)
        tl.debug_barrier()
        lane = tl.arange(0, LISTED)
        values, tokens = listed(candidates[3], lane, num)
        weights = tl.where(lane < num, tl.exp2((values - top) * scale), 0.0)
        found, cut, total = last_survivor(
            key_of(values), weights, tokens, lane < num, by_mass, goal, over, number, top, scale
        )
        tl.debug_barrier()
    else:
        found = low.to(tl.int32)
        ties = tl.where(found == _LEAST, 0, inside)
        keep, total = kept_of(found, ties, by_mass, goal, over, number, top, scale)
        cut = tl.full((), _NONE, tl.int32)
        if keep < ties:
            cut = tl.full((), -1, tl.int32)
            start = 0
            while start < num_listed:
                values, tokens, kept = _chunk(candidates, place, top, reach, num_listed, bound, last, start, R, FLAGS)
                order, count = ordinal(kept & (key_of(values) == found))
                among = kept & (key_of(values) == found) & (num + order < keep)
                cut = tl.maximum(cut, _largest(tl.where(among, tokens, -1)))
                num += count
                start = tl.where(num >= keep, num_listed, start + R)
    return found, tl.where(found == bound, tl.minimum(cut, last), cut), total


@triton.jit  # type: ignore[untyped-decorator]
def _chunk(  # type: ignore[no-untyped-def]
    candidates, place, top, reach, num_listed, bound, last, start, R: tl.constexpr, FLAGS: tl.constexpr
):
    """(values, tokens, whether each is a candidate that survived so far) of ``R`` sub-blocks."""
    position = start + tl.arange(0, R)
    # Where every sub-block is listed, none needs to be looked up.
    looked_up = tl.where(num_listed < candidates[4], num_listed, 0)
    sub = tl.load(candidates[2] + position, mask=position < looked_up, other=0)
    beyond = tl.where(num_listed < candidates[4], candidates[4], position)
    sub = tl.where(position < looked_up, sub, beyond)
    values, tokens = load_tile(candidates[0], candidates[1], place, sub, FLAGS)
    edge = value_of(bound)
    survives = (values > edge) | ((values == edge) & (tokens <= last))
    return values, tokens, (bits(top - values) <= reach) & survives


@triton.jit
def _sum(tile):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(tile, axis=1), axis=0)


@triton.jit
def _least(tile):  # type: ignore[no-untyped-def]
    return tl.min(tl.min(tl.min(tile, axis=2), axis=1), axis=0)


@triton.jit
def _largest(tile):  # type: ignore[no-untyped-def]
    return tl.max(tl.max(tl.max(tile, axis=2), axis=1), axis=0)
