"""What the kernels of this folder share, in Triton."""

import triton
import triton.language as tl

from constrain.sampling.ops._tile_kernel import philox

_LANES = tl.constexpr(128)


@triton.jit
def uniform53(seed, index, purpose):  # type: ignore[no-untyped-def]
    """``constrain.sampling.uniform.uniforms`` of one seed, of the shape of ``index`` and ``purpose``."""
    zero = (index * 0).to(tl.uint32)
    low, high = (index & 0xFFFFFFFF).to(tl.uint32), ((index >> 32) & 0xFFFFFFFF).to(tl.uint32)
    c0, c1, _, _ = philox(low, high, zero + purpose.to(tl.uint32), zero, seed)
    bits53 = (c0.to(tl.int64) << 21) | (c1.to(tl.int64) >> 11)
    return bits53.to(tl.float64) * 1.1102230246251565e-16  # 2**-53


@triton.jit  # type: ignore[untyped-decorator]
def tile_offsets(chunk, TILE: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    """The tokens of ``TILE`` blocks, [TILE * BLOCK / 128, 128]; ``by_block`` puts what is loaded there in order.

    Lines, which a warp loads at once, go by their place in a block and then by block, so that each warp has blocks of
    its own, and adds most of them up inside its threads (Triton deals lines out to warps in turn).
    """
    line = tl.arange(0, TILE * (BLOCK // _LANES))
    starts = (chunk * TILE + line % TILE) * BLOCK + (line // TILE) * _LANES
    return starts[:, None] + tl.arange(0, _LANES)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def by_block(values, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """[BLOCK / 128, TILE, 128]: to be reduced over axis 0, then over the last."""
    return tl.reshape(values, (values.shape[0] // TILE, TILE, _LANES))


@triton.jit  # type: ignore[untyped-decorator]
def residual_weights(  # type: ignore[no-untyped-def]
    logits_row,
    draft_row,
    offsets,
    vocab_size,
    maximum,
    total,
    draft_maximum,
    draft_total,
    draft_id,
    scale,
    draft_width,  # V, or 0 to leave the draft out
    DRAFT_KIND: tl.constexpr,  # 0 a certain token, 1 probabilities, 2 logits
):
    """max(scale * p - q, 0) times the sum of the target's weights, float32; without a draft just the weights."""
    inside = offsets < vocab_size
    live = offsets < draft_width
    x = tl.load(logits_row + offsets, mask=inside, other=float("-inf")).to(tl.float32)
    weights = tl.where(x == float("-inf"), 0.0, tl.exp(x - maximum))
    if DRAFT_KIND == 0:
        q = (live & (offsets == draft_id)).to(tl.float32)
    elif DRAFT_KIND == 1:
        q = tl.load(draft_row + offsets, mask=live, other=0.0).to(tl.float32)
    else:
        y = tl.load(draft_row + offsets, mask=live, other=float("-inf")).to(tl.float32)
        q = tl.where(y == float("-inf"), 0.0, tl.exp(y - draft_maximum)) / draft_total
    return tl.maximum(scale * weights - q * total, 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def row_total(base, num_blocks, NUM_BLOCKS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(maximum, sum of weights) of a row from those of its blocks, which other programs have just written."""
    blocks = tl.arange(0, NUM_BLOCKS)
    known = blocks < num_blocks
    maxima = tl.load(base + blocks, mask=known, other=float("-inf"), cache_modifier=".cg")
    sums = tl.load(base + num_blocks + blocks, mask=known, other=0.0, cache_modifier=".cg")
    maximum = tl.max(maxima, axis=0)
    finite = tl.where(maximum == float("-inf"), 0.0, maximum)
    return maximum, tl.sum((sums * tl.exp(maxima - finite)).to(tl.float64), axis=0)


@triton.jit  # type: ignore[untyped-decorator]
def pick_block(sums, target, NUM_BLOCKS: tl.constexpr):  # type: ignore[no-untyped-def]
    """The first block whose cumulated float64 sum exceeds ``target``, or the last with a weight; the sum before it."""
    blocks = tl.arange(0, NUM_BLOCKS)
    ends = tl.cumsum(sums, axis=0)
    first = tl.min(tl.where((ends > target) & (sums > 0), blocks, NUM_BLOCKS), axis=0)
    last = tl.max(tl.where(sums > 0, blocks, 0), axis=0)
    block = tl.where(first == NUM_BLOCKS, last, first)
    return block, tl.sum(tl.where(blocks < block, sums, 0.0), axis=0)


@triton.jit
def pick_token(weights, offsets, before, target):  # type: ignore[no-untyped-def]
    """The first token with a weight whose cumulated sum exceeds ``target``, or the last with a weight; -1 for none."""
    ends = before + tl.cumsum(weights.to(tl.float64), axis=0)
    first = tl.min(tl.where((ends > target) & (weights > 0), offsets, 2147483647), axis=0)
    last = tl.max(tl.where(weights > 0, offsets, -1), axis=0)
    return tl.where(first == 2147483647, last, first)


@triton.jit  # type: ignore[untyped-decorator]
def write_tokens(  # type: ignore[no-untyped-def]
    tokens_row, num_accepted_ptr, draft_ids, num_accepted, token, max_drafts, WIDTH: tl.constexpr
):
    """The accepted draft tokens, the token behind them, -1 behind that."""
    places = tl.arange(0, WIDTH)
    drafts = tl.load(draft_ids + places, mask=places < num_accepted, other=-1)
    tokens = tl.where(places < num_accepted, drafts, tl.where(places == num_accepted, token.to(tl.int64), -1))
    tl.store(tokens_row + places, tokens, mask=places <= max_drafts)
    tl.store(num_accepted_ptr, num_accepted.to(tl.int64))
