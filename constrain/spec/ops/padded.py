"""What the torch twins share: the rows of each request side by side, and draws from weights."""

from dataclasses import dataclass

import torch

from constrain.spec.metadata import SpecDecodeMetadata


@dataclass(frozen=True, slots=True)
class Padded:
    """Rows as [B, K + 1] tables; what lies behind a request's rows means nothing."""

    has_draft: torch.Tensor  # [B, K] bool
    p: torch.Tensor  # [B, K] float64, the target's probability of each draft token
    q: torch.Tensor  # [B, K] float64, the draft's
    weights: torch.Tensor  # [N, V] float64, exp(logit - maximum)
    draft: torch.Tensor  # [M, V] float64, probabilities
    starts: torch.Tensor  # [B], the first row of each request
    num_drafts: torch.Tensor  # [B]

    def at(self, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(weights, draft probabilities) [B, V] of the row of each request at its place; 0 for a bonus row's draft."""
        weights = self.weights[self.starts + places]
        if not len(self.draft):
            return weights, torch.zeros_like(weights)
        requests = torch.arange(len(self.starts), device=places.device)
        index = (self.starts - requests + places).clamp(max=len(self.draft) - 1)
        return weights, torch.where((places < self.num_drafts)[:, None], self.draft[index], 0.0)


def padded_rows(
    logits: torch.Tensor, draft: torch.Tensor | None, metadata: SpecDecodeMetadata, draft_is_logits: bool
) -> Padded:
    """The tables of a step."""
    device, num_drafts = logits.device, metadata.num_drafts
    weights = _weights(logits)
    ids = metadata.draft_token_ids
    if draft is None:
        probabilities = torch.zeros(len(ids), logits.shape[1], dtype=torch.float64, device=device)
        probabilities.scatter_(1, ids[:, None], 1.0)
    elif draft_is_logits:
        probabilities = _weights(draft)
        probabilities /= probabilities.sum(dim=1, keepdim=True)
    else:
        probabilities = draft.double()
    places = torch.arange(metadata.max_drafts, device=device)
    has_draft = places < num_drafts[:, None]
    first_draft = metadata.cu_num_drafts - num_drafts
    starts = first_draft + torch.arange(len(metadata), device=device)
    chosen = weights[metadata.target_logits_indices]
    p = chosen.gather(1, ids[:, None]).squeeze(1) / chosen.sum(dim=1)
    q = probabilities.gather(1, ids[:, None]).squeeze(1)
    index = torch.where(has_draft, first_draft[:, None] + places, 0)
    pad = p.new_zeros(1)  # for a batch without drafts
    return Padded(
        has_draft,
        torch.where(has_draft, torch.cat([p, pad])[index], 0.0),
        torch.where(has_draft, torch.cat([q, pad])[index], 0.0),
        weights,
        probabilities,
        starts,
        num_drafts,
    )


def draw_from_weights(weights: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The first token with a weight whose cumulated weight exceeds u * total, else the last with one; -1 for none."""
    ends = weights.cumsum(dim=1)
    columns = torch.arange(weights.shape[1], device=weights.device)
    hit = (ends > u[:, None] * ends[:, -1:]) & (weights > 0)
    first = torch.where(hit, columns, weights.shape[1]).amin(dim=1)
    last = torch.where(weights > 0, columns, -1).amax(dim=1)
    return torch.where(first < weights.shape[1], first, last)


def emitted(metadata: SpecDecodeMetadata, num_accepted: torch.Tensor, token: torch.Tensor) -> torch.Tensor:
    """The accepted draft tokens, the token behind them, -1 behind that, [B, K + 1]."""
    places = torch.arange(metadata.max_drafts + 1, device=token.device)
    ids = torch.cat([metadata.draft_token_ids, token.new_full((1,), -1)])
    index = ((metadata.cu_num_drafts - metadata.num_drafts)[:, None] + places).clamp(max=len(ids) - 1)
    before = places < num_accepted[:, None]
    return torch.where(before, ids[index], torch.where(places == num_accepted[:, None], token[:, None], -1))


def _weights(logits: torch.Tensor) -> torch.Tensor:
    logits = logits.float()
    maximum = logits.amax(dim=1, keepdim=True)
    return torch.exp(logits - torch.where(maximum == float("-inf"), 0.0, maximum)).double()
