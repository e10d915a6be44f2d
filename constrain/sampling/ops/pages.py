"""Numbers by (slot, token) for the few tokens of a vocabulary that have one."""

from dataclasses import dataclass
from typing import Any

import torch

PAGE = 16
"""Consecutive tokens that share a page."""


@dataclass(frozen=True, slots=True)
class Pages:
    """A sparse [S, V], kept on the device of the logits: of each slot only the pages that hold a number.

    The pages of a slot stand together in the pool, in the order in which they were touched, so that its numbers can be
    listed; the table finds the page of a token, so that they can be looked up. For V tokens that is V / 8 bytes a slot
    for the table, and 68 bytes for each page of the pool.
    """

    table: torch.Tensor  # [S, P] int16, P = V / PAGE: 0 for a page that nothing touched, or 1 + its place in its slot
    base: torch.Tensor  # [S] int32: where in the pool the pages of a slot begin
    used: torch.Tensor  # [S] int32: how many a slot has; 0 for a slot that has no numbers
    numbers: torch.Tensor  # [C] int32: which page of the vocabulary each page of the pool is
    cells: torch.Tensor  # [C, PAGE] int32 or float32; 0 where a token has no number

    @property
    def tile_arguments(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """What a kernel needs to look numbers up: table, base, used, cells."""
        return self.table, self.base, self.used, self.cells


def add_(
    pages: Pages,  # of int32, changed in place
    updates: torch.Tensor,  # [B, 1 + T] int32, T <= 64: a slot and tokens of it, -1 for none; no slot twice
    amount: int,
) -> None:
    """Add ``amount`` to the number of each token, as often as it stands there; one launch, nothing read back.

    The region of each slot in the pool must have room for the pages that its tokens touch first.
    """
    if pages.cells.device.type == "cuda":
        _add_triton(pages, updates, amount)
    else:
        _add_torch(pages, updates, amount)


def _add_torch(pages: Pages, updates: torch.Tensor, amount: int) -> None:
    tokens = updates[:, 1:].long()
    num_pages = pages.table.shape[1]
    valid = (tokens >= 0) & (tokens < num_pages * PAGE)
    key = (updates[:, :1].long() * num_pages + tokens // PAGE)[valid]  # slot and page in one number
    slot, table = key // num_pages, pages.table.view(-1)
    made = torch.unique(key[table[key] == 0])  # in order, so those of a slot stand together
    slot_made = made // num_pages
    rank = torch.arange(len(made), device=made.device) - torch.searchsorted(slot_made, slot_made)
    place = pages.used[slot_made] + rank + 1
    table[made] = place.to(torch.int16)
    pages.numbers[pages.base[slot_made] + place - 1] = (made % num_pages).to(torch.int32)
    pages.used.index_add_(0, slot_made, torch.ones_like(slot_made, dtype=torch.int32))
    index = (pages.base[slot] + table[key] - 1).long() * PAGE + tokens[valid] % PAGE
    pages.cells.view(-1).index_add_(0, index, torch.full_like(index, amount, dtype=pages.cells.dtype))


def _add_triton(pages: Pages, updates: torch.Tensor, amount: int) -> None:
    from constrain.sampling.ops._pages_kernel import add_kernel

    num_tokens = updates.shape[1] - 1
    kernel: Any = add_kernel
    kernel[(len(updates),)](
        updates,
        updates.stride(0),
        num_tokens,
        amount,
        *pages.tile_arguments,
        pages.numbers,
        pages.table.shape[1],
        BLOCK=1 << max(num_tokens - 1, 1).bit_length(),
        num_warps=1,
    )
