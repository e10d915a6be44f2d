"""Logit bias and penalties."""

from dataclasses import dataclass

import torch

from constrain.sampling.ops.pages import Pages


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
