"""The kernels of ``rejection.py``. The last program of a row to end does what needs the whole row."""

import triton
import triton.language as tl

from constrain.spec.ops._device import (
    pick_block,
    pick_token,
    residual_weights,
    row_total,
    uniform53,
    write_tokens,
)

BLOCK = 512
"""Tokens whose weights are added in float32; across blocks the sums are float64."""
STATS_BLOCKS, STATS_WARPS = 8, 2
"""Blocks and warps of a program of the first pass, and of the second."""
RECOVER_BLOCKS, RECOVER_WARPS = 8, 8

_ACCEPT, _RECOVER = tl.constexpr(1), tl.constexpr(2)  # of Purpose; a draw is 0
_COUNTS = ["num_rows", "num_chunks", "num_blocks", "max_drafts"]  # change from step to step: no compile for each


@triton.jit(do_not_specialize=_COUNTS)  # type: ignore[untyped-decorator]
def row_stats_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V]
    logits_stride,
    draft_ptr,  # [M, V]; not read where DRAFT_KIND is 0
    draft_stride,
    draft_ids_ptr,  # [M]
    num_drafts_ptr,  # [B]
    cu_num_drafts_ptr,  # [B]
    rows_by_position_ptr,  # [N]
    row_requests_ptr,  # [N]
    seeds_ptr,  # [B]
    output_indices_ptr,  # [B]
    blocks_ptr,  # [N, 2 or 4, num_blocks] float32, out: maxima and sums of the target's blocks, and of the draft's
    maxima_ptr,  # [2, N] float32, out
    totals_ptr,  # [2, N] float64, out
    ratios_ptr,  # [N] float64, out where not VERDICT: p / q of the draft token behind the row
    tickets_ptr,  # [N] int32, zeros
    refused_ptr,  # [B] int32, zeros: max_drafts + 1 - the first refused place, or 0
    vocab_size,
    num_rows,
    num_chunks,
    num_blocks,
    max_drafts,
    DRAFT_KIND: tl.constexpr,
    VERDICT: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_BLOCKS: tl.constexpr,  # a power of two >= num_blocks
):
    """Maximum and sum of weights of each block and row, and whether the row's draft token is accepted.

    Programs run roughly in the order of their ids, and ids go by the place in the draft: rows behind a token that has
    already been refused are not read. Whether one is read all the same changes nothing.
    """
    program = tl.program_id(0)
    chunk = program % num_chunks
    row = tl.load(rows_by_position_ptr + program // num_chunks)
    request = tl.load(row_requests_ptr + row)
    num_drafts = tl.load(num_drafts_ptr + request)
    place = row - (tl.load(cu_num_drafts_ptr + request) - num_drafts + request)
    refused = tl.load(refused_ptr + request, volatile=True)
    if VERDICT and refused > max_drafts + 1 - place:
        return
    has_draft = place < num_drafts
    blocks = chunk * TILE + tl.arange(0, TILE)
    offsets = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(logits_ptr + row * logits_stride + offsets, mask=offsets < vocab_size, other=float("-inf"))
    kinds: tl.constexpr = 4 if DRAFT_KIND == 2 else 2
    base = blocks_ptr + row * kinds * num_blocks
    if DRAFT_KIND == 2:
        live = offsets < tl.where(has_draft, vocab_size, 0)
        y = tl.load(draft_ptr + (row - request) * draft_stride + offsets, mask=live, other=float("-inf"))
        _store_blocks(base + 2 * num_blocks, y.to(tl.float32), blocks, num_blocks)
    _store_blocks(base, x.to(tl.float32), blocks, num_blocks)
    tl.debug_barrier()
    if tl.atomic_add(tickets_ptr + row, 1, sem="acq_rel") == num_chunks - 1:
        maximum, total = row_total(base, num_blocks, NUM_BLOCKS)
        tl.store(maxima_ptr + row, maximum)
        tl.store(totals_ptr + row, total)
        draft_maximum = 0.0
        draft_total = tl.full((), 1.0, tl.float64)
        if DRAFT_KIND == 2:
            draft_maximum, draft_total = row_total(base + 2 * num_blocks, num_blocks, NUM_BLOCKS)
            tl.store(maxima_ptr + num_rows + row, draft_maximum)
            tl.store(totals_ptr + num_rows + row, draft_total)
        if has_draft:
            draft_id = tl.load(draft_ids_ptr + row - request)
            known_id = (draft_id >= 0) & (draft_id < vocab_size)
            x_draft = tl.load(logits_ptr + row * logits_stride + draft_id, mask=known_id, other=float("-inf"))
            weight = tl.where(x_draft == float("-inf"), 0.0, tl.exp(x_draft.to(tl.float32) - maximum))
            p = tl.where(total > 0, weight.to(tl.float64) / total, 0.0)
            q = tl.full((), 1.0, tl.float64)
            draft_token = draft_ptr + (row - request) * draft_stride + draft_id
            if DRAFT_KIND == 1:
                q = tl.load(draft_token, mask=known_id, other=0.0).to(tl.float64)
            if DRAFT_KIND == 2:
                y_draft = tl.load(draft_token, mask=known_id, other=float("-inf")).to(tl.float32)
                y_weight = tl.where(y_draft == float("-inf"), 0.0, tl.exp(y_draft - draft_maximum))
                q = tl.where(draft_total > 0, y_weight.to(tl.float64) / draft_total, 0.0)
            if VERDICT:
                index = tl.load(output_indices_ptr + request) + place
                u = uniform53(tl.load(seeds_ptr + request), index, tl.full((), _ACCEPT, tl.int32))
                refusal = tl.where((q > 0) & (u * q < p), 0, max_drafts + 1 - place)  # NaN is refused
                tl.atomic_max(refused_ptr + request, refusal.to(tl.int32))
            else:
                tl.store(ratios_ptr + row, tl.where(q > 0, p / q, 0.0))


@triton.jit
def _store_blocks(base, x, blocks, num_blocks):  # type: ignore[no-untyped-def]
    maxima = tl.max(x, axis=1)
    finite = tl.where(maxima == float("-inf"), 0.0, maxima)
    sums = tl.sum(tl.exp(x - finite[:, None]), axis=1)
    tl.store(base + blocks, maxima, mask=blocks < num_blocks)
    tl.store(base + num_blocks + blocks, sums, mask=blocks < num_blocks)


@triton.jit(do_not_specialize=_COUNTS)  # type: ignore[untyped-decorator]
def recover_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V]
    logits_stride,
    draft_ptr,  # [M, V]
    draft_stride,
    draft_ids_ptr,  # [M]
    num_drafts_ptr,  # [B]
    cu_num_drafts_ptr,  # [B]
    seeds_ptr,  # [B]
    output_indices_ptr,  # [B]
    blocks_ptr,  # [N, 2 or 4, num_blocks]
    maxima_ptr,  # [2, N]
    totals_ptr,  # [2, N]
    row_tickets_ptr,  # [N] int32, set to zeros
    refused_ptr,  # [B] int32, set to zeros
    tickets_ptr,  # [B] int32, zeros before and behind
    sums_ptr,  # [B, num_blocks] float32; not used where DRAFT_KIND is 0
    tokens_ptr,  # [B, max_drafts + 1] int64, out
    num_accepted_ptr,  # [B] int64, out
    vocab_size,
    num_rows,
    num_chunks,
    num_blocks,
    max_drafts,
    DRAFT_KIND: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_BLOCKS: tl.constexpr,  # a power of two >= num_blocks
    WIDTH: tl.constexpr,  # a power of two > max_drafts
):
    """The token behind what was accepted: from (p - q)+ where a draft token was refused, else from the bonus row.

    Only the first needs the row once more, and only where q is more than one token.
    """
    program = tl.program_id(0)
    request = (program // num_chunks).to(tl.int64)
    chunk = program % num_chunks
    num_drafts = tl.load(num_drafts_ptr + request)
    first_draft = tl.load(cu_num_drafts_ptr + request) - num_drafts
    refused = tl.load(refused_ptr + request)
    place = tl.where(refused > 0, max_drafts + 1 - refused, num_drafts)
    has_draft = place < num_drafts
    row = first_draft + request + place
    maximum = tl.load(maxima_ptr + row)
    total = tl.load(totals_ptr + row).to(tl.float32)
    draft_id = tl.load(draft_ids_ptr + first_draft + place, mask=has_draft, other=-1)
    draft_width = tl.where(has_draft, vocab_size, 0)
    draft_maximum = 0.0
    draft_total = 1.0
    if DRAFT_KIND == 2:
        draft_maximum = tl.load(maxima_ptr + num_rows + row)
        draft_total = tl.load(totals_ptr + num_rows + row).to(tl.float32)
        draft_total = tl.where(draft_total > 0, draft_total, 1.0)  # of a bonus row it is 0
    logits_row = logits_ptr + row * logits_stride
    draft_row = draft_ptr + (first_draft + place) * draft_stride
    every = tl.arange(0, NUM_BLOCKS)
    known = every < num_blocks
    is_last = chunk == 0
    if DRAFT_KIND > 0 and has_draft:
        blocks = chunk * TILE + tl.arange(0, TILE)
        offsets = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        weights = residual_weights(
            logits_row, draft_row, offsets, vocab_size, maximum, total, draft_maximum, draft_total, draft_id, 1.0,
            draft_width, DRAFT_KIND,
        )  # fmt: skip
        tl.store(sums_ptr + request * num_blocks + blocks, tl.sum(weights, axis=1), mask=blocks < num_blocks)
        tl.debug_barrier()
        is_last = tl.atomic_add(tickets_ptr + request, 1, sem="acq_rel") == num_chunks - 1
    if is_last:
        kinds: tl.constexpr = 4 if DRAFT_KIND == 2 else 2
        base = blocks_ptr + row * kinds * num_blocks + every
        block_maxima = tl.load(base, mask=known, other=float("-inf"))
        scales = tl.where(block_maxima == float("-inf"), 0.0, tl.exp(block_maxima - maximum))
        sums = (tl.load(base + num_blocks, mask=known, other=0.0) * scales).to(tl.float64)
        u = uniform53(
            tl.load(seeds_ptr + request), tl.load(output_indices_ptr + request) + place,
            tl.where(has_draft, _RECOVER, 0),
        )  # fmt: skip
        if has_draft:
            plain = sums
            if DRAFT_KIND == 0:
                # Added anew without the draft token: what is left of its block can be much less than it.
                inside = (draft_id // BLOCK) * BLOCK + tl.arange(0, BLOCK)
                rest = residual_weights(
                    logits_row, draft_row, inside, vocab_size, maximum, total, draft_maximum, draft_total, draft_id,
                    1.0, draft_width, DRAFT_KIND,
                )  # fmt: skip
                sums = tl.where(every == draft_id // BLOCK, tl.sum(rest, axis=0).to(tl.float64), sums)
            else:
                residual = tl.load(sums_ptr + request * num_blocks + every, mask=known, other=0.0, cache_modifier=".cg")
                sums = residual.to(tl.float64)
            if tl.sum(sums, axis=0) == 0:
                # p <= q everywhere but for rounding: any token of the target will do.
                sums = plain
                draft_width = tl.where(place < 0, vocab_size, 0)
        target = u * tl.sum(sums, axis=0)
        block, before = pick_block(sums, target, NUM_BLOCKS)
        places = block * BLOCK + tl.arange(0, BLOCK)
        chosen = residual_weights(
            logits_row, draft_row, places, vocab_size, maximum, total, draft_maximum, draft_total, draft_id, 1.0,
            draft_width, DRAFT_KIND,
        )  # fmt: skip
        token = pick_token(chosen, places, before, target)
        write_tokens(
            tokens_ptr + request * (max_drafts + 1), num_accepted_ptr + request, draft_ids_ptr + first_draft, place,
            token, max_drafts, WIDTH,
        )  # fmt: skip
        # As they were found, for the next call.
        rows = tl.arange(0, WIDTH)
        tl.store(row_tickets_ptr + first_draft + request + rows, 0, mask=rows <= num_drafts)
        tl.store(refused_ptr + request, 0)
        tl.store(tickets_ptr + request, 0)
