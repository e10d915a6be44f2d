"""Numbers by (slot, token) for the few tokens of a vocabulary that have one."""

from dataclasses import dataclass

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
