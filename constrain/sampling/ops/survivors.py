"""Which tokens may still be drawn, without sorting the vocabulary: the CPU path of top-k, top-p and min-p.

Whatever the filters, the survivors are a prefix of the tokens in the order (logit descending, id ascending). Only
blocks whose maximum can reach into it are looked at; where that is not enough, a search for the last survivor's value
takes its place.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

BLOCK = 128
"""Tokens under one maximum."""
_MOST_BLOCKS = 256
_GUESS = 64
_SORTED = 1024


@dataclass(frozen=True, slots=True)
class Filters:
    """Of n rows. ``top_k`` 0, ``top_p`` 1 and ``min_p`` 0 keep all."""

    temperature: Sequence[float]
    top_k: Sequence[int]
    top_p: Sequence[float]
    min_p: Sequence[float]

    def keep_all(self, row: int) -> bool:
        """Whether a row has no filter."""
        return not self.top_k[row] and self.top_p[row] >= 1 and not self.min_p[row]

    def of(self, rows: Sequence[int]) -> "Filters":
        """Of some of the rows."""
        columns = (self.temperature, self.top_k, self.top_p, self.min_p)
        return Filters(*([column[row] for row in rows] for column in columns))  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Survivors:
    """Of some rows, in id order; the end of a row may be padded with -inf."""

    rows: list[int]  # n
    tokens: torch.Tensor  # [n, C] int64
    logits: torch.Tensor  # [n, C] float32, before temperature


def block_maxima(logits: torch.Tensor) -> torch.Tensor:
    """The maximum of each BLOCK tokens, [N, V / BLOCK rounded up]; NaN wins."""
    width = logits.shape[1]
    whole = width - width % BLOCK
    parts = []
    if whole:
        parts.append(logits[:, :whole].unflatten(1, (-1, BLOCK)).amax(dim=2))
    if whole < width:
        parts.append(logits[:, whole:].amax(dim=1, keepdim=True))
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def survivors(
    logits: torch.Tensor,  # [N, V] float32, before temperature; no NaN, no +inf, and each row has a finite maximum
    maxima: torch.Tensor,  # its block_maxima
    filters: Filters,  # N
) -> Iterator[Survivors]:
    """The survivors of every row, in groups of rows."""
    by_rank, by_mass, left = [], [], []
    for row in range(len(logits)):
        k = filters.top_k[row]
        if 0 < k <= _MOST_BLOCKS and k < maxima.shape[1]:
            by_rank.append(row)
        elif k == 0 and filters.top_p[row] < 1 and not filters.min_p[row] and maxima.shape[1] > _GUESS:
            by_mass.append(row)
        else:
            left.append(row)
    for rows, select in ((by_rank, _by_rank), (by_mass, _by_mass)):
        if rows:
            group = slice(None) if len(rows) == len(logits) else torch.tensor(rows, device=logits.device)
            found, done = select(logits[group], maxima[group], filters.of(rows))
            left += [row for row, is_done in zip(rows, done, strict=True) if not is_done]
            kept = [place for place, is_done in enumerate(done) if is_done]
            if kept:
                found = found if len(kept) == len(rows) else tuple(part[kept] for part in found)
                yield Survivors([rows[place] for place in kept], *found)
    for row in left:
        yield _of_one(logits[row], row, filters)


_Found = tuple[torch.Tensor, ...]  # tokens, logits


def _by_rank(logits: torch.Tensor, maxima: torch.Tensor, filters: Filters) -> tuple[_Found, list[bool]]:
    """Rows with a top-k; not done where ties with the k-th token may stand in blocks that were not read."""
    top_k = _column(filters.top_k, torch.int64, logits)
    leading = _leading(logits, maxima, max(filters.top_k))
    last = leading.logits.topk(max(filters.top_k), dim=1).values.gather(1, top_k - 1)
    tied = leading.logits == last
    over = leading.logits > last
    kept = over | (tied & (tied.cumsum(dim=1) <= top_k - over.sum(dim=1, keepdim=True)))
    tokens, chosen = _compact(leading.tokens, leading.logits, kept & (leading.logits > float("-inf")))
    top, temperature = maxima.amax(dim=1, keepdim=True), _column(filters.temperature, torch.float32, logits)
    if any(filters.min_p):
        far = top - chosen > min_p_distance(_column(filters.min_p, torch.float32, logits), temperature)
        chosen = chosen.masked_fill(far, float("-inf"))
    if any(p < 1 for p in filters.top_p):
        weights = torch.exp((chosen - top) / temperature).double()
        chosen = _cut_mass(chosen, weights, weights.sum(dim=1, keepdim=True), filters)
    return (tokens, chosen), (~leading.ties_beyond | (last > leading.bound)).squeeze(1).tolist()


def _by_mass(logits: torch.Tensor, maxima: torch.Tensor, filters: Filters) -> tuple[_Found, list[bool]]:
    """Rows with a top-p alone; not done where the leading blocks do not hold that much."""
    top, temperature = maxima.amax(dim=1, keepdim=True), _column(filters.temperature, torch.float32, logits)
    total = total_weight(torch.exp((logits - top).div_(temperature)))
    leading = _leading(logits, maxima, _GUESS)
    tokens, chosen = _compact(leading.tokens, leading.logits, leading.logits > leading.bound)
    weights = torch.exp((chosen - top) / temperature).double()
    enough = weights.sum(dim=1, keepdim=True) >= _column(filters.top_p, torch.float64, logits) * total
    return (tokens, _cut_mass(chosen, weights, total, filters)), enough.squeeze(1).tolist()


@dataclass(frozen=True, slots=True)
class _Leading:
    tokens: torch.Tensor  # [n, C] of the blocks with the largest maxima, in id order
    logits: torch.Tensor  # [n, C]
    bound: torch.Tensor  # [n, 1]: every logit over it is here
    ties_beyond: torch.Tensor  # [n, 1]: some logit equal to the bound is not


def _leading(logits: torch.Tensor, maxima: torch.Tensor, count: int) -> _Leading:
    best = maxima.topk(count + 1, dim=1)
    blocks = best.indices[:, :count].sort(dim=1).values
    tokens = (blocks[:, :, None] * BLOCK + torch.arange(BLOCK, device=logits.device)).flatten(1)
    width = logits.shape[1]
    if width % BLOCK:
        values = logits.gather(1, tokens.clamp(max=width - 1)).masked_fill_(tokens >= width, float("-inf"))
    else:
        values = logits.gather(1, tokens)
    bound, beyond = best.values[:, count - 1 : count], best.values[:, count:]
    return _Leading(tokens, values, bound, (bound == beyond) & (bound > float("-inf")))


def _compact(tokens: torch.Tensor, logits: torch.Tensor, kept: torch.Tensor) -> _Found:
    """The kept places of each row moved together, padded with -inf."""
    counts = kept.sum(dim=1)
    row, column = kept.nonzero(as_tuple=True)
    place = torch.arange(len(row), device=row.device) - (counts.cumsum(0) - counts)[row]
    shape = (len(kept), max(int(counts.max()), 1))
    moved = torch.full(shape, float("-inf"), device=logits.device)
    moved[row, place] = logits[row, column]
    ids = torch.zeros(shape, dtype=torch.int64, device=logits.device)
    ids[row, place] = tokens[row, column]
    return ids, moved


def _cut_mass(logits: torch.Tensor, weights: torch.Tensor, total: torch.Tensor, filters: Filters) -> torch.Tensor:
    """Top-p of rows in id order, as a share of ``total``."""
    top_p = _column(filters.top_p, torch.float64, logits)
    order = logits.sort(dim=1, descending=True, stable=True).indices
    ranked = weights.gather(1, order)
    kept = (ranked.cumsum(dim=1) - ranked < top_p * total) | (top_p >= 1)
    kept[:, 0] = True
    return logits.masked_fill(torch.zeros_like(kept).scatter_(1, order, ~kept), float("-inf"))


def _of_one(logits: torch.Tensor, row: int, filters: Filters) -> Survivors:
    """Any filters, by a search: each step splits the tokens that may be the last survivor by the value of one."""
    top, temperature = logits.amax(), filters.temperature[row]
    limit = min_p_distance(torch.tensor(filters.min_p[row]), torch.tensor(temperature, dtype=torch.float32))
    kept = (top - logits <= limit.to(logits.device)) & (logits > float("-inf"))
    tokens = kept.nonzero().squeeze(1)
    values = logits[tokens]
    top_k, top_p = filters.top_k[row], filters.top_p[row]
    if 0 < top_k < len(values):
        last = values.topk(top_k).values[-1]
        kept = values > last
        kept[(values == last).nonzero().squeeze(1)[: top_k - int(kept.sum())]] = True
        tokens, values = tokens[kept], values[kept]
    if top_p < 1:
        weights = torch.exp((values - top) / temperature)
        last, over = _last_by_mass(values, weights, top_p * float(weights.double().sum()))
        ties = (values == last).nonzero().squeeze(1)
        weight, missing = float(weights[ties[0]]), top_p * float(weights.double().sum()) - over
        kept = values > last
        kept[ties[: max(1, math.ceil(missing / weight)) if weight else len(ties)]] = True
        tokens, values = tokens[kept], values[kept]
    return Survivors([row], tokens[None], values[None])


def _last_by_mass(values: torch.Tensor, weights: torch.Tensor, goal: float) -> tuple[torch.Tensor, float]:
    """The value at which the mass from the top reaches ``goal``, and the mass over that value."""
    over = 0.0
    while len(values) > _SORTED:
        sample = values[:: len(values) // 255].sort(descending=True).values
        reach = torch.exp(sample - sample[0])  # only a guess: any pivot is right
        pivot = sample[(reach.cumsum(0) < reach.sum() / 2).sum().clamp(max=len(sample) - 1)]
        above, equal = values > pivot, values == pivot
        mass_above = over + float(weights[above].double().sum())
        mass_with = mass_above + float(weights[equal].double().sum())
        below = values < pivot
        if mass_above >= goal:
            values, weights = values[above], weights[above]
        elif mass_with >= goal or not below.any():
            return pivot, mass_above
        else:
            over, values, weights = mass_with, values[below], weights[below]
    order = values.sort(descending=True, stable=True)
    ends = over + weights[order.indices].double().cumsum(0)
    place = int((ends < goal).sum().clamp(max=len(values) - 1))
    last = order.values[place]
    return last, over + float(weights[values > last].double().sum())


def min_p_distance(min_p: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
    """How far under the maximum, before temperature, a logit may lie: probability >= min_p * the highest one."""
    return torch.log(min_p).abs() * temperature


def total_weight(weights: torch.Tensor) -> torch.Tensor:
    """The sum of each row, [N, 1] float64: blocks in float32, float64 across."""
    whole = weights.shape[1] - weights.shape[1] % BLOCK
    blocks = weights[:, :whole].unflatten(1, (-1, BLOCK)).sum(dim=2).double().sum(dim=1, keepdim=True)
    return blocks + weights[:, whole:].double().sum(dim=1, keepdim=True)


def _column(numbers: Sequence[float], dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype, device=like.device)[:, None]
