"""A kernel that does nothing but ``adjust_tile``."""

import triton
import triton.language as tl

from constrain.sampling.ops._adjust_kernel import adjust_tile

BLOCK = 4096
_BLOCK = tl.constexpr(BLOCK)


@triton.jit
def tiles_kernel(
    logits_ptr, logits_stride, result_ptr, result_stride, width, slots_ptr, offsets_ptr, drafts_ptr,
    bias_table_ptr, bias_base_ptr, bias_used_ptr, bias_cells_ptr,
    count_table_ptr, count_base_ptr, count_used_ptr, count_cells_ptr,
    repetition_ptr, presence_ptr, frequency_ptr, num_pages,
    HAS_BIAS: tl.constexpr, HAS_PENALTIES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * _BLOCK
    tokens = first + tl.arange(0, _BLOCK)
    values = tl.load(logits_ptr + row * logits_stride + tokens, mask=tokens < width, other=float("-inf"))
    values = adjust_tile(
        values, first, row, tl.load(slots_ptr + row), tl.load(offsets_ptr + row), drafts_ptr,
        bias_table_ptr, bias_base_ptr, bias_used_ptr, bias_cells_ptr,
        count_table_ptr, count_base_ptr, count_used_ptr, count_cells_ptr,
        repetition_ptr, presence_ptr, frequency_ptr, num_pages, _BLOCK, HAS_BIAS, HAS_PENALTIES,
    )  # fmt: skip
    tl.store(result_ptr + row * result_stride + tokens, values, mask=tokens < width)
