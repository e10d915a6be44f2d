"""Which tokens of a row may still be drawn, on the CPU and without sorting the vocabulary.

Whatever the filters, the survivors are a prefix of the tokens in the order (logit descending, id ascending). Only
blocks whose maximum can reach into it are looked at; where they are not enough, a search for the value of the last
survivor narrows the row down before anything is sorted.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

BLOCK = 128
"""Tokens under one maximum."""
_MOST_BLOCKS = 256
_GUESS = 64
_SORTED = 2048

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Filters:
    """Of one row. ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 keep all."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float

    @property
    def keep_all(self) -> bool:
        """Whether there is no filter."""
        return not self.top_k and self.top_p >= 1 and not self.min_p


def block_maxima(logits: torch.Tensor) -> torch.Tensor:
    """The maximum of each BLOCK tokens, [N, V / BLOCK rounded up]; NaN wins."""
    width = logits.shape[1]
    whole = width - width % BLOCK
    num_rows = len(logits)
    parts = [logits[:, :whole].reshape(num_rows, whole // BLOCK, BLOCK).amax(dim=2)] if whole else []
    if whole < width:
        parts.append(logits[:, whole:].amax(dim=1, keepdim=True))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def survivors(
    logits: Floats,  # [V], before temperature; no NaN, no +inf
    maxima: Floats,  # of its blocks, one of them finite
    filters: Filters,
) -> tuple[Ids, Floats]:
    """(tokens in id order, their logits)."""
    top = maxima.max()
    found = _leading(logits, maxima, top, filters)
    if found is not None:
        tokens, values, total = found
    else:
        tokens = np.flatnonzero(logits > -np.inf)
        values, total = logits[tokens], None
    if filters.min_p:
        near = top - values <= np.abs(np.log(np.float32(filters.min_p))) * np.float32(filters.temperature)
        tokens, values = tokens[near], values[near]
    if 0 < filters.top_k < len(values):
        last = np.partition(values, len(values) - filters.top_k)[len(values) - filters.top_k]
        kept = values > last
        kept[np.flatnonzero(values == last)[: filters.top_k - np.count_nonzero(kept)]] = True
        tokens, values = tokens[kept], values[kept]
    if filters.top_p < 1:
        weights = weights_of(values, top, filters.temperature)
        goal = filters.top_p * (total or float(weights.sum(dtype=np.float64)))
        kept = _leading_mass(values, weights, goal)
        tokens, values = tokens[kept], values[kept]
    return tokens, values


def weights_of(values: Floats, top: np.float32, temperature: float) -> Floats:
    """exp((value - top) / temperature): the maximum goes first, since -3e38 over a temperature would overflow."""
    with np.errstate(over="ignore"):
        weights: Floats = np.exp((values - top) / np.float32(temperature))
    return weights


def _leading(
    logits: Floats, maxima: Floats, top: np.float32, filters: Filters
) -> tuple[Ids, Floats, float | None] | None:
    """All tokens down to some value, and the mass of the row where top-p needs it; None where they are not enough."""
    by_mass = not filters.top_k and filters.top_p < 1 and not filters.min_p
    count = _GUESS if by_mass else filters.top_k
    if not 0 < count <= min(_MOST_BLOCKS, len(maxima) - 1):
        return None
    bound = np.partition(maxima, len(maxima) - count)[len(maxima) - count]
    if bound == -np.inf:
        return None
    blocks = np.flatnonzero(maxima >= bound)
    tokens = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    values = logits[tokens if tokens[-1] < len(logits) else np.minimum(tokens, len(logits) - 1)]
    kept = np.flatnonzero((values >= bound) & (tokens < len(logits)))
    tokens, values = tokens[kept], values[kept]
    if not by_mass:
        return tokens, values, None
    total = float(weights_of(logits, top, filters.temperature).sum(dtype=np.float64))
    if weights_of(values, top, filters.temperature).sum(dtype=np.float64) < filters.top_p * total:
        return None
    return tokens, values, total


def _leading_mass(values: Floats, weights: Floats, goal: float) -> npt.NDArray[np.bool_]:
    """The smallest prefix in the order (value descending, place ascending) whose weights reach ``goal``."""
    last, over = _last_by_mass(values, weights, goal)
    kept = values > last
    ties = np.flatnonzero(values == last)
    weight = float(weights[ties[0]])
    kept[ties[: max(1, math.ceil((goal - over) / weight)) if weight else len(ties)]] = True
    return kept


def _last_by_mass(values: Floats, weights: Floats, goal: float) -> tuple[np.float32, float]:
    """The value at which the mass from the top reaches ``goal``, and the mass over that value.

    Each step splits what is left by the value of one of its members, as quickselect does, but by mass.
    """
    over = 0.0
    while len(values) > _SORTED:
        places = np.arange(0, len(values), len(values) // 255)
        places = places[np.argsort(-values[places])]
        reach = np.cumsum(weights[places], dtype=np.float64)
        share = min(1.0, (goal - over) / max(float(weights.sum(dtype=np.float64)), 1e-300))
        pivot = values[places[min(int(np.searchsorted(reach, share * reach[-1])), len(places) - 1)]]
        above, below = values > pivot, values < pivot
        mass_above = over + float(weights[above].sum(dtype=np.float64))
        mass_with = mass_above + float(weights[~(above | below)].sum(dtype=np.float64))
        if mass_above >= goal:
            values, weights = values[above], weights[above]
        elif mass_with >= goal or not below.any():
            return pivot, mass_above
        else:
            over, values, weights = mass_with, values[below], weights[below]
    order = np.argsort(-values, kind="stable")
    ends = over + np.cumsum(weights[order], dtype=np.float64)
    last = values[order[min(int(np.searchsorted(ends, goal)), len(order) - 1)]]
    return last, over + float(weights[values > last].sum(dtype=np.float64))
