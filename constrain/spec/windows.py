"""Seeds for rules that look at draws behind the tokens that they give."""

import torch

_ODD = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio: neighbouring indices get seeds that differ in most bits."""


def window_seed(seed: int, output_index: int) -> int:
    """A seed for the step whose first row is at ``output_index``, 64 bits.

    A rule that weighs a draft as a whole has looked at the draws of indices which it did not fill. The next step draws
    for them again, and must not meet the same numbers: what it knows of them already would bias its tokens.
    """
    return seed ^ ((output_index + 1) * _ODD % 2**64)


def window_seeds(seeds: torch.Tensor, output_indices: torch.Tensor) -> torch.Tensor:
    """:func:`window_seed` of tensors, int64 [B] each, which hold the 64 bits."""
    return seeds ^ ((output_indices + 1) * (_ODD - 2**64))
