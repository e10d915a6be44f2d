"""Logit bias and penalties in plain Python and float64, one token at a time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from constrain.sampling.penalties import PenaltyState


@dataclass
class Wish:
    """What one slot asks for, and its history."""

    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()

    def enter(self, state: PenaltyState, slot: int, *, max_new_tokens: int = 256) -> None:
        state.add(
            slot,
            prompt_ids=self.prompt,
            output_ids=self.output,
            repetition=self.repetition,
            presence=self.presence,
            frequency=self.frequency,
            logit_bias=self.bias,
            max_new_tokens=max_new_tokens,
        )


def expected(logits: torch.Tensor, wish: Wish, drafts: Sequence[int] = (), *, penalties: bool = True) -> torch.Tensor:
    """One row, [V] float64."""
    values = logits.double().tolist()
    for token, bias in wish.bias.items():
        values[token] += torch.tensor(bias).item()
    if penalties:
        counts = Counter([*wish.output, *drafts])
        for token in {*counts, *wish.prompt}:
            values[token] *= 1 / wish.repetition if values[token] > 0 else wish.repetition
            values[token] -= wish.frequency * counts[token] + wish.presence * (counts[token] > 0)
    return torch.tensor(values, dtype=torch.float64)
