"""The second pass of ``fused.py``: from the maxima of a row to its token, one program a row.

Whatever the filters, the survivors of a row are a prefix of its tokens in the order (value descending, id ascending).
Only sub-blocks whose maximum can reach into that prefix are loaded again. Distances are maximum - value, in float32 and
compared by their bits: rounding keeps their order, so a bound on the distance never cuts through a prefix.
"""

import triton
import triton.language as tl

from constrain.sampling.ops._few_kernel import FEW, token_of_few
from constrain.sampling.ops._listed_kernel import token_of_listed
from constrain.sampling.ops._search_kernel import bits, first_or_last, ordinal, token_of_many
from constrain.sampling.ops._tile_kernel import SUB, load_tile, uniform

_SUB = tl.constexpr(SUB)
_FINITE = tl.constexpr(0x7F7FFFFF)  # the bits of the largest float
_NONE = tl.constexpr(0x7FFFFFFF)
_FEW = tl.constexpr(FEW)
GUESS = 64
"""Top-p alone first looks down to the so-many-th largest maximum of four sub-blocks."""
_GUESS = tl.constexpr(GUESS)


@triton.jit  # type: ignore[untyped-decorator]
def finish_kernel(  # type: ignore[no-untyped-def]
    source,  # as in the first pass
    adjust,
    rows,  # (slots, offsets, output_indices)
    table,  # (temperature, top_k, top_p, min_p, seed, gumbel)
    maxima_ptr,  # [N, pitch]
    sums_ptr,
    list_ptr,  # scratch: [N, pitch] int32, the sub-blocks of candidates
    values_ptr,  # scratch: [N, LISTED], candidates in the order of their ids
    tokens_ptr,
    output_ptr,  # [2, N] int64: tokens, then status
    num_subs,
    pitch,  # row stride of maxima, sums and list
    SUBS: tl.constexpr,  # the power of two that holds num_subs
    LISTED: tl.constexpr,
    R: tl.constexpr,
    FLAGS: tl.constexpr,  # of load_tile
    DRAWN: tl.constexpr,
    CUT: tl.constexpr,  # some row may have a filter
    INVERSE: tl.constexpr,
    GUMBEL: tl.constexpr,
    SUMS: tl.constexpr,
    PURPOSE: tl.constexpr,
    PDL: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(rows[0] + row)
    place = (row, slot, tl.load(rows[1] + row))
    # All that the row needs is asked for before anything waits.
    temperature = tl.load(table[0] + slot)
    if DRAWN:
        top_k = tl.load(table[1] + slot)
        top_p = tl.load(table[2] + slot)
        min_p = tl.load(table[3] + slot)
        seed = tl.load(table[4] + slot)
        noisy = tl.load(table[5] + slot) != 0
        index = tl.load(rows[2] + row)
        u = uniform(seed, index, PURPOSE)
    if PDL:
        tl.extra.cuda.gdc_wait()
    # Four neighbours stand in one thread.
    column = tl.arange(0, SUBS // 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    maxima = tl.load(maxima_ptr + row * pitch + column, mask=column < num_subs, other=float("-inf"))
    if SUMS:
        sums = tl.load(sums_ptr + row * pitch + column, mask=column < num_subs, other=0.0)
    groups = tl.max(maxima, axis=1)
    top = tl.max(groups, axis=0)
    status = tl.where(top == float("inf"), 2, tl.where(top == float("-inf"), 1, 0))
    token = tl.full((), 0, tl.int32)
    if status == 0:
        if temperature < 1e-5:
            best = tl.min(tl.min(tl.where(maxima == top, column, SUBS), axis=1), axis=0)
            values, tokens = load_tile(source, adjust, place, best + tl.arange(0, 1), FLAGS)
            token = tl.min(tl.min(tl.min(tl.where(values == top, tokens, _NONE), axis=2), axis=1), axis=0)
        else:
            if DRAWN:
                scale = 1.4426950408889634 / temperature
                if SUMS:
                    top_k = tl.where(top_k >= source[4], 0, top_k)
                is_cut = (top_k > 0) | (top_p < 1.0) | (min_p > 0.0)
                total = tl.full((), 0.0, tl.float64)
                if SUMS:
                    weights = tl.where(maxima == float("-inf"), 0.0, sums * tl.exp2((maxima - top) * scale))
                    masses = weights.to(tl.float64)
                    group_masses = tl.sum(masses, axis=1)
                    total = tl.sum(group_masses, axis=0)
                if INVERSE and SUMS and not (is_cut | noisy):
                    target = u * total
                    before = (tl.cumsum(group_masses, axis=0) - group_masses)[:, None]
                    before += tl.cumsum(masses, axis=1) - masses
                    hit = (before + masses > target) & (masses > 0)
                    best = tl.min(tl.min(tl.where(hit, column, SUBS), axis=1), axis=0)
                    last = tl.max(tl.max(tl.where(masses > 0, column, 0), axis=1), axis=0)
                    best = tl.where(best == SUBS, last, best)
                    start = tl.sum(tl.sum(tl.where(column == best, before, 0.0), axis=1), axis=0)
                    values, tokens = load_tile(source, adjust, place, best + tl.arange(0, 1), FLAGS)
                    flat = tl.reshape(values, (_SUB,))
                    inner = tl.exp2((flat - top) * scale)
                    reached = start + tl.cumsum(inner.to(tl.float64), axis=0)
                    ids = best * _SUB + tl.arange(0, _SUB)
                    token = first_or_last(reached > target, inner > 0, ids)
                else:
                    if CUT or GUMBEL:
                        candidates = (
                            source, adjust, list_ptr + row * pitch, values_ptr + row * LISTED,
                            tokens_ptr + row * LISTED, num_subs,
                        )  # fmt: skip
                        token = _among_survivors(
                            candidates, place, maxima, groups, top, temperature, top_k, top_p, min_p, total, u, seed,
                            index, noisy, SUBS, LISTED, R, FLAGS, GUMBEL, PURPOSE,
                        )  # fmt: skip
    tl.store(output_ptr + row, token.to(tl.int64))
    tl.store(output_ptr + tl.num_programs(0) + row, status.to(tl.int64))


@triton.jit  # type: ignore[untyped-decorator]
def _among_survivors(  # type: ignore[no-untyped-def]
    candidates,  # (source, adjust, list, values, tokens, num_subs)
    place,
    maxima,  # [SUBS / 4, 4]
    groups,  # [SUBS / 4], their maxima
    top,
    temperature,
    top_k,
    top_p,
    min_p,
    row_total,
    u,
    seed,
    index,
    noisy,
    SUBS: tl.constexpr,
    LISTED: tl.constexpr,
    R: tl.constexpr,
    FLAGS: tl.constexpr,
    GUMBEL: tl.constexpr,
    PURPOSE: tl.constexpr,
):
    num_subs = candidates[5]
    num_groups = (num_subs + 3) // 4
    scale = 1.4426950408889634 / temperature
    column = tl.arange(0, SUBS // 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    distance = bits(top - maxima)
    group_distance = bits(top - groups)
    limit = tl.full((), _FINITE, tl.int32)
    if min_p > 0.0:
        limit = tl.minimum(limit, bits(tl.abs(tl.log(min_p)) * temperature))
    # The k-th largest of the groups' maxima bounds the k-th largest value. For a large k, and for top-p alone, a guess
    # at the bound comes first, and is checked by what it lets through.
    by_rank = (top_k > 0) & (top_k <= num_groups // 2)
    by_mass = (top_k == 0) & (top_p < 1.0) & (min_p == 0.0)
    attempt = tl.where(by_mass, 0, tl.where(top_k > 0, 2, 3))
    reach = limit
    num_listed = 0
    num = 0
    mass = tl.full((), 0.0, tl.float64)
    searching = True
    while searching:
        rank = tl.where(attempt == 0, _GUESS, tl.where(attempt == 1, num_groups // 2, num_groups - num_groups // 16))
        rank = tl.where(by_rank, top_k, rank)
        reach = limit
        if attempt < 3:
            reach = tl.minimum(limit, _bound(group_distance, rank))
        chosen = distance <= reach
        ones = chosen.to(tl.int32)
        rows_of_four = tl.sum(ones, axis=1)
        slots = (tl.cumsum(rows_of_four, axis=0) - rows_of_four)[:, None] + tl.cumsum(ones, axis=1) - ones
        tl.store(candidates[2] + slots, column, mask=chosen)
        num_listed = tl.sum(rows_of_four, axis=0)
        tl.debug_barrier()
        num = 0
        mass = tl.full((), 0.0, tl.float64)
        for start in range(0, num_listed, R):
            position = start + tl.arange(0, R)
            sub = tl.load(candidates[2] + position, mask=position < num_listed, other=num_subs)
            values, tokens = load_tile(candidates[0], candidates[1], place, sub, FLAGS)
            kept = bits(top - values) <= reach
            if (top_k == 0) | (reach == limit):
                weights = tl.where(kept, tl.exp2((values - top) * scale), 0.0)
                mass += tl.sum(tl.sum(tl.sum(weights, axis=2), axis=1).to(tl.float64), axis=0)
            here, count = ordinal(kept)
            here += num
            writes = kept & (here < LISTED)
            tl.store(candidates[3] + here, values, mask=writes)
            tl.store(candidates[4] + here, tokens, mask=writes)
            num += count
        tl.debug_barrier()
        enough = tl.where(top_k > 0, num >= top_k, mass >= top_p * row_total)
        searching = (attempt < 3) & (reach < limit) & (enough == 0)
        # Where the leading blocks hold little of the mass, one step is left out.
        attempt += tl.where((attempt == 0) & (mass < 0.6 * top_p * row_total), 2, 1)
    total = tl.where(reach < limit, row_total, mass)  # or what the top-k leaves, summed there
    if num <= _FEW:
        token = token_of_few(
            candidates[3], candidates[4], num, top, scale, top_k, top_p, total, u, seed, index, noisy, GUMBEL, PURPOSE
        )
    else:
        if num <= LISTED:
            token = token_of_listed(
                candidates[3], candidates[4], num, top, scale, top_k, top_p, total, u, seed, index, noisy, LISTED,
                GUMBEL, PURPOSE,
            )  # fmt: skip
        else:
            token = token_of_many(
                candidates, place, top, scale, reach, num_listed, num, top_k, top_p, total, u, seed, index, noisy,
                R // 2, FLAGS, GUMBEL, PURPOSE,
            )  # fmt: skip
    return token


@triton.jit
def _bound(distance, rank):  # type: ignore[no-untyped-def]
    """A little over the ``rank``-th smallest of non-negative float bits, by their upper 16 bits, two at a time."""
    upper = distance >> 15
    found = tl.full((), 0, tl.int32)
    for digit in tl.static_range(7, -1, -1):
        step = 1 << (2 * digit)
        # Three counts of at most 2**20 in one sum.
        one = (upper < found + step).to(tl.int64)
        two = (upper < found + 2 * step).to(tl.int64)
        three = (upper < found + 3 * step).to(tl.int64)
        counts = tl.sum(one + (two << 21) + (three << 42), axis=0)
        under = ((counts & 0x1FFFFF) < rank).to(tl.int32)
        under += (((counts >> 21) & 0x1FFFFF) < rank).to(tl.int32)
        under += ((counts >> 42) < rank).to(tl.int32)
        found += under * step
    return tl.minimum((found << 15) | 0x7FFF, _FINITE)
