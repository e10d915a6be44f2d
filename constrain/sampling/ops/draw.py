"""Drawing one token a row: by inverting the cumulated weights, or by Gumbel noise."""

import torch

from constrain.sampling.uniform import Purpose, gumbel_noise

BLOCK = 512
"""Tokens whose weights are added in float32; across blocks the sums are float64. A constant, never tuned: the draw
of a request must not depend on the machine's load or on the batch."""


def draw_inverse(
    logits: torch.Tensor,  # [N, V] float32; -inf is never drawn; each row has a finite maximum
    uniform: torch.Tensor,  # [N] float64 in [0, 1)
) -> torch.Tensor:
    """The first token in id order whose cumulated weight exceeds u * total, int64 [N].

    Weights are exp(logit - maximum). Where rounding leaves no such token, the last one with a weight is taken; a token
    of weight 0 is never drawn.
    """
    weights = torch.exp(logits - logits.amax(dim=1, keepdim=True))
    blocks = torch.nn.functional.pad(weights, (0, -weights.shape[1] % BLOCK)).view(len(weights), -1, BLOCK)
    sums = _tree_sum(blocks)  # [N, V / BLOCK]
    block_ends = sums.double().cumsum(dim=1)
    target = uniform[:, None] * block_ends[:, -1:]
    block = _first_or_last((block_ends > target) & (sums > 0), sums > 0)
    before = torch.where(block > 0, block_ends.gather(1, (block - 1).clamp(min=0)), 0.0)
    inside = blocks.gather(1, block[:, :, None].expand(-1, 1, BLOCK)).squeeze(1).double()
    offset = _first_or_last((before + inside.cumsum(dim=1) > target) & (inside > 0), inside > 0)
    return (block * BLOCK + offset).squeeze(1)


def draw_gumbel(
    logits: torch.Tensor,  # [N, V] float32; -inf is never drawn; each row has a finite maximum
    seeds: torch.Tensor,  # [N] int64, the 64 bits of the seed
    output_indices: torch.Tensor,  # [N] int64
) -> torch.Tensor:
    """The token with the highest logit plus Gumbel noise, the lowest id on ties; int64 [N].

    Its distribution is the softmax. The noise of a token depends on seed and index alone, so two rows of similar logits
    that share them, such as a draft's and its target's, mostly agree.
    """
    tokens = torch.arange(logits.shape[1], device=logits.device).expand(len(logits), -1)
    noise = gumbel_noise(seeds, output_indices, tokens, Purpose.DRAW)
    return (logits - logits.amax(dim=1, keepdim=True) + noise).argmax(dim=1)


def _tree_sum(blocks: torch.Tensor) -> torch.Tensor:
    """The sum over the last axis (a power of two) in one fixed order, float32 [N, V / BLOCK]."""
    while blocks.shape[-1] > 1:
        half = blocks.shape[-1] // 2
        blocks = blocks[..., :half] + blocks[..., half:]
    return blocks.squeeze(-1)


def _first_or_last(exceeds: torch.Tensor, has_weight: torch.Tensor) -> torch.Tensor:
    """The first column where ``exceeds``, or else the last where ``has_weight`` (0 without any), int64 [N, 1]."""
    columns = torch.arange(exceeds.shape[1], device=exceeds.device)
    last = torch.where(has_weight, columns, 0).amax(dim=1, keepdim=True)
    first = exceeds.to(torch.uint8).argmax(dim=1, keepdim=True)
    return torch.where(exceeds.any(dim=1, keepdim=True), first, last)
