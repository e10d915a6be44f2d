"""The kernels of ``logprobs.py``, in a file of their own so that triton is imported by the first launch only."""

import triton
import triton.language as tl

BLOCK = 512
"""Tokens of a block, whose maximum, sum and count are kept."""
_BLOCK = tl.constexpr(BLOCK)


@triton.jit  # type: ignore[untyped-decorator]
def blocks_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,  # [N, V], any row stride
    logits_stride,
    vocab_size,
    bitmask_ptr,  # [N, W] int32, or None
    bitmask_stride,
    tokens_ptr,  # [N]
    tokens_stride,
    maximum_ptr,  # [N, V / 512] each
    sum_ptr,  # of exp(value - maximum of the block)
    count_ptr,  # values at or above the token's
    num_blocks,
    BLOCKS: tl.constexpr,  # of a program
):
    row = tl.program_id(0).to(tl.int64)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    tokens = block[:, None] * _BLOCK + tl.arange(0, _BLOCK)[None, :]
    wanted = tokens < vocab_size
    if bitmask_ptr is not None:
        word_index = tl.program_id(1) * (BLOCKS * _BLOCK // 32) + tl.arange(0, BLOCKS * _BLOCK // 32)
        words = tl.load(bitmask_ptr + row * bitmask_stride + word_index, mask=word_index * 32 < vocab_size, other=0)
        bits = (words[:, None] >> tl.arange(0, 32)[None, :]) & 1
        wanted = wanted & (tl.reshape(bits, (BLOCKS, _BLOCK)) != 0)
    row_ptr = logits_ptr + row * logits_stride
    token = tl.load(tokens_ptr + row * tokens_stride)
    own = _load(row_ptr, token, vocab_size, bitmask_ptr, row * bitmask_stride)
    values = tl.load(row_ptr + tokens, mask=wanted, other=float("-inf")).to(tl.float32)
    maximum = tl.max(values, axis=1)
    finite = tl.where(maximum == float("-inf"), 0.0, maximum)
    weights = tl.exp(values - finite[:, None])
    count = tl.sum(((values >= own) & (tokens < vocab_size)).to(tl.int32), axis=1)
    index = row * num_blocks + block
    tl.store(maximum_ptr + index, maximum, mask=block < num_blocks)
    tl.store(sum_ptr + index, tl.sum(weights, axis=1), mask=block < num_blocks)
    tl.store(count_ptr + index, count, mask=block < num_blocks)


@triton.jit  # type: ignore[untyped-decorator]
def rows_kernel(  # type: ignore[no-untyped-def]
    logits_ptr,
    logits_stride,
    vocab_size,
    bitmask_ptr,
    bitmask_stride,
    tokens_ptr,
    tokens_stride,
    maximum_ptr,
    sum_ptr,
    count_ptr,
    num_blocks,
    extra_ptr,  # [N, M] or None
    extra_stride,
    num_extra,  # M
    values_ptr,  # [N] float32
    ranks_ptr,  # [N] int64
    top_values_ptr,  # [N, n] float32
    top_ids_ptr,  # [N, n] int64
    extra_values_ptr,  # [N, M] float32
    top_n,
    AS_LOGITS: tl.constexpr,
    BLOCKS: tl.constexpr,  # the power of two from num_blocks on
    EXTRA: tl.constexpr,  # the power of two from M on
):
    row = tl.program_id(0).to(tl.int64)
    row_ptr = logits_ptr + row * logits_stride
    mask_row = row * bitmask_stride
    block = tl.arange(0, BLOCKS)
    inside = block < num_blocks
    head = tl.load(maximum_ptr + row * num_blocks + block, mask=inside, other=float("-inf"))
    sums = tl.load(sum_ptr + row * num_blocks + block, mask=inside, other=0.0)
    count = tl.load(count_ptr + row * num_blocks + block, mask=inside, other=0)
    log_total = tl.full([], 0.0, tl.float64) if AS_LOGITS else _log_total(head, sums)
    own = _load(row_ptr, tl.load(tokens_ptr + row * tokens_stride), vocab_size, bitmask_ptr, mask_row)
    tl.store(values_ptr + row, (own.to(tl.float64) - log_total).to(tl.float32))
    tl.store(ranks_ptr + row, tl.sum(count, axis=0).to(tl.int64))
    if extra_ptr is not None:
        lane = tl.arange(0, EXTRA)
        ids = tl.load(extra_ptr + row * extra_stride + lane, mask=lane < num_extra, other=-1)
        extra = _load(row_ptr, ids, vocab_size, bitmask_ptr, mask_row)
        extra = (extra.to(tl.float64) - log_total).to(tl.float32)
        tl.store(extra_values_ptr + row * num_extra + lane, extra, mask=lane < num_extra)
    # What is taken is a prefix of the order (value descending, id ascending): all else stands behind the last taken.
    # ``head`` is the first of each block that is left; its tie is won by the lowest block, which has the lowest ids.
    last_value, last_id = float("inf"), -1
    for place in range(top_n):
        best = tl.max(head, axis=0)
        chosen = tl.min(tl.where(head == best, block, BLOCKS), axis=0)
        chosen = tl.minimum(chosen, num_blocks - 1)  # a row of NaN has no head at all
        tokens = chosen * _BLOCK + tl.arange(0, _BLOCK)
        values = _load(row_ptr, tokens, vocab_size, bitmask_ptr, mask_row)
        left = (values < last_value) | ((values == last_value) & (tokens > last_id))
        last_id = tl.min(tl.where(left & (values == best), tokens, vocab_size - 1), axis=0)
        last_value = best
        left = (values < best) | ((values == best) & (tokens > last_id))
        head = tl.where(block == chosen, tl.max(tl.where(left, values, float("-inf")), axis=0), head)
        tl.store(top_values_ptr + row * top_n + place, (best.to(tl.float64) - log_total).to(tl.float32))
        tl.store(top_ids_ptr + row * top_n + place, last_id.to(tl.int64))


@triton.jit
def _log_total(maximum, sums):  # type: ignore[no-untyped-def]
    """log of the sum of exp over a row, float64; 0 for a row of -inf, whose values then stay -inf."""
    top = tl.max(maximum, axis=0)
    scale = tl.where(maximum == float("-inf"), 0.0, tl.exp((maximum - top).to(tl.float64)))
    total = tl.sum(sums.to(tl.float64) * scale, axis=0)
    return tl.where(top == float("-inf"), 0.0, top.to(tl.float64) + tl.log(total))


@triton.jit
def _load(row_ptr, tokens, vocab_size, bitmask_ptr, mask_row):  # type: ignore[no-untyped-def]
    """Float32 values of some tokens of a row: -inf for what is forbidden, or no token of the vocabulary."""
    wanted = (tokens >= 0) & (tokens < vocab_size)
    if bitmask_ptr is not None:
        words = tl.load(bitmask_ptr + mask_row + (tokens >> 5), mask=wanted, other=0)
        wanted = wanted & (((words >> (tokens & 31)) & 1) != 0)
    return tl.load(row_ptr + tokens, mask=wanted, other=float("-inf")).to(tl.float32)
