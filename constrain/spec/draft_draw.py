"""How a draft model's tokens are drawn."""

from collections.abc import Sequence

import torch

from constrain.sampling.ops.draw import draw_inverse
from constrain.sampling.ops.truncate import truncate_
from constrain.sampling.params import SamplingParams
from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms
from constrain.spec.draft import DrawKey


def draft_logits_(
    logits: torch.Tensor,  # [N, V] float32, masked, changed in place
    params: Sequence[SamplingParams],  # N
) -> torch.Tensor:
    """The logits of the distribution that a draft is drawn from: temperature, top-k and top-p of the request.

    Greedy rows are left as they are. A draft need not know more of the request: what it leaves out costs acceptance
    only.
    """
    rows = [row for row, each in enumerate(params) if not each.is_greedy]
    if not rows:
        return logits
    index = torch.tensor(rows, device=logits.device)
    chosen = [params[row] for row in rows]
    drawn = logits[index]
    maximum = drawn.amax(dim=1, keepdim=True)
    drawn -= torch.where(maximum == float("-inf"), 0.0, maximum)
    drawn /= torch.tensor([each.temperature for each in chosen], device=logits.device)[:, None]
    width = logits.shape[1]
    if any(0 < each.top_k < width or each.top_p < 1 for each in chosen):
        top_k = [min(each.top_k, width) if each.top_k > 0 else width for each in chosen]
        truncate_(
            drawn,
            torch.tensor(top_k, device=logits.device),
            torch.tensor([each.top_p for each in chosen], dtype=torch.float64, device=logits.device),
        )
    logits[index] = drawn
    return logits


def draw_drafts(
    logits: torch.Tensor,  # [N, V] float32, of :func:`draft_logits_`
    keys: Sequence[DrawKey],  # N
) -> torch.Tensor:
    """A token of each row, int64 [N]. That of a row without any allowed token means nothing."""
    tokens = logits.argmax(dim=1)
    for gumbel in (False, True):
        rows = [row for row, key in enumerate(keys) if key.gumbel is gumbel and not key.params.is_greedy]
        if rows:
            index = torch.tensor(rows, device=logits.device)
            tokens[index] = _drawn(logits[index], [keys[row] for row in rows], gumbel)
    return tokens


def _drawn(logits: torch.Tensor, keys: Sequence[DrawKey], gumbel: bool) -> torch.Tensor:
    seeds, indices = [key.seed for key in keys], [key.output_index for key in keys]
    if not gumbel:
        return draw_inverse(logits, uniforms(seeds, indices, Purpose.DRAFT).to(logits.device))
    signed = [seed - 2**64 if seed >= 2**63 else seed for seed in seeds]
    key = torch.tensor([signed, indices], device=logits.device)
    tokens = torch.arange(logits.shape[1], device=logits.device).expand(len(keys), -1)
    return (logits + gumbel_noise(key[0], key[1], tokens, Purpose.DRAW)).argmax(dim=1)
