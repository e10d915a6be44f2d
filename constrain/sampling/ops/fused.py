"""From raw logits to tokens: mask, bias, penalties, temperature, min-p, top-k, top-p and draw at once."""

from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.adjust import Adjustments
from constrain.sampling.ops.fused_cpu import sample_rows_cpu
from constrain.sampling.rows import DeviceRows
from constrain.sampling.table import Features, SlotTable
from constrain.sampling.uniform import Purpose


def sample_rows(
    logits: torch.Tensor,  # [N, V or wider] float32, float16 or bfloat16, any row stride; never changed
    table: SlotTable,
    rows: DeviceRows,  # N
    features: Features,
    *,
    bitmask: torch.Tensor | None = None,  # [N, W] int32, bit set = token allowed; 32 * W >= V
    adjustments: Adjustments | None = None,
    vocab_size: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(token, ``RowStatus``) of each row, int64 [N] each, on the device of ``logits``.

    In float32 and in this order: mask; logit bias; penalties; a temperature under 1e-5 takes the highest logit, the
    lowest id on ties; else temperature; min-p (at least that share of the highest probability); top-k by (logit
    descending, id ascending); top-p, the smallest prefix in that order of at least that mass, never empty; a draw by
    inverting the cumulated weights in id order, or by Gumbel noise over what is left. Ids from ``vocab_size`` on
    (default: the width of the logits) are never drawn. The token of a row whose status is not OK means nothing.

    A row's token depends on its own logits, mask and slot, and on its output index: not on the other rows, nor on how
    many there are. Nothing is read back from the device, and on a GPU two launches do it all, three with bias or
    penalties, which a CUDA graph can capture. Raises ``InvalidInputError`` where shapes, dtypes or devices do not fit.
    """
    vocab_size = logits.shape[-1] if vocab_size is None else vocab_size
    _check(logits, table, rows, bitmask, vocab_size)
    if logits.device.type == "cpu":
        return sample_rows_cpu(logits, table, rows, bitmask, adjustments, vocab_size)
    if logits.stride(1) != 1:
        logits = logits.contiguous()
    if bitmask is not None and bitmask.stride(1) != 1:
        bitmask = bitmask.contiguous()
    return _sample_rows_triton(logits, table, rows, features, bitmask, adjustments, vocab_size)


_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _check(
    logits: torch.Tensor, table: SlotTable, rows: DeviceRows, bitmask: torch.Tensor | None, vocab_size: int
) -> None:
    if logits.ndim != 2 or logits.dtype not in _DTYPES or len(logits) != len(rows.slots):
        raise InvalidInputError(
            f"logits are {logits.dtype} {tuple(logits.shape)}; want float32, float16 or bfloat16 "
            f"[{len(rows.slots)}, V], one row for each of the rows"
        )
    if not 0 < vocab_size <= logits.shape[1]:
        raise InvalidInputError(f"vocab_size={vocab_size}: want 1 to {logits.shape[1]}, the width of the logits")
    if not logits.device == table.temperature.device == rows.slots.device:
        raise InvalidInputError(
            f"logits on {logits.device}, table on {table.temperature.device} and rows on {rows.slots.device}; "
            "want one device"
        )
    if bitmask is None:
        return
    if bitmask.dtype != torch.int32 or bitmask.device != logits.device:
        raise InvalidInputError(f"bitmask is {bitmask.dtype} on {bitmask.device}; want int32 on {logits.device}")
    if bitmask.ndim != 2 or len(bitmask) != len(logits) or bitmask.shape[1] * 32 < vocab_size:
        raise InvalidInputError(
            f"bitmask {tuple(bitmask.shape)} does not cover logits {tuple(logits.shape)}; want a row of at least "
            f"{(vocab_size + 31) // 32} words for each"
        )


# Constants, never tuned at run time: which sums are rounded together, and so which token is drawn, depends on them.
_TILE, _WARPS = 32, 4  # sub-blocks and warps of a program of the first pass
_TOUCHED, _TOUCHED_PROGRAMS = 16, 16  # pages of a tile, and programs a row, of the pass over bias and penalties
_GATHER, _FINISH_WARPS = 64, 8  # of the second
_LISTED = 4096
"""Candidates that are listed; more are read from the logits again."""
_PROGRAMS = 132 * 32
"""Of the first pass, about; it changes which program sums what, never the sums."""


def _sample_rows_triton(
    logits: torch.Tensor,
    table: SlotTable,
    rows: DeviceRows,
    features: Features,
    bitmask: torch.Tensor | None,
    adjustments: Adjustments | None,
    vocab_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    from constrain.sampling.ops._blocks_kernel import blocks_kernel, touched_kernel
    from constrain.sampling.ops._finish_kernel import finish_kernel
    from constrain.sampling.ops._many_kernel import MAX_COUNTED
    from constrain.sampling.ops._tile_kernel import SUB

    if vocab_size > MAX_COUNTED * _GATHER * SUB:
        raise InvalidInputError(
            f"vocab_size={vocab_size}: the kernels take up to {MAX_COUNTED * _GATHER * SUB}; sample on the CPU"
        )

    num_rows, device = len(logits), logits.device
    output = torch.empty((2, num_rows), dtype=torch.int64, device=device)
    if not num_rows:
        return output[0], output[1]
    num_subs = -(-vocab_size // SUB)
    tiles = -(-num_subs // _TILE)
    splits = min(tiles, max(1, _PROGRAMS // num_rows))
    tiles_per_program = -(-tiles // splits)
    # What is left to decide by sums: rows without a top-k.
    sums = features.drawn and not features.all_top_k
    cut = features.drawn and (features.max_top_k > 0 or features.top_p or features.min_p)
    survivors = cut or (features.drawn and features.gumbel)
    # Scratch is aligned whatever the number of rows: the order of a sum may depend on how wide its loads are.
    pitch = -(-num_subs // 16) * 16
    statistics = torch.empty((2 if sums else 1, num_rows, pitch), dtype=torch.float32, device=device)
    subs = torch.empty((num_rows, pitch) if survivors else (1, 1), dtype=torch.int32, device=device)
    pairs = torch.empty((num_rows, _LISTED) if survivors else (1, 1), dtype=torch.int64, device=device)
    source = (
        logits,
        logits.stride(0),
        logits if bitmask is None else bitmask,
        0 if bitmask is None else bitmask.stride(0),
        vocab_size,
    )
    flags = int(bitmask is not None)
    adjust = None
    if adjustments is not None:
        flags += 2 * (adjustments.bias is not None) + 4 * (adjustments.counts is not None)
        adjust = (rows.drafts, *adjustments.tile_arguments)
    # A launch may begin while the one before it ends; each waits before it reads what that one wrote.
    pdl = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9
    options = {"launch_pdl": True} if pdl else {}
    first: Any = blocks_kernel
    first[(num_rows, -(-tiles // tiles_per_program))](
        source,
        rows.slots,
        table.temperature,
        statistics,
        statistics[-1],
        num_subs,
        pitch,
        tiles_per_program,
        FLAGS=flags & 1,
        SUMS=sums,
        R=_TILE,
        PDL=pdl,
        num_warps=_WARPS,
    )
    if adjustments is not None and flags > 1:
        numbers = [pages and pages.numbers for pages in (adjustments.bias, adjustments.counts)]
        between: Any = touched_kernel
        between[(num_rows, _TOUCHED_PROGRAMS)](
            source,
            adjust,
            rows.slots,
            rows.offsets,
            table.temperature,
            *numbers,
            statistics,
            statistics[-1],
            num_subs,
            pitch,
            FLAGS=flags,
            SUMS=sums,
            R=_TOUCHED,
            PDL=pdl,
            num_warps=_WARPS,
            **options,
        )
    second: Any = finish_kernel
    second[(num_rows,)](
        source,
        adjust,
        (rows.slots, rows.offsets, rows.output_indices),
        (table.temperature, table.top_k, table.top_p, table.min_p, table.seed, table.gumbel),
        statistics,
        statistics[-1],
        subs,
        pairs,
        output,
        num_subs,
        pitch,
        SUBS=max(64, 1 << (num_subs - 1).bit_length()),
        LISTED=_LISTED,
        R=_GATHER,
        FLAGS=flags + 8,
        DRAWN=features.drawn,
        CUT=cut,
        INVERSE=features.inverse,
        GUMBEL=features.gumbel,
        SUMS=sums,
        PURPOSE=int(Purpose.DRAW),
        PDL=pdl,
        num_warps=_FINISH_WARPS,
        maxnreg=128,
        **options,
    )
    return output[0], output[1]
