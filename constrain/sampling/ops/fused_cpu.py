"""The meaning of ``fused.py``, and its CPU path."""

import numpy as np
import torch

from constrain.sampling.ops.adjust import Adjustments, adjusted
from constrain.sampling.ops.bitmask import apply_bitmask
from constrain.sampling.ops.draw import draw_inverse
from constrain.sampling.ops.survivors import BLOCK, Filters, Floats, Ids, block_maxima, survivors, weights_of
from constrain.sampling.params import GREEDY_BELOW
from constrain.sampling.rows import DeviceRows
from constrain.sampling.status import RowStatus
from constrain.sampling.table import SlotTable
from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms


def sample_rows_cpu(
    logits: torch.Tensor,
    table: SlotTable,
    rows: DeviceRows,
    bitmask: torch.Tensor | None,
    adjustments: Adjustments | None,
    vocab_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """``sample_rows`` on CPU tensors that fit."""
    values = logits[:, :vocab_size].float()
    if adjustments is not None:
        values = adjusted(values, adjustments, rows)
    if bitmask is not None:
        values = apply_bitmask(values, bitmask)
    maxima = block_maxima(values) if len(values) else values
    slots = rows.slots
    filters = [
        Filters(temperature, k if k < vocab_size else 0, p, min_p)
        for temperature, k, p, min_p in zip(
            table.temperature[slots].tolist(),
            table.top_k[slots].tolist(),
            table.top_p[slots].tolist(),
            table.min_p[slots].tolist(),
            strict=True,
        )
    ]
    seeds, gumbel = table.seed[slots].tolist(), table.gumbel[slots].tolist()
    indices = rows.output_indices.tolist()
    tokens, status = [0] * len(values), [int(RowStatus.OK)] * len(values)
    whole, noisy = [], []
    for row, (one, block, each) in enumerate(zip(values.numpy(), maxima.numpy(), filters, strict=True)):
        top = block.max()
        if not top < np.inf:
            status[row] = int(RowStatus.NOT_FINITE)
        elif top == -np.inf:
            status[row] = int(RowStatus.EMPTY)
        elif each.temperature < GREEDY_BELOW:
            tokens[row] = _first(one, block, top)
        elif each.keep_all and not gumbel[row]:
            whole.append(row)
        else:
            ids, left = survivors(one, block, each)
            if gumbel[row]:
                noisy.append((row, ids, (left - top) / np.float32(each.temperature)))
            else:
                uniform = uniforms([seeds[row] % 2**64], [indices[row]], Purpose.DRAW).item()
                tokens[row] = int(ids[_inverse(weights_of(left, top, each.temperature), uniform)])
    drawn = torch.tensor(tokens, dtype=torch.int64)
    if whole:
        group = torch.tensor(whole)
        highest = maxima[group].amax(dim=1, keepdim=True)
        scaled = (values[group] - highest).div_(table.temperature[slots[group]][:, None])
        numbers = uniforms([seeds[row] % 2**64 for row in whole], [indices[row] for row in whole], Purpose.DRAW)
        drawn[group] = draw_inverse(scaled, numbers)
    if noisy:
        group = torch.tensor([row for row, _, _ in noisy])
        drawn[group] = _noisiest([(ids, scores) for _, ids, scores in noisy], table.seed[slots[group]], group, rows)
    return drawn, torch.tensor(status, dtype=torch.int64)


def _noisiest(
    survivors_of: list[tuple[Ids, Floats]], seeds: torch.Tensor, group: torch.Tensor, rows: DeviceRows
) -> torch.Tensor:
    """The token of the highest sum of score and noise, for each row of ``group``."""
    width = max(len(ids) for ids, _ in survivors_of)
    tokens = np.zeros((len(survivors_of), width), dtype=np.int64)
    scores = np.full((len(survivors_of), width), -np.inf, dtype=np.float32)
    for place, (ids, score) in enumerate(survivors_of):
        tokens[place, : len(ids)], scores[place, : len(ids)] = ids, score
    noise = gumbel_noise(seeds, rows.output_indices[group], torch.from_numpy(tokens), Purpose.DRAW)
    best = np.argmax(scores + noise.numpy(), axis=1)
    return torch.from_numpy(np.take_along_axis(tokens, best[:, None], axis=1)[:, 0])


def _first(values: Floats, maxima: Floats, top: np.float32) -> int:
    """The lowest id of the highest value: in the first block that has it."""
    block = int(np.argmax(maxima == top)) * BLOCK
    return block + int(np.argmax(values[block : block + BLOCK] == top))


def _inverse(weights: Floats, uniform: float) -> int:
    """As ``draw_inverse``, over survivors in id order and with every sum in float64."""
    ends = np.cumsum(weights, dtype=np.float64)
    place = int(np.searchsorted(ends, uniform * ends[-1], side="right"))
    return place if place < len(ends) else int(np.flatnonzero(weights)[-1])
