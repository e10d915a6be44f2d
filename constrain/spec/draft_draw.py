"""How a draft model's tokens are drawn."""

from collections.abc import Sequence

import torch

from constrain.sampling.ops.draw import draw_inverse
from constrain.sampling.ops.fused import sample_rows
from constrain.sampling.ops.truncate import truncate_
from constrain.sampling.params import SamplingParams
from constrain.sampling.rows import Rows
from constrain.sampling.table import Features, SlotTable
from constrain.sampling.uniform import Purpose, uniforms
from constrain.spec.draft import DrawKey


def draw_drafts(
    logits: torch.Tensor,  # [N, V] float32, masked
    keys: Sequence[DrawKey],  # N
) -> torch.Tensor:
    """A token of each row, int64 [N]. That of a row without any allowed token means nothing.

    Greedy rows and rows with Gumbel noise go through the target's own sampler, whose noise they share; others are drawn
    with uniforms of ``Purpose.DRAFT``, which the target does not use.
    """
    tokens = _drawn_like_the_target(logits, keys)
    rows = [row for row, key in enumerate(keys) if not key.params.is_greedy and not key.gumbel]
    if rows:
        chosen = [keys[row] for row in rows]
        index = torch.tensor(rows, device=logits.device)
        processed = draft_logits(logits[index], [key.params for key in chosen])
        uniform = uniforms([key.seed for key in chosen], [key.output_index for key in chosen], Purpose.DRAFT)
        tokens[index] = draw_inverse(processed, uniform.to(logits.device))
    return tokens


def draft_logits(
    logits: torch.Tensor,  # [N, V] float32, masked
    params: Sequence[SamplingParams],  # N, none of them greedy
) -> torch.Tensor:
    """The logits of the distribution that a draft is drawn from: temperature, min-p, top-k and top-p of the request.

    A draft need not know more of the request: what it leaves out costs acceptance only.
    """
    maximum = logits.amax(dim=1, keepdim=True)
    logits = logits - torch.where(maximum == float("-inf"), 0.0, maximum)
    logits /= torch.tensor([each.temperature for each in params], device=logits.device)[:, None]
    if any(each.min_p > 0 for each in params):
        min_p = torch.tensor([each.min_p for each in params], device=logits.device)
        logits.masked_fill_(logits < min_p.log()[:, None], float("-inf"))
    width = logits.shape[1]
    if any(0 < each.top_k < width or each.top_p < 1 for each in params):
        top_k = [min(each.top_k, width) if each.top_k > 0 else width for each in params]
        top_p = torch.tensor([each.top_p for each in params], dtype=torch.float64, device=logits.device)
        truncate_(logits, torch.tensor(top_k, device=logits.device), top_p)
    return logits


def _drawn_like_the_target(logits: torch.Tensor, keys: Sequence[DrawKey]) -> torch.Tensor:
    """The argmax of greedy rows and of rows that wait for another draw, a draw by noise of the others."""
    noisy = [key.gumbel and not key.params.is_greedy for key in keys]
    table = SlotTable.empty(len(keys), "cpu")
    for row, key in enumerate(keys):
        if noisy[row]:
            table.temperature[row], table.top_p[row], table.min_p[row] = (
                key.params.temperature,
                key.params.top_p,
                key.params.min_p,
            )
            table.top_k[row] = max(key.params.top_k, 0)
            table.seed[row] = key.seed - (key.seed >> 63 << 64)  # the same 64 bits, signed
            table.gumbel[row] = True
    drawn = [key.params for row, key in enumerate(keys) if noisy[row]]
    features = Features(
        drawn=bool(drawn),
        max_top_k=max((max(each.top_k, 0) for each in drawn), default=0),
        all_top_k=bool(drawn) and all(each.top_k > 0 for each in drawn),
        top_p=any(each.top_p < 1 for each in drawn),
        min_p=any(each.min_p > 0 for each in drawn),
        gumbel=bool(drawn),
    )
    rows = Rows.without_drafts(range(len(keys)), [key.output_index for key in keys]).to(logits.device)
    return sample_rows(logits, _on(table, logits.device), rows, features)[0].clone()


def _on(table: SlotTable, device: torch.device) -> SlotTable:
    columns = (table.temperature, table.top_k, table.top_p, table.min_p, table.seed, table.gumbel)
    return SlotTable(*(column.to(device) for column in columns))
