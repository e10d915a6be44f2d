"""The meaning of ``fused.py`` in plain torch, and its CPU path."""

import torch

from constrain.sampling.ops.adjust import Adjustments, adjusted
from constrain.sampling.ops.bitmask import apply_bitmask
from constrain.sampling.ops.draw import draw_inverse
from constrain.sampling.ops.survivors import BLOCK, Filters, block_maxima, survivors
from constrain.sampling.params import GREEDY_BELOW
from constrain.sampling.rows import DeviceRows
from constrain.sampling.status import RowStatus
from constrain.sampling.table import Features, SlotTable
from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms


def sample_rows_torch(
    logits: torch.Tensor,
    table: SlotTable,
    rows: DeviceRows,
    features: Features,
    bitmask: torch.Tensor | None,
    adjustments: Adjustments | None,
    vocab_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``sample_rows``; the arguments fit."""
    values = logits[:, :vocab_size].float()
    if adjustments is not None:
        values = adjusted(values, adjustments, rows)
    if bitmask is not None:
        values = apply_bitmask(values, bitmask)
    maxima = block_maxima(values)
    top = maxima.amax(dim=1)
    status = torch.where(top == float("-inf"), int(RowStatus.EMPTY), int(RowStatus.OK))
    status[~(top < float("inf"))] = int(RowStatus.NOT_FINITE)
    tokens = _argmax(values, maxima, top)
    if features.drawn:
        temperature = table.temperature[rows.slots].tolist()
        drawn = [
            row
            for row, fine in enumerate((status == int(RowStatus.OK)).tolist())
            if fine and temperature[row] >= GREEDY_BELOW
        ]
        if drawn:
            every = len(drawn) == len(values)
            group = slice(None) if every else torch.tensor(drawn, device=values.device)
            tokens[group] = _drawn(values[group], maxima[group], table, rows, drawn)
    return tokens, status


def _argmax(values: torch.Tensor, maxima: torch.Tensor, top: torch.Tensor) -> torch.Tensor:
    """The lowest id of the highest value: in the first block that has it."""
    if not values.shape[1]:
        return torch.zeros(len(values), dtype=torch.int64, device=values.device)
    block = (maxima == top[:, None]).to(torch.uint8).argmax(dim=1, keepdim=True)
    ids = block * BLOCK + torch.arange(BLOCK, device=values.device)
    inside = ids < values.shape[1]
    hit = (values.gather(1, ids.clamp(max=values.shape[1] - 1)) == top[:, None]) & inside
    return block.squeeze(1) * BLOCK + hit.to(torch.uint8).argmax(dim=1)


def _drawn(
    values: torch.Tensor, maxima: torch.Tensor, table: SlotTable, rows: DeviceRows, drawn: list[int]
) -> torch.Tensor:
    """The tokens of rows that are not greedy, [n]."""
    slots, indices = rows.slots[drawn], rows.output_indices[drawn]
    filters = Filters(
        temperature=table.temperature[slots].tolist(),
        top_k=[k if k < values.shape[1] else 0 for k in table.top_k[slots].tolist()],
        top_p=table.top_p[slots].tolist(),
        min_p=table.min_p[slots].tolist(),
    )
    seeds = table.seed[slots]
    gumbel = table.gumbel[slots].tolist()
    uniform = uniforms([seed % 2**64 for seed in seeds.tolist()], indices.tolist(), Purpose.DRAW).to(values.device)
    temperature = table.temperature[slots][:, None]
    top = maxima.amax(dim=1, keepdim=True)
    tokens = torch.zeros(len(values), dtype=torch.int64, device=values.device)

    whole = [row for row in range(len(values)) if filters.keep_all(row) and not gumbel[row]]
    if whole:
        group = slice(None) if len(whole) == len(values) else torch.tensor(whole, device=values.device)
        tokens[group] = draw_inverse((values[group] - top[group]).div_(temperature[group]), uniform[group])
    rest = [row for row in range(len(values)) if not (filters.keep_all(row) and not gumbel[row])]
    if not rest:
        return tokens
    every = len(rest) == len(values)
    for found in survivors(*((values, maxima) if every else (values[rest], maxima[rest])), filters.of(rest)):
        mine = [rest[row] for row in found.rows]
        scaled = (found.logits - top[mine]) / temperature[mine]
        if any(gumbel[row] for row in mine):
            noise = gumbel_noise(seeds[mine], indices[mine], found.tokens, Purpose.DRAW)
            noisy = torch.tensor([gumbel[row] for row in mine], device=values.device)
            place = torch.where(noisy, (scaled + noise).argmax(dim=1), _inverse(scaled, uniform[mine]))
        else:
            place = _inverse(scaled, uniform[mine])
        tokens[mine] = found.tokens.gather(1, place[:, None]).squeeze(1)
    return tokens


def _inverse(scaled: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """Which column of survivors, in id order, [n]: as ``draw_inverse``, with every sum in float64."""
    weights = torch.exp(scaled)
    ends = weights.double().cumsum(dim=1)
    hit = (ends > uniform[:, None] * ends[:, -1:]) & (weights > 0)
    columns = torch.arange(scaled.shape[1], device=scaled.device)
    last = torch.where(weights > 0, columns, 0).amax(dim=1)
    return torch.where(hit.any(dim=1), hit.to(torch.uint8).argmax(dim=1), last)
