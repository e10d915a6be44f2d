"""The second pass of ``fused.py``: from the maxima of a row to its token, one program a row.

Whatever the filters, the survivors of a row are a prefix of its tokens in the order (value descending, id ascending).
Only sub-blocks whose maximum can reach into that prefix are loaded again. Distances are maximum - value, in float32 and
compared by their bits: rounding keeps their order, so a bound on the distance never cuts through a prefix.
"""

import triton
import triton.language as tl

from constrain.sampling.ops._few_kernel import FEW, token_of_few
from constrain.sampling.ops._listed_kernel import token_of_listed
from constrain.sampling.ops._many_kernel import token_of_many
from constrain.sampling.ops._reach_kernel import reach_of_mass, reach_of_rank
from constrain.sampling.ops._search_kernel import append, ballot, bits, elected, first_or_last
from constrain.sampling.ops._tile_kernel import SUB, load_tile, place_of, uniform

_SUB = tl.constexpr(SUB)
_FINITE = tl.constexpr(0x7F7FFFFF)  # the bits of the largest float
_NONE = tl.constexpr(0x7FFFFFFF)
_FEW = tl.constexpr(FEW)


@triton.jit  # type: ignore[untyped-decorator]
def finish_kernel(  # type: ignore[no-untyped-def]
    source,  # as in the first pass
    adjust,
    rows,  # (slots, offsets, output_indices)
    table,  # (temperature, top_k, top_p, min_p, seed, gumbel)
    maxima_ptr,  # [N, pitch]
    sums_ptr,
    subs_ptr,  # scratch: [N, pitch] int32, the sub-blocks of candidates
    pairs_ptr,  # scratch: [N, LISTED] int64, candidates in the order of their ids
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
    place = place_of(row, slot, tl.load(rows[1] + row), adjust, FLAGS)
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
                scale = 1.4426950408889634 / temperature  # log2(e): exp2((value - top) * scale) is a weight
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
                    hit = before + masses > target
                    lowest, start = tl.reduce((ballot(hit, masses > 0, column), before), 1, _of_the_lower)
                    lowest, start = tl.reduce((lowest, start), 0, _of_the_lower)
                    best = elected(lowest)
                    values, tokens = load_tile(source, adjust, place, best + tl.arange(0, 1), FLAGS)
                    flat = tl.reshape(values, (_SUB,))
                    inner = tl.exp2((flat - top) * scale)
                    reached = start + tl.cumsum(inner.to(tl.float64), axis=0)
                    ids = best * _SUB + tl.arange(0, _SUB)
                    token = first_or_last(reached > target, inner > 0, ids)
                else:
                    if CUT or GUMBEL:
                        candidates = (source, adjust, subs_ptr + row * pitch, pairs_ptr + row * LISTED, num_subs)
                        weights = tl.full((), 0.0, tl.float32)
                        if SUMS:
                            weights = tl.where(maxima == float("-inf"), 0.0, sums * tl.exp2((maxima - top) * scale))
                        token = _among_survivors(
                            candidates, place, maxima, groups, weights, top, temperature, top_k, top_p, min_p, total, u,
                            seed, index, noisy, SUBS, LISTED, R, FLAGS, SUMS, GUMBEL, PURPOSE,
                        )  # fmt: skip
    tl.store(output_ptr + row, token.to(tl.int64))
    tl.store(output_ptr + tl.num_programs(0) + row, status.to(tl.int64))


@triton.jit
def _of_the_lower(number, carried, other, other_carried):  # type: ignore[no-untyped-def]
    return tl.minimum(number, other), tl.where(number <= other, carried, other_carried)


@triton.jit  # type: ignore[untyped-decorator]
def _among_survivors(  # type: ignore[no-untyped-def]
    candidates,  # (source, adjust, sub-blocks, pairs, num_subs)
    place,
    maxima,  # [SUBS / 4, 4]
    groups,  # [SUBS / 4], their maxima
    masses,  # [SUBS / 4, 4] of the sub-blocks where SUMS
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
    SUMS: tl.constexpr,
    GUMBEL: tl.constexpr,
    PURPOSE: tl.constexpr,
):
    num_subs = candidates[4]
    num_groups = (num_subs + 3) // 4
    scale = 1.4426950408889634 / temperature
    column = tl.arange(0, SUBS // 4)[:, None] * 4 + tl.arange(0, 4)[None, :]
    distance = bits(top - maxima)
    limit = tl.full((), _FINITE, tl.int32)
    if min_p > 0.0:
        limit = tl.minimum(limit, bits(tl.abs(tl.log(min_p)) * temperature))
    by_mass = (top_k == 0) & (top_p < 1.0) & (min_p == 0.0)
    goal = top_p * row_total
    reach = limit
    if (top_k > 0) & (top_k <= num_subs // 2):
        # The k-th largest of the groups' maxima, or of the sub-blocks', bounds the k-th largest value.
        if top_k <= num_groups // 2:
            reach = tl.minimum(limit, reach_of_rank(bits(top - groups), top_k))
        else:
            reach = tl.minimum(limit, reach_of_rank(tl.reshape(distance, (SUBS,)), top_k))
    num_listed = 0
    num = tl.full((), _NONE, tl.int32)
    mass = row_total
    # A guess first, since few tokens of a sub-block lie near its maximum; then all others; then no bound at all.
    others = 16.0
    searching = True
    while searching:
        if SUMS:  # noqa: SIM102 - a constant decides before a number does
            if by_mass:
                reach = reach_of_mass(
                    tl.reshape(maxima, (SUBS,)), tl.reshape(masses, (SUBS,)), top, scale, goal, others
                )
        chosen = distance <= reach
        ones = chosen.to(tl.int32)
        rows_of_four = tl.sum(ones, axis=1)
        ends = tl.cumsum(rows_of_four, axis=0)
        slots = (ends - rows_of_four)[:, None] + tl.cumsum(ones, axis=1) - ones
        # Atomics stay with the threads that hold the elements; stores would move all of them first.
        tl.atomic_xchg(candidates[2] + slots, column, mask=chosen, sem="relaxed", scope="cta")
        num_listed = tl.max(ends, axis=0)
        tl.debug_barrier()
        searching = False
        # Where nothing bounds the candidates, there are too many to list.
        if (reach < _FINITE) | (candidates[0][4] <= LISTED):
            num = 0
            subs_mass = tl.zeros((R,), tl.float64)
            for start in range(0, num_listed, R):
                position = start + tl.arange(0, R)
                sub = tl.load(candidates[2] + position, mask=position < num_listed, other=num_subs)
                values, tokens = load_tile(candidates[0], candidates[1], place, sub, FLAGS)
                kept = bits(top - values) <= reach
                if (top_k == 0) | (reach == limit):
                    weights = tl.where(kept, tl.exp2((values - top) * scale), 0.0)
                    subs_mass += tl.sum(tl.sum(weights, axis=1), axis=1).to(tl.float64)
                num += append(candidates[3], kept, values, tokens, num, LISTED)
            tl.debug_barrier()
            mass = tl.sum(subs_mass, axis=0)
            if by_mass & (reach < limit) & (mass < goal):
                searching = True
                reach = tl.where(others > 16.0, limit, reach)
                others = 63.0 + (others > 16.0) * 1e30
    total = tl.where(reach < limit, row_total, mass)  # or what the top-k leaves, summed there
    if num <= _FEW:
        token = token_of_few(
            candidates[3], num, top, scale, top_k, top_p, total, u, seed, index, noisy, GUMBEL, PURPOSE
        )
    else:
        if num <= LISTED:
            token = token_of_listed(
                candidates[3], num, top, scale, top_k, top_p, total, u, seed, index, noisy, LISTED, GUMBEL, PURPOSE
            )
        else:
            near = (top - maxima) * scale < 64.0
            number = tl.sum(tl.sum(near.to(tl.float32), axis=1), axis=0)
            spread = tl.sum(tl.sum(tl.where(near, top - maxima, 0.0), axis=1), axis=0) / number
            token = token_of_many(
                candidates, place, top, scale, spread, reach, num_listed, num, top_k, top_p, total, u, seed, index,
                noisy, LISTED, R, FLAGS, GUMBEL, PURPOSE,
            )  # fmt: skip
    return token
