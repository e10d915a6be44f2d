"""The kernel of ``rejection.py``, behind ``row_stats_kernel``."""

import triton
import triton.language as tl

from constrain.spec.ops._device import (
    by_block,
    pick_block,
    pick_token,
    residual_weights,
    tile_offsets,
    uniform53,
    write_tokens,
)
from constrain.spec.ops._row_stats_kernel import COUNTS

RECOVER_BLOCKS, RECOVER_WARPS = 8, 4
"""Blocks and warps of a program that reads a refused row again."""

_RECOVER = tl.constexpr(2)  # of Purpose; a draw is 0


@triton.jit(do_not_specialize=COUNTS)  # type: ignore[untyped-decorator]
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
    PDL: tl.constexpr,
):
    """The token behind what was accepted: from (p - q)+ where a draft token was refused, else from the bonus row.

    Only the first needs the row once more, and only where q is more than one token.
    """
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    program = tl.program_id(0)
    request = (program // num_chunks).to(tl.int64)
    chunk = program % num_chunks
    num_drafts = tl.load(num_drafts_ptr + request)
    first_draft = tl.load(cu_num_drafts_ptr + request) - num_drafts
    # What does not depend on the first pass comes before it is waited for.
    places = tl.arange(0, WIDTH)
    drafts = tl.load(draft_ids_ptr + first_draft + places, mask=places < num_drafts, other=-1)
    index = tl.load(output_indices_ptr + request) + places
    uniforms = uniform53(tl.load(seeds_ptr + request), index, tl.where(places < num_drafts, _RECOVER, 0))
    if PDL:
        tl.extra.cuda.gdc_wait()
    refused = tl.load(refused_ptr + request)
    place = tl.where(refused > 0, max_drafts + 1 - refused, num_drafts)
    has_draft = place < num_drafts
    row = first_draft + request + place
    draft_id = tl.sum(tl.where(places == place, drafts, 0), axis=0)  # -1 of a bonus row
    draft_width = tl.where(has_draft, vocab_size, 0)
    logits_row = logits_ptr + row * logits_stride
    draft_row = draft_ptr + (first_draft + place) * draft_stride
    kinds: tl.constexpr = 4 if DRAFT_KIND == 2 else 2
    base = blocks_ptr + row * kinds * num_blocks
    draft_maximum = 0.0
    draft_total = 1.0
    is_last = chunk == 0
    if DRAFT_KIND > 0 and has_draft:
        maximum = tl.load(maxima_ptr + row)
        total = tl.load(totals_ptr + row).to(tl.float32)
        if DRAFT_KIND == 2:
            draft_maximum = tl.load(maxima_ptr + num_rows + row)
            draft_total = tl.load(totals_ptr + num_rows + row).to(tl.float32)
            draft_total = tl.where(draft_total > 0, draft_total, 1.0)
        blocks = chunk * TILE + tl.arange(0, TILE)
        weights = residual_weights(
            logits_row, draft_row, tile_offsets(chunk, TILE, BLOCK), vocab_size, maximum, total, draft_maximum,
            draft_total, draft_id, 1.0, draft_width, DRAFT_KIND,
        )  # fmt: skip
        residual = tl.sum(tl.sum(by_block(weights, TILE), axis=0), axis=1)
        tl.store(sums_ptr + request * num_blocks + blocks, residual, mask=blocks < num_blocks)
        tl.debug_barrier()
        is_last = tl.atomic_add(tickets_ptr + request, 1, sem="acq_rel") == num_chunks - 1
    if is_last:
        every = tl.arange(0, NUM_BLOCKS)
        known = every < num_blocks
        block_maxima = tl.load(base + every, mask=known, other=float("-inf"))
        block_sums = tl.load(base + num_blocks + every, mask=known, other=0.0)
        maximum = tl.max(block_maxima, axis=0)
        finite = tl.where(maximum == float("-inf"), 0.0, maximum)
        sums = (block_sums * tl.exp(block_maxima - finite)).to(tl.float64)
        total = tl.sum(sums, axis=0).to(tl.float32)
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
        target = tl.sum(tl.where(places == place, uniforms, 0.0), axis=0) * tl.sum(sums, axis=0)
        block, before = pick_block(sums, target, NUM_BLOCKS)
        inner = block * BLOCK + tl.arange(0, BLOCK)
        chosen = residual_weights(
            logits_row, draft_row, inner, vocab_size, maximum, total, draft_maximum, draft_total, draft_id, 1.0,
            draft_width, DRAFT_KIND,
        )  # fmt: skip
        token = pick_token(chosen, inner, before, target)
        write_tokens(
            tokens_ptr + request * (max_drafts + 1), num_accepted_ptr + request, draft_ids_ptr + first_draft, place,
            token, max_drafts, WIDTH,
        )  # fmt: skip
        # As they were found, for the next call.
        tl.store(row_tickets_ptr + first_draft + request + places, 0, mask=places <= num_drafts)
        tl.store(refused_ptr + request, 0)
        tl.store(tickets_ptr + request, 0)
