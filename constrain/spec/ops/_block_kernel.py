"""The kernels of ``block.py``, behind ``row_stats_kernel``."""

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

_ACCEPT, _RECOVER = tl.constexpr(1), tl.constexpr(2)  # of Purpose; a draw is 0


@triton.jit  # type: ignore[untyped-decorator]
def chain_kernel(  # type: ignore[no-untyped-def]
    num_drafts_ptr,  # [B]
    cu_num_drafts_ptr,  # [B]
    ratios_ptr,  # [N] float64
    scales_ptr,  # [N] float64, out
    PDL: tl.constexpr,
):
    """The scale of each row: min(1, scale of the row before * p / q of the draft token between them), from 1 on."""
    if PDL:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    request = tl.program_id(0).to(tl.int64)
    num_drafts = tl.load(num_drafts_ptr + request)
    first_row = tl.load(cu_num_drafts_ptr + request) - num_drafts + request
    scale = tl.full((), 1.0, tl.float64)
    tl.store(scales_ptr + first_row, scale)
    for place in range(0, num_drafts):
        scale = tl.minimum(scale * tl.load(ratios_ptr + first_row + place), 1.0)
        tl.store(scales_ptr + first_row + place + 1, scale)


@triton.jit(do_not_specialize=COUNTS)  # type: ignore[untyped-decorator]
def block_residual_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V]
    logits_stride,
    draft_ptr,  # [M, V]
    draft_stride,
    draft_ids_ptr,  # [M]
    num_drafts_ptr,  # [B]
    cu_num_drafts_ptr,  # [B]
    row_requests_ptr,  # [N]
    maxima_ptr,  # [2, N]
    totals_ptr,  # [2, N]
    scales_ptr,  # [N]
    sums_ptr,  # [N, num_blocks] float32, out
    vocab_size,
    num_rows,
    num_chunks,
    num_blocks,
    DRAFT_KIND: tl.constexpr,
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    PDL: tl.constexpr,
):
    """Block sums of (scale * p - q)+ of every row, and of p for bonus rows."""
    if PDL:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    program = tl.program_id(0)
    row = (program // num_chunks).to(tl.int64)
    chunk = program % num_chunks
    request = tl.load(row_requests_ptr + row)
    has_draft = row - request < tl.load(cu_num_drafts_ptr + request)
    draft_id = tl.load(draft_ids_ptr + row - request, mask=has_draft, other=-1)
    draft_maximum = 0.0
    draft_total = 1.0
    if DRAFT_KIND == 2:
        draft_maximum = tl.load(maxima_ptr + num_rows + row)
        draft_total = tl.load(totals_ptr + num_rows + row).to(tl.float32)
        draft_total = tl.where(draft_total > 0, draft_total, 1.0)
    blocks = chunk * TILE + tl.arange(0, TILE)
    weights = residual_weights(
        logits_ptr + row * logits_stride, draft_ptr + (row - request) * draft_stride,
        tile_offsets(chunk, TILE, BLOCK), vocab_size, tl.load(maxima_ptr + row),
        tl.load(totals_ptr + row).to(tl.float32), draft_maximum, draft_total, draft_id,
        tl.where(has_draft, tl.load(scales_ptr + row).to(tl.float32), 1.0), tl.where(has_draft, vocab_size, 0),
        DRAFT_KIND,
    )  # fmt: skip
    sums = tl.sum(tl.sum(by_block(weights, TILE), axis=0), axis=1)
    tl.store(sums_ptr + row * num_blocks + blocks, sums, mask=blocks < num_blocks)


@triton.jit(do_not_specialize=COUNTS)  # type: ignore[untyped-decorator]
def block_choose_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V]
    logits_stride,
    draft_ptr,  # [M, V]
    draft_stride,
    draft_ids_ptr,  # [M]
    num_drafts_ptr,  # [B]
    cu_num_drafts_ptr,  # [B]
    seeds_ptr,  # [B]
    output_indices_ptr,  # [B]
    maxima_ptr,  # [2, N]
    totals_ptr,  # [2, N]
    scales_ptr,  # [N]
    sums_ptr,  # [N, num_blocks]
    row_tickets_ptr,  # [N] int32, set to zeros
    tokens_ptr,  # [B, max_drafts + 1] int64, out
    num_accepted_ptr,  # [B] int64, out
    vocab_size,
    num_rows,
    num_blocks,
    max_drafts,
    DRAFT_KIND: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_BLOCKS: tl.constexpr,
    WIDTH: tl.constexpr,
    PDL: tl.constexpr,
):
    """How far the draft is accepted, and the token behind it."""
    if PDL:
        tl.extra.cuda.gdc_wait()
    request = tl.program_id(0).to(tl.int64)
    num_drafts = tl.load(num_drafts_ptr + request)
    first_draft = tl.load(cu_num_drafts_ptr + request) - num_drafts
    first_row = first_draft + request
    seed = tl.load(seeds_ptr + request)
    first_index = tl.load(output_indices_ptr + request)
    every = tl.arange(0, NUM_BLOCKS)
    known = every < num_blocks
    place = num_drafts * 0
    for length in range(1, num_drafts + 1):
        row = first_row + length
        scale = tl.load(scales_ptr + row)
        chance = scale
        if length < num_drafts:
            sums = tl.load(sums_ptr + row * num_blocks + every, mask=known, other=0.0).to(tl.float64)
            rest = tl.sum(sums, axis=0) / tl.load(totals_ptr + row)
            chance = tl.where(scale >= 1, scale, rest / (rest + 1 - scale))
        u = uniform53(seed, first_index + length - 1, tl.full((), _ACCEPT, tl.int32))
        place = tl.where(u < chance, length, place)
    row = first_row + place
    has_draft = place < num_drafts
    draft_width = tl.where(has_draft, vocab_size, 0)
    sums = tl.load(sums_ptr + row * num_blocks + every, mask=known, other=0.0).to(tl.float64)
    scale = tl.where(has_draft, tl.load(scales_ptr + row).to(tl.float32), 1.0)
    maximum = tl.load(maxima_ptr + row)
    total = tl.load(totals_ptr + row).to(tl.float32)
    draft_id = tl.load(draft_ids_ptr + first_draft + place, mask=has_draft, other=-1)
    draft_maximum = 0.0
    draft_total = 1.0
    if DRAFT_KIND == 2:
        draft_maximum = tl.load(maxima_ptr + num_rows + row)
        draft_total = tl.load(totals_ptr + num_rows + row).to(tl.float32)
        draft_total = tl.where(draft_total > 0, draft_total, 1.0)
    logits_row = logits_ptr + row * logits_stride
    draft_row = draft_ptr + (first_draft + place) * draft_stride
    if tl.sum(sums, axis=0) == 0:
        # p <= q everywhere but for rounding: any token of the target will do.
        draft_width = tl.where(place < 0, vocab_size, 0)
        scale = tl.full((), 1.0, tl.float32)
        for each in range(0, num_blocks):
            offsets = each * BLOCK + tl.arange(0, BLOCK)
            weights = residual_weights(
                logits_row, draft_row, offsets, vocab_size, maximum, total, draft_maximum, draft_total, draft_id,
                scale, draft_width, DRAFT_KIND,
            )  # fmt: skip
            sums = tl.where(every == each, tl.sum(weights, axis=0).to(tl.float64), sums)
    u = uniform53(seed, first_index + place, tl.where(has_draft, _RECOVER, 0))
    target = u * tl.sum(sums, axis=0)
    block, before = pick_block(sums, target, NUM_BLOCKS)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    weights = residual_weights(
        logits_row, draft_row, offsets, vocab_size, maximum, total, draft_maximum, draft_total, draft_id, scale,
        draft_width, DRAFT_KIND,
    )  # fmt: skip
    token = pick_token(weights, offsets, before, target)
    write_tokens(
        tokens_ptr + request * (max_drafts + 1), num_accepted_ptr + request, draft_ids_ptr + first_draft, place, token,
        max_drafts, WIDTH,
    )  # fmt: skip
    # As they were found, for the next call.
    rows = tl.arange(0, WIDTH)
    tl.store(row_tickets_ptr + first_row + rows, 0, mask=rows <= num_drafts)
