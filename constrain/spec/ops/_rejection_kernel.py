"""The kernels of ``rejection.py``. The last program of a row to end does what needs the whole row."""

import triton
import triton.language as tl

from constrain.spec.ops._device import pick_block, pick_token, residual_weights, uniform53, write_tokens

BLOCK = 512
"""Tokens whose weights are added in float32; across blocks the sums are float64."""
STATS_BLOCKS, STATS_WARPS = 8, 8
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
    partial_ptr,  # [N, 4, S] float32: maximum and sum of a chunk, of the target and of the draft
    maxima_ptr,  # [2, N] float32, out
    totals_ptr,  # [2, N] float64, out
    ratios_ptr,  # [N] float64, out where not VERDICT: p / q of the draft token behind the row
    tickets_ptr,  # [N] int32, zeros
    refused_ptr,  # [B] int32, zeros: max_drafts + 1 - the first refused place, or 0
    vocab_size,
    num_rows,
    num_chunks,
    max_drafts,
    DRAFT_KIND: tl.constexpr,
    VERDICT: tl.constexpr,
    CHUNK: tl.constexpr,
    NUM_CHUNKS: tl.constexpr,  # a power of two >= num_chunks
):
    """Maximum and sum of weights of each row, and whether its draft token is accepted.

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
    offsets = chunk * CHUNK + tl.arange(0, CHUNK)
    inside = offsets < vocab_size
    x = tl.load(logits_ptr + row * logits_stride + offsets, mask=inside, other=float("-inf")).to(tl.float32)
    if DRAFT_KIND == 2:
        draft_row = draft_ptr + (row - request) * draft_stride
        live = offsets < tl.where(has_draft, vocab_size, 0)
        y = tl.load(draft_row + offsets, mask=live, other=float("-inf")).to(tl.float32)
        y_maximum = tl.max(y, axis=0)
        y_sum = tl.sum(tl.exp(y - tl.where(y_maximum == float("-inf"), 0.0, y_maximum)), axis=0)
        tl.store(partial_ptr + (row * 4 + 2) * num_chunks + chunk, y_maximum)
        tl.store(partial_ptr + (row * 4 + 3) * num_chunks + chunk, y_sum)
    x_maximum = tl.max(x, axis=0)
    x_sum = tl.sum(tl.exp(x - tl.where(x_maximum == float("-inf"), 0.0, x_maximum)), axis=0)
    tl.store(partial_ptr + (row * 4) * num_chunks + chunk, x_maximum)
    tl.store(partial_ptr + (row * 4 + 1) * num_chunks + chunk, x_sum)
    tl.debug_barrier()
    if tl.atomic_add(tickets_ptr + row, 1, sem="acq_rel") == num_chunks - 1:
        chunks = tl.arange(0, NUM_CHUNKS)
        known = chunks < num_chunks
        base = partial_ptr + row * 4 * num_chunks + chunks
        maxima = tl.load(base, mask=known, other=float("-inf"), cache_modifier=".cg")
        sums = tl.load(base + num_chunks, mask=known, other=0.0, cache_modifier=".cg")
        maximum = tl.max(maxima, axis=0)
        safe = tl.where(maximum == float("-inf"), 0.0, maximum)
        total = tl.sum(sums.to(tl.float64) * tl.exp(maxima - safe).to(tl.float64), axis=0)
        tl.store(maxima_ptr + row, maximum)
        tl.store(totals_ptr + row, total)
        draft_maximum = 0.0
        draft_total = tl.full((), 1.0, tl.float64)
        if DRAFT_KIND == 2:
            maxima = tl.load(base + 2 * num_chunks, mask=known, other=float("-inf"), cache_modifier=".cg")
            sums = tl.load(base + 3 * num_chunks, mask=known, other=0.0, cache_modifier=".cg")
            draft_maximum = tl.max(maxima, axis=0)
            safe = tl.where(draft_maximum == float("-inf"), 0.0, draft_maximum)
            draft_total = tl.sum(sums.to(tl.float64) * tl.exp(maxima - safe).to(tl.float64), axis=0)
            tl.store(maxima_ptr + num_rows + row, draft_maximum)
            tl.store(totals_ptr + num_rows + row, draft_total)
        if has_draft:
            draft_id = tl.load(draft_ids_ptr + row - request)
            known_id = (draft_id >= 0) & (draft_id < vocab_size)
            x_draft = tl.load(logits_ptr + row * logits_stride + draft_id, mask=known_id, other=float("-inf"))
            weight = tl.where(x_draft == float("-inf"), 0.0, tl.exp(x_draft.to(tl.float32) - maximum))
            p = tl.where(total > 0, weight.to(tl.float64) / total, 0.0)
            q = tl.full((), 1.0, tl.float64)
            if DRAFT_KIND == 1:
                q = tl.load(draft_ptr + (row - request) * draft_stride + draft_id, mask=known_id, other=0.0).to(
                    tl.float64
                )
            if DRAFT_KIND == 2:
                y_draft = tl.load(
                    draft_ptr + (row - request) * draft_stride + draft_id, mask=known_id, other=float("-inf")
                ).to(tl.float32)
                y_weight = tl.where(y_draft == float("-inf"), 0.0, tl.exp(y_draft - draft_maximum))
                q = tl.where(draft_total > 0, y_weight.to(tl.float64) / draft_total, 0.0)
            if VERDICT:
                u = uniform53(
                    tl.load(seeds_ptr + request),
                    tl.load(output_indices_ptr + request) + place,
                    tl.full((), _ACCEPT, tl.int64),
                )
                refusal = tl.where((q > 0) & (u * q < p), 0, max_drafts + 1 - place)  # NaN is refused
                tl.atomic_max(refused_ptr + request, refusal.to(tl.int32))
            else:
                tl.store(ratios_ptr + row, tl.where(q > 0, p / q, 0.0))


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
    maxima_ptr,  # [2, N]
    totals_ptr,  # [2, N]
    refused_ptr,  # [B]
    sums_ptr,  # [B, num_blocks] float32
    tickets_ptr,  # [B] int32, zeros
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
    """The token behind what was accepted: from (p - q)+ where a draft token was refused, else from the bonus row."""
    program = tl.program_id(0)
    request = (program // num_chunks).to(tl.int64)
    chunk = program % num_chunks
    num_drafts = tl.load(num_drafts_ptr + request)
    first_draft = tl.load(cu_num_drafts_ptr + request) - num_drafts
    refused = tl.load(refused_ptr + request)
    place = tl.where(refused > 0, max_drafts + 1 - refused, num_drafts)
    has_draft = place < num_drafts
    draft_width = tl.where(has_draft, vocab_size, 0)
    row = first_draft + request + place
    maximum = tl.load(maxima_ptr + row)
    total = tl.load(totals_ptr + row)
    draft_id = tl.load(draft_ids_ptr + first_draft + place, mask=has_draft, other=-1)
    draft_maximum = 0.0
    draft_total = 1.0
    if DRAFT_KIND == 2:
        draft_maximum = tl.load(maxima_ptr + num_rows + row)
        draft_total = tl.load(totals_ptr + num_rows + row).to(tl.float32)
        draft_total = tl.where(draft_total > 0, draft_total, 1.0)  # of a bonus row it is 0
    logits_row = logits_ptr + row * logits_stride
    draft_row = draft_ptr + (first_draft + place) * draft_stride
    blocks = chunk * TILE + tl.arange(0, TILE)
    offsets = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    weights = residual_weights(
        logits_row, draft_row, offsets, vocab_size, maximum, total.to(tl.float32), draft_maximum, draft_total,
        draft_id, 1.0, draft_width, DRAFT_KIND,
    )  # fmt: skip
    tl.store(sums_ptr + request * num_blocks + blocks, tl.sum(weights, axis=1), mask=blocks < num_blocks)
    tl.debug_barrier()
    if tl.atomic_add(tickets_ptr + request, 1, sem="acq_rel") == num_chunks - 1:
        every = tl.arange(0, NUM_BLOCKS)
        base = sums_ptr + request * num_blocks + every
        sums = tl.load(base, mask=every < num_blocks, other=0.0, cache_modifier=".cg").to(tl.float64)
        if tl.sum(sums, axis=0) == 0:
            # p <= q everywhere but for rounding: any token of the target will do.
            draft_width = tl.where(place < 0, vocab_size, 0)
            for each in range(0, num_chunks):
                blocks = each * TILE + tl.arange(0, TILE)
                offsets = blocks[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
                weights = residual_weights(
                    logits_row, draft_row, offsets, vocab_size, maximum, total.to(tl.float32), draft_maximum,
                    draft_total, draft_id, 1.0, draft_width, DRAFT_KIND,
                )  # fmt: skip
                tl.store(sums_ptr + request * num_blocks + blocks, tl.sum(weights, axis=1), mask=blocks < num_blocks)
            tl.debug_barrier()
            sums = tl.load(base, mask=every < num_blocks, other=0.0, cache_modifier=".cg").to(tl.float64)
        purpose = tl.where(has_draft, _RECOVER, 0)
        u = uniform53(tl.load(seeds_ptr + request), tl.load(output_indices_ptr + request) + place, purpose)
        target = u * tl.sum(sums, axis=0)
        block, before = pick_block(sums, target, NUM_BLOCKS)
        offsets = block * BLOCK + tl.arange(0, BLOCK)
        weights = residual_weights(
            logits_row, draft_row, offsets, vocab_size, maximum, total.to(tl.float32), draft_maximum, draft_total,
            draft_id, 1.0, draft_width, DRAFT_KIND,
        )  # fmt: skip
        token = pick_token(weights, offsets, before, target)
        write_tokens(
            tokens_ptr + request * (max_drafts + 1), num_accepted_ptr + request, draft_ids_ptr + first_draft, place,
            token, max_drafts, WIDTH,
        )  # fmt: skip
