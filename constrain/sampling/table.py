"""The numbers that a draw needs, one place a slot, on the device of the logits."""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class SlotTable:
    """Columns over S slots, changed in place where a request comes; a row of logits reads the place of its slot."""

    temperature: torch.Tensor  # [S] float32; 0 takes the argmax
    top_k: torch.Tensor  # [S] int32; 0 keeps all
    top_p: torch.Tensor  # [S] float64 in (0, 1]; 1 keeps all
    min_p: torch.Tensor  # [S] float32 in [0, 1]; 0 keeps all
    seed: torch.Tensor  # [S] int64, the 64 bits of the seed
    gumbel: torch.Tensor  # [S] bool; False inverts the cumulated weights

    @classmethod
    def empty(cls, num_slots: int, device: torch.device | str) -> "SlotTable":
        """A table of greedy slots."""
        return cls(
            temperature=torch.zeros(num_slots, dtype=torch.float32, device=device),
            top_k=torch.zeros(num_slots, dtype=torch.int32, device=device),
            top_p=torch.ones(num_slots, dtype=torch.float64, device=device),
            min_p=torch.zeros(num_slots, dtype=torch.float32, device=device),
            seed=torch.zeros(num_slots, dtype=torch.int64, device=device),
            gumbel=torch.zeros(num_slots, dtype=torch.bool, device=device),
        )


@dataclass(frozen=True, slots=True)
class Features:
    """What any slot of a batch asks for, known on the host, so that a launch leaves out what nobody wants.

    A feature that is set but unused costs time and changes nothing.
    """

    drawn: bool = False  # some slot is not greedy
    max_top_k: int = 0  # the largest k; 0 if nobody has one
    all_top_k: bool = False  # every drawn slot has a top-k (then max_top_k bounds the candidates)
    top_p: bool = False
    min_p: bool = False
    inverse: bool = False  # some drawn slot inverts the cumulated weights
    gumbel: bool = False  # some drawn slot uses Gumbel noise
