"""Acceptance made up for benchmarks: what speculation would cost and give if so much were accepted."""

import math
from collections.abc import Sequence

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.uniform import Purpose, uniforms_on_device
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops.padded import emitted


def rates_of_length(acceptance_length: float, max_drafts: int) -> list[float]:
    """Rates that give ``acceptance_length`` tokens a step (1 + accepted): ones, one fraction, zeros."""
    if not 1 <= acceptance_length <= max_drafts + 1:
        raise InvalidInputError(f"acceptance_length={acceptance_length}: want 1 to {max_drafts + 1}")
    whole = math.floor(acceptance_length - 1)
    fraction = acceptance_length - 1 - whole
    return [1.0 if place < whole else fraction if place == whole else 0.0 for place in range(max_drafts)]


def conditional_rates(rates: Sequence[float]) -> list[float]:
    """c_i = r_i / r_{i-1}: how often token i is to be accepted where those before it were; r_0 = 1, and 0 after a 0.

    ``rates[i]`` is the share of drafts whose tokens up to i are all accepted; ``InvalidInputError`` unless these lie in
    [0, 1] and do not rise.
    """
    conditional, before = [], 1.0
    for rate in rates:
        if not 0 <= rate <= before:
            raise InvalidInputError(f"rates={list(rates)}: want numbers in [0, 1] that do not rise")
        conditional.append(rate / before if before else 0.0)
        before = rate
    return conditional


def verify_synthetically(
    conditional: torch.Tensor,  # [>= K] float64, of :func:`conditional_rates`
    drawn: torch.Tensor,  # [N] int64
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,  # [B] int64
    output_indices: torch.Tensor,  # [B] int64
) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``verify_by_drawing``, but a coin decides: the draft token with its rate, else the target's own token."""
    places = torch.arange(metadata.max_drafts, device=drawn.device)
    indices = output_indices[:, None] + places
    u = uniforms_on_device(seeds[:, None].expand_as(indices), indices, Purpose.ACCEPT)
    accepted = (u < conditional[: metadata.max_drafts]) & (places < metadata.num_drafts[:, None])
    num_accepted = accepted.long().cumprod(dim=1).sum(dim=1)
    requests = torch.arange(len(metadata), device=drawn.device)
    first_row = metadata.cu_num_drafts - metadata.num_drafts + requests
    return emitted(metadata, num_accepted, drawn[first_row + num_accepted]), num_accepted
