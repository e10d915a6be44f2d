"""Top-k and top-p: which tokens may still be drawn."""

import torch


def truncate_(
    logits: torch.Tensor,  # [N, V] float32, after temperature, changed in place
    top_k: torch.Tensor,  # [N] int64, 1..V; V keeps all
    top_p: torch.Tensor,  # [N] float64 in (0, 1]; 1 keeps all
) -> torch.Tensor:
    """Set to -inf whatever top-k, and then top-p, cut; returns ``logits``.

    Both go by (logit descending, id ascending). Top-k keeps k tokens exactly, the lowest ids of a tie. Top-p keeps the
    smallest prefix of that order whose share of the mass left by top-k is at least p; always one token.
    """
    order = torch.sort(logits, dim=1, descending=True, stable=True)
    kept_by_k = torch.arange(logits.shape[1], device=logits.device) < top_k[:, None]
    ranked = order.values.masked_fill(~kept_by_k, float("-inf"))
    probabilities = torch.softmax(ranked.double(), dim=1)
    mass_before = probabilities.cumsum(dim=1) - probabilities
    kept = kept_by_k & ((mass_before < top_p[:, None]) | (top_p[:, None] >= 1))
    kept[:, 0] = True
    cut = torch.ones_like(kept).scatter_(1, order.indices, ~kept)
    return logits.masked_fill_(cut, float("-inf"))
