"""Logit bias and penalties."""

from dataclasses import dataclass
from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.pages import PAGE, Pages
from constrain.sampling.rows import DeviceRows


@dataclass(frozen=True, slots=True)
class Adjustments:
    """What the slots ask for, sparse, on the device of the logits."""

    bias: Pages | None  # float32, added first; None where no slot has one
    counts: Pages | None  # int32: twice the count in the output, and 1 for a token of the prompt; None: no penalties
    repetition: torch.Tensor  # [S] float32, > 0; 1 is none
    presence: torch.Tensor  # [S] float32; 0 is none
    frequency: torch.Tensor  # [S] float32; 0 is none

    @property
    def tile_arguments(self) -> tuple[torch.Tensor | int | None, ...]:
        """The arguments of ``adjust_tile`` from ``bias_table_ptr`` to ``num_pages``, in order.

        Its constants are ``HAS_BIAS = bias is not None`` and ``HAS_PENALTIES = counts is not None``.
        """
        none = (None, None, None, None)
        some = self.bias or self.counts
        return (
            *(self.bias.tile_arguments if self.bias else none),
            *(self.counts.tile_arguments if self.counts else none),
            *(self.repetition, self.presence, self.frequency),
            some.table.shape[1] if some else 0,
        )


def adjusted(
    logits: torch.Tensor,  # [N, V] float32
    adjustments: Adjustments,
    rows: DeviceRows,
) -> torch.Tensor:
    """The logits after bias and then penalties, in a new tensor."""
    return adjust_(logits.clone(), adjustments, rows)


def adjust_(
    logits: torch.Tensor,  # [N, V] float32, changed in place
    adjustments: Adjustments,
    rows: DeviceRows,
    *,
    bias: bool = True,
    penalties: bool = True,
) -> torch.Tensor:
    """Add the logit bias, then penalise, in place, only where a slot has something; returns ``logits``.

    The repetition penalty goes over prompt and output: a positive logit is divided by it (multiplied by its reciprocal
    in float32), another multiplied (Keskar et al., "CTRL", 2019). Then, over the output alone, a logit loses frequency
    times its count, and presence if it has one. A row behind drafts counts them as output: those of the rows before it,
    as many as its offset says.
    ``bias=False`` and ``penalties=False`` leave one half out, for what has to run between the two.
    Raises ``InvalidInputError`` where shape, dtype or device do not fit.
    """
    _check(logits, adjustments, rows)
    run = _adjust_triton if logits.device.type == "cuda" and logits.stride(1) == 1 else _adjust_torch
    if bias and adjustments.bias is not None:
        run(logits, adjustments, adjustments.bias, rows)
    if penalties and adjustments.counts is not None:
        run(logits, adjustments, adjustments.counts, rows)
    return logits


def _check(logits: torch.Tensor, adjustments: Adjustments, rows: DeviceRows) -> None:
    if logits.dtype != torch.float32 or logits.ndim != 2 or len(logits) != len(rows.slots):
        raise InvalidInputError(
            f"logits are {logits.dtype} {tuple(logits.shape)}; want float32 [{len(rows.slots)}, V], one row for each"
        )
    width = adjustments.tile_arguments[-1]
    if width not in (0, -(-logits.shape[1] // PAGE)):
        raise InvalidInputError(f"{logits.shape[1]} logits a row meet adjustments of {width} pages of {PAGE} tokens")
    if not logits.device == adjustments.repetition.device == rows.slots.device:
        raise InvalidInputError(
            f"logits on {logits.device}, adjustments on {adjustments.repetition.device} and rows on "
            f"{rows.slots.device}; want one device"
        )


def _adjust_torch(logits: torch.Tensor, adjustments: Adjustments, pages: Pages, rows: DeviceRows) -> None:
    row, token, cell = _entries(pages, rows.slots)
    if pages is adjustments.counts:
        row, token, cell = _with_drafts(row, token, cell, rows)
    values, slot = logits[row, token], rows.slots.index_select(0, row)
    logits[row, token] = (
        _penalised(values, cell, *(column.index_select(0, slot) for column in _columns(adjustments)))
        if pages is adjustments.counts
        else values + cell
    )


def _entries(pages: Pages, slots: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(row, token, cell) of every cell of every row that is not 0."""
    used = pages.used[slots].long()
    row = torch.repeat_interleave(used)
    place = torch.arange(len(row), device=row.device) - (used.cumsum(0) - used)[row]
    index = pages.base[slots[row]] + place
    cells = pages.cells.index_select(0, index).view(-1)  # some times faster than an index of tensors
    hit = cells.nonzero().squeeze(1)
    page = hit // PAGE
    token = pages.numbers.index_select(0, index.index_select(0, page)).long() * PAGE + hit % PAGE
    return row.index_select(0, page), token, cells.index_select(0, hit)


def _with_drafts(
    row: torch.Tensor, token: torch.Tensor, cell: torch.Tensor, rows: DeviceRows
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    drafted = torch.repeat_interleave(rows.offsets)  # each row as often as it stands behind a draft
    if not len(drafted):
        return row, token, cell
    before = torch.arange(len(drafted), device=row.device) - (rows.offsets.cumsum(0) - rows.offsets)[drafted] + 1
    draft = rows.drafts[drafted - before]
    drafted, draft = drafted[draft >= 0], draft[draft >= 0]
    width = int(torch.cat([token, draft]).max()) + 1 if len(token) + len(draft) else 1
    key, place = torch.unique(torch.cat([row * width + token, drafted * width + draft]), return_inverse=True)
    cells = torch.cat([cell, torch.full_like(draft, 2, dtype=cell.dtype)])
    summed = torch.zeros(len(key), dtype=cell.dtype, device=cell.device).index_add_(0, place, cells)
    return key // width, key % width, summed


def _penalised(
    values: torch.Tensor,
    cell: torch.Tensor,
    repetition: torch.Tensor,
    presence: torch.Tensor,
    frequency: torch.Tensor,
) -> torch.Tensor:
    values = values * torch.where(values > 0, 1 / repetition, repetition)
    count = cell >> 1
    values = (values.double() - frequency.double() * count).float()  # one rounding, as in the kernel
    return torch.where(count > 0, values - presence, values)


def _columns(adjustments: Adjustments) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return adjustments.repetition, adjustments.presence, adjustments.frequency


_PROGRAMS, _PAGES, _WARPS = 8, 32, 4  # programs a row, pages a turn of a program


def _adjust_triton(logits: torch.Tensor, adjustments: Adjustments, pages: Pages, rows: DeviceRows) -> None:
    from constrain.sampling.ops._adjust_kernel import adjust_kernel

    kernel: Any = adjust_kernel
    if len(logits):
        kernel[(len(logits), _PROGRAMS)](
            logits,
            logits.stride(0),
            logits.shape[1],
            rows.slots,
            rows.offsets,
            rows.drafts,
            *pages.tile_arguments,
            pages.numbers,
            *_columns(adjustments),
            pages.table.shape[1],
            IS_BIAS=pages is not adjustments.counts,
            PAGES=_PAGES,
            num_warps=_WARPS,
        )
