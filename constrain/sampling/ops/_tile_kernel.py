"""What every pass of the fused sampler does to the logits that it loads, and the random numbers it uses."""

import triton
import triton.language as tl

from constrain.sampling.ops._adjust_kernel import _add_drafts as add_drafts
from constrain.sampling.ops._adjust_kernel import penalised
from constrain.sampling.ops.pages import PAGE
from constrain.sampling.uniform import GUMBEL_TAG

SUB = 64
"""Tokens of a sub-block, whose maximum and sum the first pass keeps."""
PAGES_OF_SUB = SUB // PAGE
_PAGE = tl.constexpr(PAGE)
_PAGES = tl.constexpr(PAGES_OF_SUB)
_GUMBEL_TAG = tl.constexpr(GUMBEL_TAG)


@triton.jit  # type: ignore[untyped-decorator]
def place_of(row, slot, offset, adjust, FLAGS: tl.constexpr):  # type: ignore[no-untyped-def]
    """(row, slot, offset, bias used, bias base, count base, repetition, presence, frequency), for ``load_tile``.

    What the slot asks for is loaded here, once and early, and not tile by tile.
    """
    bias_used = 0
    bias_base = 0
    count_base = 0
    repetition = 1.0
    presence = 0.0
    frequency = 0.0
    if FLAGS & 2:
        bias_used = tl.load(adjust[3] + slot)
        bias_base = tl.load(adjust[2] + slot)
    if FLAGS & 4:
        count_base = tl.load(adjust[6] + slot)
        repetition = tl.load(adjust[9] + slot)
        presence = tl.load(adjust[10] + slot)
        frequency = tl.load(adjust[11] + slot)
    return row, slot, offset, bias_used, bias_base, count_base, repetition, presence, frequency


@triton.jit  # type: ignore[untyped-decorator]
def load_tile(  # type: ignore[no-untyped-def]
    source,  # (logits, row stride, bitmask, row stride, vocab_size)
    adjust,  # (drafts, *Adjustments.tile_arguments), or None
    place,  # of place_of, the row in int64
    sub,  # [R] int32: which sub-blocks
    FLAGS: tl.constexpr,  # 1: there is a mask; 2: logit bias; 4: penalties; 8: few tiles, so wait for nothing
):
    """(values, tokens), [R, SUB / 16, 16] each: masked and adjusted logits in float32.

    -inf where a token is forbidden or past the vocabulary; +inf where an allowed one is NaN or +inf.
    """
    row = place[0]
    slot = place[1]
    page = sub[:, None] * _PAGES + tl.arange(0, _PAGES)[None, :]
    tokens = page[:, :, None] * _PAGE + tl.arange(0, _PAGE)[None, None, :]
    wanted = tokens < source[4]
    if FLAGS & 1:
        words = tl.load(source[2] + row * source[3] + (page >> 1), mask=page * _PAGE < source[4], other=0)
        halves = (words >> ((page & 1) * _PAGE)) & 0xFFFF
        allowed = ((halves[:, :, None] >> tl.arange(0, _PAGE)[None, None, :]) & 1) != 0
        if not FLAGS & 8:
            # Whole pages are loaded or skipped, so that loads stay wide; forbidden tokens of a loaded page go below.
            wanted = wanted & (halves != 0)[:, :, None]
    values = tl.load(source[0] + row * source[1] + tokens, mask=wanted, other=float("-inf")).to(tl.float32)
    if FLAGS & 2:  # noqa: SIM102 - a constant decides before a load does
        if place[3] > 0:
            values += _cells(adjust[1], place[4], adjust[4], slot, page, adjust[12])
    if FLAGS & 4:  # noqa: SIM102
        if (place[6] != 1.0) | (place[7] != 0.0) | (place[8] != 0.0):
            cells = _cells(adjust[5], place[5], adjust[8], slot, page, adjust[12])
            cells = add_drafts(cells, tokens, row, place[2], adjust[0])
            if FLAGS & 8:
                values = penalised(values, cells, place[6], place[7], place[8])
            else:
                if tl.max(tl.max(tl.max(cells, axis=2), axis=1), axis=0) > 0:
                    values = penalised(values, cells, place[6], place[7], place[8])
    if FLAGS & 1:
        values = tl.where(allowed, values, float("-inf"))
    return tl.where(values < float("inf"), values, float("inf")), tokens


@triton.jit
def _cells(table_ptr, base, cells_ptr, slot, page, num_pages):  # type: ignore[no-untyped-def]
    place = tl.load(table_ptr + slot.to(tl.int64) * num_pages + page, mask=page < num_pages, other=0).to(tl.int32)
    index = (base + place - 1).to(tl.int64) * _PAGE
    lanes = index[:, :, None] + tl.arange(0, _PAGE)[None, None, :]
    return tl.load(cells_ptr + lanes, mask=(place > 0)[:, :, None], other=0)


@triton.jit
def philox(c0, c1, c2, c3, seed):  # type: ignore[no-untyped-def]
    """Ten rounds of Philox4x32 on uint32 counters, keyed by an int64 seed; the arithmetic of ``uniform.philox4x32``.

    Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3" (2011), whose multipliers and key steps these are.
    """
    k0 = (seed & 0xFFFFFFFF).to(tl.uint32)
    k1 = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32)
    m0 = tl.full((), 0xD2511F53, tl.uint32)
    m1 = tl.full((), 0xCD9E8D57, tl.uint32)
    w0 = tl.full((), 0x9E3779B9, tl.uint32)
    w1 = tl.full((), 0xBB67AE85, tl.uint32)
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(m0, c0), m0 * c0
        high1, low1 = tl.umulhi(m1, c2), m1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += w0
        k1 += w1
    return c0, c1, c2, c3


@triton.jit  # type: ignore[untyped-decorator]
def uniform(seed, index, PURPOSE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The number of ``uniform.uniforms``, bit for bit; a float64 scalar."""
    zero = tl.full((), 0, tl.uint32)
    high, low, _, _ = philox(
        (index & 0xFFFFFFFF).to(tl.uint32), ((index >> 32) & 0xFFFFFFFF).to(tl.uint32), zero + PURPOSE, zero, seed
    )
    bits53 = (high.to(tl.int64) << 21) | (low.to(tl.int64) >> 11)
    return bits53.to(tl.float64) * 1.1102230246251565e-16  # 2**-53


@triton.jit  # type: ignore[untyped-decorator]
def gumbel(seed, index, tokens, PURPOSE: tl.constexpr):  # type: ignore[no-untyped-def]
    """The noise of ``uniform.gumbel_noise``, float32, of the shape of ``tokens``."""
    zero = tokens.to(tl.uint32) * 0
    w0, w1, w2, w3 = philox(
        (index & 0xFFFFFFFF).to(tl.uint32) + zero,
        ((index >> 32) & 0xFFFFFFFF).to(tl.uint32) + zero,
        zero + (PURPOSE + _GUMBEL_TAG),
        (tokens >> 2).to(tl.uint32),
        seed,
    )
    lane = tokens & 3
    word = tl.where(lane == 0, w0, tl.where(lane == 1, w1, tl.where(lane == 2, w2, w3)))
    v = ((word >> 8).to(tl.int32).to(tl.float32) + 0.5) * 5.9604644775390625e-08  # 2**-24
    v = tl.minimum(v, 0.99999994)  # the last float32 under 1
    # -log(1 - v): the series keeps the small values apart, whose noise is large.
    small = v * (1.0 + v * (0.5 + v * (0.33333334 + v * 0.25)))
    return -tl.log(tl.where(v < 0.01, small, -tl.log(1.0 - v)))
