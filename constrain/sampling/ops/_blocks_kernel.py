"""The first pass of ``fused.py``: the maximum, and where wanted the weight, of every sub-block of a row."""

import triton
import triton.language as tl

from constrain.sampling.ops._tile_kernel import PAGES_OF_SUB, load_tile, place_of
from constrain.sampling.ops.pages import PAGE

_PAGES = tl.constexpr(PAGES_OF_SUB)
_SUB = tl.constexpr(PAGES_OF_SUB * PAGE)


@triton.jit  # type: ignore[untyped-decorator]
def blocks_kernel(  # type: ignore[no-untyped-def]
    source,  # (logits, row stride, bitmask, row stride, vocab_size)
    slots_ptr,  # [N] int64
    temperature_ptr,  # [S]
    maxima_ptr,  # [N, pitch]: of the logits before temperature
    sums_ptr,  # [N, pitch]: of exp((logit - the maximum of the sub-block) / temperature)
    num_subs,
    pitch,  # row stride of maxima and sums
    tiles,  # of a program
    FLAGS: tl.constexpr,  # of load_tile
    SUMS: tl.constexpr,
    R: tl.constexpr,  # sub-blocks of a tile
    PDL: tl.constexpr,
):
    """Every sub-block, without bias and penalties."""
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    scale = _scale(temperature_ptr, slot, SUMS)
    place = place_of(row, slot, slot, None, FLAGS)
    begin = tl.program_id(1) * tiles * R
    for start in range(begin, tl.minimum(begin + tiles * R, num_subs), R):
        sub = start + tl.arange(0, R)
        values, _ = load_tile(source, None, place, sub, FLAGS)
        _store(values, sub, sub < num_subs, maxima_ptr + row * pitch, sums_ptr + row * pitch, scale, SUMS, False)


@triton.jit  # type: ignore[untyped-decorator]
def touched_kernel(  # type: ignore[no-untyped-def]
    source,
    adjust,  # (drafts, *Adjustments.tile_arguments)
    slots_ptr,
    offsets_ptr,
    temperature_ptr,
    bias_numbers_ptr,  # which page of the vocabulary each page of the pool is
    count_numbers_ptr,
    maxima_ptr,
    sums_ptr,
    num_subs,
    pitch,
    FLAGS: tl.constexpr,
    SUMS: tl.constexpr,
    R: tl.constexpr,
    PDL: tl.constexpr,
):
    """The sub-blocks that bias and penalties touch, over what ``blocks_kernel`` left there.

    Two pages of one sub-block make two programs store the same. Only the stores wait for ``blocks_kernel``.
    """
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    place = place_of(row, slot, tl.load(offsets_ptr + row), adjust, FLAGS)
    scale = _scale(temperature_ptr, slot, SUMS)
    if PDL:
        tl.extra.cuda.gdc_launch_dependents()
    first = tl.program_id(1) * R
    step = tl.num_programs(1) * R
    maxima_ptr += row * pitch
    sums_ptr += row * pitch
    if FLAGS & 2:
        base = tl.load(adjust[2] + slot)
        used = tl.load(adjust[3] + slot)
        for start in range(first, used, step):
            page = start + tl.arange(0, R)
            sub = tl.load(bias_numbers_ptr + base + page, mask=page < used, other=num_subs * _PAGES) // _PAGES
            values, _ = load_tile(source, adjust, place, sub, FLAGS)
            _store(values, sub, sub < num_subs, maxima_ptr, sums_ptr, scale, SUMS, PDL)
    if FLAGS & 4:
        base = tl.load(adjust[6] + slot)
        used = tl.load(adjust[7] + slot)
        for start in range(first, used, step):
            page = start + tl.arange(0, R)
            sub = tl.load(count_numbers_ptr + base + page, mask=page < used, other=num_subs * _PAGES) // _PAGES
            values, _ = load_tile(source, adjust, place, sub, FLAGS)
            _store(values, sub, sub < num_subs, maxima_ptr, sums_ptr, scale, SUMS, PDL)
        for start in range(first, place[2], step):  # the drafts before this row count as output
            before = start + 1 + tl.arange(0, R)
            draft = tl.load(adjust[0] + row - before, mask=before <= place[2], other=-1)
            inside = (draft >= 0) & (draft < source[4])
            sub = tl.where(inside, draft // _SUB, num_subs).to(tl.int32)
            values, _ = load_tile(source, adjust, place, sub, FLAGS)
            _store(values, sub, sub < num_subs, maxima_ptr, sums_ptr, scale, SUMS, PDL)
    if PDL:
        tl.extra.cuda.gdc_wait()  # also where nothing was stored: what follows waits for this kernel alone


@triton.jit  # type: ignore[untyped-decorator]
def _scale(temperature_ptr, slot, SUMS: tl.constexpr):  # type: ignore[no-untyped-def]
    scale = 0.0
    if SUMS:
        temperature = tl.load(temperature_ptr + slot)
        scale = tl.where(temperature < 1e-5, 0.0, 1.4426950408889634 / temperature)
    return scale


@triton.jit  # type: ignore[untyped-decorator]
def _store(  # type: ignore[no-untyped-def]
    values, sub, inside, maxima_ptr, sums_ptr, scale, SUMS: tl.constexpr, WAIT: tl.constexpr
):
    maximum = tl.max(tl.max(values, axis=2), axis=1)
    if SUMS:
        finite = tl.where(maximum == float("-inf"), 0.0, maximum)
        weights = tl.exp2((values - finite[:, None, None]) * scale)
        total = tl.sum(tl.sum(weights, axis=2), axis=1)
    if WAIT:
        tl.extra.cuda.gdc_wait()
    tl.store(maxima_ptr + sub, maximum, mask=inside)
    if SUMS:
        tl.store(sums_ptr + sub, total, mask=inside)
