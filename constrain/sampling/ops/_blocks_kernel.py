"""The first pass of ``fused.py``: the maximum, and where wanted the weight, of every sub-block of a row."""

import triton
import triton.language as tl

from constrain.sampling.ops._tile_kernel import load_tile


@triton.jit  # type: ignore[untyped-decorator]
def blocks_kernel(  # type: ignore[no-untyped-def]
    source,  # (logits, row stride, bitmask, row stride, vocab_size)
    adjust,  # (drafts, *Adjustments.tile_arguments), or None
    slots_ptr,  # [N] int64
    offsets_ptr,
    temperature_ptr,  # [S]
    maxima_ptr,  # [N, pitch]: of the logits before temperature
    sums_ptr,  # [N, pitch]: of exp((logit - the maximum of the sub-block) / temperature)
    num_subs,
    pitch,  # row stride of maxima and sums
    tiles,  # of a program
    FLAGS: tl.constexpr,  # of load_tile
    SUMS: tl.constexpr,
    R: tl.constexpr,  # sub-blocks of a tile
):
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots_ptr + row)
    offset = tl.load(offsets_ptr + row)
    scale = 0.0
    if SUMS:
        temperature = tl.load(temperature_ptr + slot)
        scale = tl.where(temperature < 1e-5, 0.0, 1.4426950408889634 / temperature)
    begin = tl.program_id(1) * tiles * R
    for start in range(begin, tl.minimum(begin + tiles * R, num_subs), R):
        sub = start + tl.arange(0, R)
        values, _ = load_tile(source, adjust, (row, slot, offset), sub, FLAGS)
        maximum = tl.max(tl.max(values, axis=2), axis=1)
        tl.store(maxima_ptr + row * pitch + sub, maximum, mask=sub < num_subs)
        if SUMS:
            finite = tl.where(maximum == float("-inf"), 0.0, maximum)
            weights = tl.exp2((values - finite[:, None, None]) * scale)
            total = tl.sum(tl.sum(weights, axis=2), axis=1)
            tl.store(sums_ptr + row * pitch + sub, total, mask=sub < num_subs)
