"""The kernels of ``adjust.py``, in a file of their own so that triton is imported by the first launch only."""

import triton
import triton.language as tl

from constrain.sampling.ops.pages import PAGE

_PAGE = tl.constexpr(PAGE)


@triton.jit  # type: ignore[untyped-decorator]
def adjust_tile(  # type: ignore[no-untyped-def]
    values,  # [BLOCK] float32: the logits of the tokens first, first + 1, ...; lanes past V come back as they were
    first,  # the first token of the tile, a multiple of 16
    row,
    slot,  # of the row
    offset,  # of the row
    drafts_ptr,  # [N]; those of the rows before this one count as output, as many as the offset says
    bias_table_ptr,  # Pages of float32
    bias_base_ptr,
    bias_used_ptr,
    bias_cells_ptr,
    count_table_ptr,  # Pages of int32: twice the count in the output, and 1 for a token of the prompt
    count_base_ptr,
    count_used_ptr,
    count_cells_ptr,
    repetition_ptr,  # [S] float32
    presence_ptr,
    frequency_ptr,
    num_pages,  # P, the width of both tables
    BLOCK: tl.constexpr,  # a multiple of 16
    HAS_BIAS: tl.constexpr,
    HAS_PENALTIES: tl.constexpr,
):
    """``values`` after logit bias and penalties; a tile that holds nothing of its slot costs a look at the table."""
    if HAS_BIAS:  # noqa: SIM102 - a constant decides before a load does
        if tl.load(bias_used_ptr + slot) > 0:
            base = tl.load(bias_base_ptr + slot)
            place = _places(bias_table_ptr, slot, first, num_pages, BLOCK)
            if tl.max(place, axis=0) > 0:
                values += _cells(bias_cells_ptr, base, place, BLOCK)
    if HAS_PENALTIES:
        repetition = tl.load(repetition_ptr + slot)
        presence = tl.load(presence_ptr + slot)
        frequency = tl.load(frequency_ptr + slot)
        base = tl.load(count_base_ptr + slot)
        if (repetition != 1.0) | (presence != 0.0) | (frequency != 0.0):
            place = _places(count_table_ptr, slot, first, num_pages, BLOCK)
            near = 0
            for before in range(1, offset.to(tl.int32) + 1):
                draft = tl.load(drafts_ptr + row - before)
                near += ((draft >= first) & (draft < first + BLOCK)).to(tl.int32)
            if tl.max(place, axis=0) + near > 0:
                cells = _cells(count_cells_ptr, base, place, BLOCK)
                if near > 0:
                    cells = _add_drafts(cells, first + tl.arange(0, BLOCK), row, offset, drafts_ptr)
                values = penalised(values, cells, repetition, presence, frequency)
    return values


@triton.jit
def penalised(values, cells, repetition, presence, frequency):  # type: ignore[no-untyped-def]
    """Float32 values after the penalties that their cells call for.

    Few instructions, since tiles hold many more tokens than they adjust: a product with the reciprocal instead of a
    division, and a count below 2**23 as the last bits of a float. Fused where it is, so that every kernel rounds alike.
    """
    factor = tl.where(values > 0, tl.div_rn(1.0, repetition), repetition)
    values = values * tl.where(cells != 0, factor, 1.0)
    count = ((cells >> 1) | 0x4B000000).to(tl.float32, bitcast=True) - 8388608.0
    values = tl.fma(count, -frequency, values)
    return values - tl.where(count > 0, presence, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _places(table_ptr, slot, first, num_pages, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    page = first // _PAGE + tl.arange(0, BLOCK // _PAGE)
    row_ptr = table_ptr + slot.to(tl.int64) * num_pages
    return tl.load(row_ptr + page, mask=page < num_pages, other=0).to(tl.int32)


@triton.jit  # type: ignore[untyped-decorator]
def _cells(cells_ptr, base, place, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    index = (base + place - 1).to(tl.int64) * _PAGE
    lanes = index[:, None] + tl.arange(0, _PAGE)[None, :]
    return tl.reshape(tl.load(cells_ptr + lanes, mask=(place > 0)[:, None], other=0), (BLOCK,))


@triton.jit
def _add_drafts(cells, tokens, row, offset, drafts_ptr):  # type: ignore[no-untyped-def]
    for before in range(1, offset.to(tl.int32) + 1):
        draft = tl.load(drafts_ptr + row - before).to(tl.int32)
        cells += 2 * (tokens == draft).to(tl.int32)
    return cells


@triton.jit  # type: ignore[untyped-decorator]
def adjust_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V] float32, any row stride
    logits_stride,
    vocab_size,
    slots_ptr,
    offsets_ptr,
    drafts_ptr,
    table_ptr,  # the pages of the bias where IS_BIAS, else those of the counts
    base_ptr,
    used_ptr,
    cells_ptr,
    numbers_ptr,
    repetition_ptr,
    presence_ptr,
    frequency_ptr,
    num_pages,
    IS_BIAS: tl.constexpr,
    PAGES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    used = tl.load(used_ptr + slot)
    base = tl.load(base_ptr + slot).to(tl.int64)
    offset = tl.load(offsets_ptr + row)
    repetition = tl.load(repetition_ptr + slot)
    presence = tl.load(presence_ptr + slot)
    frequency = tl.load(frequency_ptr + slot)
    if not IS_BIAS:  # noqa: SIM102
        if (repetition == 1.0) & (presence == 0.0) & (frequency == 0.0):
            return
    row_ptr = logits_ptr + row * logits_stride
    for start in range(tl.program_id(1) * PAGES, used, tl.num_programs(1) * PAGES):
        place = start + tl.arange(0, PAGES)
        number = tl.load(numbers_ptr + base + place, mask=place < used, other=num_pages)
        lanes = (base + place)[:, None] * _PAGE + tl.arange(0, _PAGE)[None, :]
        cells = tl.load(cells_ptr + lanes, mask=(place < used)[:, None], other=0)
        tokens = number[:, None] * _PAGE + tl.arange(0, _PAGE)[None, :]
        if not IS_BIAS:
            cells = _add_drafts(cells, tokens, row, offset, drafts_ptr)
        touched = (cells != 0) & (tokens < vocab_size)
        values = tl.load(row_ptr + tokens, mask=touched, other=0.0)
        if IS_BIAS:
            values += cells
        else:
            values = penalised(values, cells, repetition, presence, frequency)
        tl.store(row_ptr + tokens, values, mask=touched)
    if not IS_BIAS:  # noqa: SIM102
        if tl.program_id(1) == 0:  # drafts on pages that the slot does not have
            for before in range(1, offset + 1):
                draft = tl.load(drafts_ptr + row - before)
                page_ptr = table_ptr + slot * num_pages + draft // _PAGE
                inside = (draft >= 0) & (draft < vocab_size)
                fresh = inside & (tl.load(page_ptr, mask=inside, other=1) == 0)
                cell = 0
                for other in range(1, offset + 1):
                    same = tl.load(drafts_ptr + row - other) == draft
                    cell += 2 * same.to(tl.int32)
                    fresh = fresh & ((other >= before) | (same == 0))  # a token is adjusted once
                value = tl.load(row_ptr + draft, mask=fresh, other=0.0)
                tl.store(row_ptr + draft, penalised(value, cell, repetition, presence, frequency), mask=fresh)
