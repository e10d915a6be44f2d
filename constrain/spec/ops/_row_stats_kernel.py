"""The kernel of ``row_stats.py``. The last program of a row to end does what needs the whole row."""

import triton
import triton.language as tl

from constrain.spec.ops._device import by_block, row_total, tile_offsets, uniform53

BLOCK = 512
"""Tokens whose weights are added in float32; across blocks the sums are float64."""
STATS_SHAPES = ((16, 8), (16, 8), (8, 4))
"""Blocks and warps of a program, for each kind of draft."""
COUNTS = ["num_rows", "num_chunks", "num_blocks", "max_drafts"]
"""Arguments that change from step to step: no compile for each."""

_ACCEPT = tl.constexpr(1)  # of Purpose


@triton.jit(do_not_specialize=COUNTS)  # type: ignore[untyped-decorator]
def row_stats_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V]
    logits_stride,
    draft_ptr,  # [M, V]; not read where DRAFT_KIND is 0
    draft_stride,
    draft_ids_ptr,  # [M]
    num_drafts_ptr,  # [B]
    rows_ptr,  # [N], in the order of their places
    requests_ptr,  # [N], of rows_ptr
    places_ptr,  # [N], of rows_ptr
    seeds_ptr,  # [B]
    output_indices_ptr,  # [B]
    blocks_ptr,  # [N, 2 or 4, num_blocks] float32, out: maxima and sums of the target's blocks, and of the draft's
    maxima_ptr,  # [2, N] float32, out; with VERDICT not of bonus rows
    totals_ptr,  # [2, N] float64, out, likewise
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
    UNIFORM: tl.constexpr,  # all drafts are equally long: nothing is to be looked up before the logits are read
    TILE: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_BLOCKS: tl.constexpr,  # a power of two >= num_blocks
    PDL: tl.constexpr,
):
    """Maximum and sum of weights of each block and row, and whether the row's draft token is accepted.

    Programs run roughly in the order of their ids, and ids go by the place in the draft: rows behind a token that has
    already been refused are not read. Whether one is read all the same changes nothing.
    """
    if PDL:
        # Only then: so all that was written before this kernel is there for the next one, even before it waits.
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()
    program = tl.program_id(0)
    item = program // num_chunks
    chunk = program % num_chunks
    if UNIFORM:
        batch = num_rows // (max_drafts + 1)
        place = (item // batch).to(tl.int64)
        request = (item % batch).to(tl.int64)
        row = request * (max_drafts + 1) + place
        num_drafts = max_drafts
    else:
        row = tl.load(rows_ptr + item)
        request = tl.load(requests_ptr + item)
        place = tl.load(places_ptr + item)
        num_drafts = tl.load(num_drafts_ptr + request)
    # The first rows of drafts have nothing to wait for.
    refused = tl.load(refused_ptr + request, mask=VERDICT and place > 0, other=0, volatile=True)
    if refused > max_drafts + 1 - place:
        return
    has_draft = place < num_drafts
    offsets = tile_offsets(chunk, TILE, BLOCK)
    blocks = chunk * TILE + tl.arange(0, TILE)
    x = tl.load(logits_ptr + row * logits_stride + offsets, mask=offsets < vocab_size, other=float("-inf"))
    kinds: tl.constexpr = 4 if DRAFT_KIND == 2 else 2
    base = blocks_ptr + row * kinds * num_blocks
    if DRAFT_KIND == 2:
        live = offsets < tl.where(has_draft, vocab_size, 0)
        y = tl.load(draft_ptr + (row - request) * draft_stride + offsets, mask=live, other=float("-inf"))
        _store_blocks(base + 2 * num_blocks, by_block(y.to(tl.float32), TILE), blocks, num_blocks)
    _store_blocks(base, by_block(x.to(tl.float32), TILE), blocks, num_blocks)
    ends_row = False
    if not VERDICT or has_draft:
        tl.debug_barrier()
        ends_row = tl.atomic_add(tickets_ptr + row, 1, sem="acq_rel") == num_chunks - 1
    if ends_row:
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
                tl.atomic_max(refused_ptr + request, refusal.to(tl.int32), sem="relaxed")
            else:
                tl.store(ratios_ptr + row, tl.where(q > 0, p / q, 0.0))


@triton.jit
def _store_blocks(base, x, blocks, num_blocks):  # type: ignore[no-untyped-def]
    maxima = tl.max(tl.max(x, axis=0), axis=1)
    finite = tl.where(maxima == float("-inf"), 0.0, maxima)
    sums = tl.sum(tl.sum(tl.exp(x - finite[None, :, None]), axis=0), axis=1)
    tl.store(base + blocks, maxima, mask=blocks < num_blocks)
    tl.store(base + num_blocks + blocks, sums, mask=blocks < num_blocks)
