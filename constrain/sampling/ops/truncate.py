"""Top-k, top-p and min-p: which tokens may still be drawn."""

import numpy as np
import torch

from constrain.sampling.ops.survivors import Filters, block_maxima, survivors


def truncate_(
    logits: torch.Tensor,  # [N, V] float32, after temperature, changed in place; each row has a finite maximum
    top_k: torch.Tensor,  # [N] int64, 1..V; V keeps all
    top_p: torch.Tensor,  # [N] float64 in (0, 1]; 1 keeps all
    min_p: torch.Tensor | None = None,  # [N] float32 in [0, 1]; 0 keeps all
) -> torch.Tensor:
    """Set to -inf whatever min-p, then top-k, and then top-p, cut; returns ``logits``.

    Min-p keeps the tokens of at least that share of the highest probability. The others go by (logit descending, id
    ascending). Top-k keeps k tokens exactly, the lowest ids of a tie. Top-p keeps the smallest prefix of that order
    whose share of the mass left by min-p and top-k is at least p; always one token.
    """
    if logits.device.type == "cpu":
        return _truncate_rows(logits, top_k, top_p, min_p)
    return _truncate_sorted(logits, top_k, top_p, min_p)


def _truncate_rows(
    logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, min_p: torch.Tensor | None
) -> torch.Tensor:
    """Row by row, without a sort of the vocabulary."""
    width = logits.shape[1]
    shares = [0.0] * len(logits) if min_p is None else min_p.tolist()
    for row, (k, p, share) in enumerate(zip(top_k.tolist(), top_p.tolist(), shares, strict=True)):
        filters = Filters(temperature=1.0, top_k=k if k < width else 0, top_p=p, min_p=share)
        if not filters.keep_all:
            maxima = block_maxima(logits[row : row + 1])[0].numpy()
            if np.isfinite(maxima.max()):  # others mean nothing
                tokens, values = survivors(logits[row].numpy(), maxima, filters)
                logits[row].fill_(float("-inf"))[torch.from_numpy(tokens)] = torch.from_numpy(values)
    return logits


def _truncate_sorted(
    logits: torch.Tensor, top_k: torch.Tensor, top_p: torch.Tensor, min_p: torch.Tensor | None
) -> torch.Tensor:
    """All rows at once, on any device."""
    order = torch.sort(logits, dim=1, descending=True, stable=True)
    kept_by_k = torch.arange(logits.shape[1], device=logits.device) < top_k[:, None]
    if min_p is not None:
        kept_by_k &= order.values[:, :1] - order.values <= torch.log(min_p).abs()[:, None]
    ranked = order.values.masked_fill(~kept_by_k, float("-inf"))
    probabilities = torch.softmax(ranked.double(), dim=1)
    mass_before = probabilities.cumsum(dim=1) - probabilities
    kept = kept_by_k & ((mass_before < top_p[:, None]) | (top_p[:, None] >= 1))
    kept[:, 0] = True
    cut = torch.ones_like(kept).scatter_(1, order.indices, ~kept)
    return logits.masked_fill_(cut, float("-inf"))
