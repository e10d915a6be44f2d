"""The kernel of ``bitmask.py``, in a file of its own so that triton is imported by the first launch only."""

import triton
import triton.language as tl

BLOCK_SIZE = 4096
"""Tokens of one program, a multiple of 32."""


@triton.jit  # type: ignore[untyped-decorator]
def apply_bitmask_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V], any row stride
    logits_stride,
    bitmask_ptr,  # [N, W] int32
    bitmask_stride,
    output_ptr,  # logits_ptr itself where IN_PLACE
    output_stride,
    vocab_size,
    IN_PLACE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1)
    # Words are loaded once, as [BLOCK_SIZE / 32], and spread over their bits in registers.
    word_index = block * (BLOCK_SIZE // 32) + tl.arange(0, BLOCK_SIZE // 32)
    words = tl.load(bitmask_ptr + row * bitmask_stride + word_index, mask=word_index * 32 < vocab_size, other=-1)
    if IN_PLACE and tl.min((words == -1).to(tl.int32), axis=0) == 1:
        return
    bits = (words[:, None] >> tl.arange(0, 32)[None, :]) & 1
    allowed = tl.reshape(bits, (BLOCK_SIZE,)) != 0
    offsets = block * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    inside = offsets < vocab_size
    if IN_PLACE:
        tl.store(logits_ptr + row * logits_stride + offsets, float("-inf"), mask=inside & (allowed == 0))
    else:
        values = tl.load(logits_ptr + row * logits_stride + offsets, mask=inside & allowed, other=float("-inf"))
        tl.store(output_ptr + row * output_stride + offsets, values, mask=inside)
