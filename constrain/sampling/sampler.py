"""From masked logits to one token and one status a row."""

from collections.abc import Sequence

import torch

from constrain.sampling.ops.draw import draw_inverse
from constrain.sampling.ops.truncate import truncate_
from constrain.sampling.params import SamplingParams
from constrain.sampling.status import RowStatus
from constrain.sampling.uniform import Purpose, uniforms

__all__ = ["RowStatus", "sample"]


def sample(
    logits: torch.Tensor,  # [N, V] float32, masked, changed in place
    params: Sequence[SamplingParams],  # N
    seeds: Sequence[int],  # N
    output_indices: Sequence[int],  # N
) -> tuple[torch.Tensor, torch.Tensor]:
    """(token, :class:`RowStatus`) of each row, int64 [N] each, on the device of ``logits``.

    The token of a row whose status is not OK means nothing. A row's token depends on its logits, parameters, seed and
    output index: never on the other rows.
    """
    maximum = logits.amax(dim=1)  # NaN wins over every number in torch
    status = torch.where(maximum == float("-inf"), int(RowStatus.EMPTY), int(RowStatus.OK))
    status[torch.isnan(maximum) | (maximum == float("inf"))] = int(RowStatus.NOT_FINITE)
    tokens = logits.argmax(dim=1)
    drawn = [row for row, each in enumerate(params) if not each.is_greedy]
    if drawn:
        rows = torch.tensor(drawn, device=logits.device)
        chosen = [params[row] for row in drawn]
        uniform = uniforms([seeds[row] for row in drawn], [output_indices[row] for row in drawn], Purpose.DRAW)
        tokens[rows] = _draw(logits[rows], chosen, uniform.to(logits.device))
    return tokens, status


def _draw(logits: torch.Tensor, params: Sequence[SamplingParams], uniform: torch.Tensor) -> torch.Tensor:
    # The maximum goes first: a logit of -3e38, which some models give to what they forbid, must not overflow.
    logits = logits - logits.amax(dim=1, keepdim=True)
    logits /= _column(params, "temperature", torch.float32, logits.device)[:, None]
    width = logits.shape[1]
    cut = [row for row, each in enumerate(params) if 0 < each.top_k < width or each.top_p < 1]
    if cut:  # sorting is the dear part, so only the rows that need it
        rows = torch.tensor(cut, device=logits.device)
        top_k = torch.tensor([_effective_top_k(params[row], width) for row in cut], device=logits.device)
        top_p = _column([params[row] for row in cut], "top_p", torch.float64, logits.device)
        logits[rows] = truncate_(logits[rows], top_k, top_p)
    return draw_inverse(logits, uniform)


def _effective_top_k(params: SamplingParams, width: int) -> int:
    return min(params.top_k, width) if params.top_k > 0 else width


def _column(params: Sequence[SamplingParams], field: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    return torch.tensor([getattr(each, field) for each in params], dtype=dtype, device=device)
