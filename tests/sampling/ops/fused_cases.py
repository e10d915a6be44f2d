"""Rows for the fused sampler, and what a float64 loop makes of them."""

import math
from dataclasses import dataclass, field, fields, replace

import numpy as np
import torch

from constrain.sampling.ops.adjust import Adjustments
from constrain.sampling.ops.pages import PAGE, Pages
from constrain.sampling.rows import DeviceRows, Rows
from constrain.sampling.table import Features, SlotTable
from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms


@dataclass(frozen=True)
class Ask:
    """What one row asks for."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    index: int = 0
    gumbel: bool = False


def table_of(asks: list[Ask], device: str = "cpu") -> tuple[SlotTable, DeviceRows, Features]:
    """A slot for each row, out of order, and what they use."""
    n = len(asks)
    slots = [(7 * row + 3) % (n + 2) if math.gcd(7, n + 2) == 1 else row for row in range(n)]
    table = SlotTable.empty(n + 2, device)
    for slot, ask in zip(slots, asks, strict=True):
        table.temperature[slot] = ask.temperature
        table.top_k[slot] = ask.top_k
        table.top_p[slot] = ask.top_p
        table.min_p[slot] = ask.min_p
        table.seed[slot] = ask.seed if ask.seed < 2**63 else ask.seed - 2**64
        table.gumbel[slot] = ask.gumbel
    drawn = [ask for ask in asks if ask.temperature >= 1e-5]
    features = Features(
        drawn=bool(drawn),
        max_top_k=max((ask.top_k for ask in drawn), default=0),
        all_top_k=all(ask.top_k for ask in drawn),
        top_p=any(ask.top_p < 1 for ask in drawn),
        min_p=any(ask.min_p for ask in drawn),
        inverse=any(not ask.gumbel for ask in drawn),
        gumbel=any(ask.gumbel for ask in drawn),
    )
    rows = Rows.without_drafts(slots, [ask.index for ask in asks]).to(torch.device(device))
    return table, rows, features


BAND = 1e-6


@dataclass
class Answer:
    """The token of the oracle, and how near to another the decision was."""

    token: int | None
    near: bool


def answer(logits: np.ndarray, allowed: np.ndarray, ask: Ask) -> Answer:
    """One row in float64 with a sort, by the text of the rules; ``token`` is None where there is none to take."""
    values = np.where(allowed, logits.astype(np.float64), -np.inf)
    if np.isnan(values).any() or (values == np.inf).any() or not (values > -np.inf).any():
        return Answer(None, False)
    if ask.temperature < 1e-5:
        return Answer(int(values.argmax()), False)
    temperature = float(np.float32(ask.temperature))
    ids = np.lexsort((np.arange(len(values)), -values))
    ids = ids[values[ids] > -np.inf]
    scaled = (values[ids] - values[ids[0]]) / temperature
    near = False
    if ask.min_p:
        limit = math.log(float(np.float32(ask.min_p)))
        near |= bool((np.abs(scaled - limit) < BAND * max(1.0, abs(limit))).any()) and ask.min_p < 1
        scaled = scaled[scaled >= limit]
    if ask.top_k:
        scaled = scaled[: ask.top_k]
    weights = np.exp(scaled)
    if ask.top_p < 1:
        before = np.cumsum(weights) - weights
        goal = ask.top_p * weights.sum()
        near |= bool((np.abs(before[1:] - goal) < BAND * weights.sum()).any())
        kept = before < goal
        kept[0] = True
        weights, scaled = weights[kept], scaled[kept]
    ids = ids[: len(weights)]
    if ask.gumbel:
        seed = torch.tensor([ask.seed if ask.seed < 2**63 else ask.seed - 2**64])
        noise = gumbel_noise(seed, torch.tensor([ask.index]), torch.from_numpy(ids)[None], Purpose.DRAW)[0]
        score = scaled + noise.double().numpy()
        order = np.sort(score)
        return Answer(int(ids[score.argmax()]), near or (len(score) > 1 and order[-1] - order[-2] < 1e-4))
    by_id = np.argsort(ids)
    ends = np.cumsum(weights[by_id]) / weights.sum()
    u = float(uniforms([ask.seed], [ask.index], Purpose.DRAW)[0])
    near |= bool((np.abs(ends - u) < BAND).any())
    return Answer(int(ids[by_id][min(int((ends <= u).sum()), len(ends) - 1)]), near)


def bits(allowed: torch.Tensor) -> torch.Tensor:
    """A bitmask of booleans, [N, W] int32."""
    padded = torch.nn.functional.pad(allowed, (0, -allowed.shape[1] % 32)).unflatten(1, (-1, 32)).long()
    words = (padded << torch.arange(32)).sum(dim=2)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


KINDS = [
    Ask(temperature=0.0),
    Ask(),
    Ask(temperature=0.7, top_k=1),
    Ask(temperature=1.3, top_k=50, top_p=0.9),
    Ask(top_p=0.9),
    Ask(top_p=1e-9),
    Ask(temperature=0.8, top_p=0.999),
    Ask(min_p=0.1),
    Ask(min_p=0.01, top_p=0.7),
    Ask(min_p=0.02, top_k=7, top_p=0.95),
    Ask(top_k=300),
    Ask(top_k=300, top_p=0.8, temperature=3.0),
    Ask(top_k=10**6, top_p=0.5),
    Ask(gumbel=True),
    Ask(gumbel=True, top_k=20),
    Ask(gumbel=True, top_p=0.9, temperature=2.0),
]


@dataclass
class Batch:
    """Rows of every kind over logits of many shapes."""

    logits: torch.Tensor
    allowed: torch.Tensor
    asks: list[Ask] = field(default_factory=list)


def batch(width: int, rows: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Batch:
    """Rows of every kind; the row stride is wider than the row."""
    generator = torch.Generator().manual_seed(width + 1000 * seed)
    kinds = len(KINDS)
    logits = torch.randn(rows, width + 5, generator=generator) * 4
    allowed = torch.ones(rows, width, dtype=torch.bool)
    for row in range(rows):
        shape = (row // kinds + row) % 6
        if shape == 1:  # a few tokens stand out
            logits[row, torch.randint(0, width, (40,), generator=generator)] += 15.0
        elif shape == 2:  # many ties
            logits[row] = (logits[row] / 4).round()
        elif shape == 3:  # flat
            logits[row] *= 0.02
        elif shape == 4:  # tokens that a model forbids
            logits[row, torch.rand(width + 5, generator=generator) < 0.4] = [-math.inf, -3e38][row % 2]
        if row % 3 == 1:
            allowed[row] = torch.rand(width, generator=generator) < [0.02, 0.5, 0.95][row // 3 % 3]
            allowed[row, width // 2] = True
        elif row % 9 == 2:  # one legal token
            allowed[row] = False
            allowed[row, (row * 7919) % width] = True
    asks = [replace(KINDS[row % kinds], seed=row * 2**58 % 2**64 + row, index=row * 3) for row in range(rows)]
    if dtype == torch.float16:
        logits = logits.clamp(min=-60000)
    return Batch(logits.to(dtype)[:, :width], allowed, asks)


def adjustments_of(num_slots: int, width: int, touched: int, seed: int = 0) -> Adjustments:
    """Bias and counts on random pages of every slot, the last slot having neither."""
    generator = torch.Generator().manual_seed(seed)
    num_pages = (width + PAGE - 1) // PAGE
    touched = min(touched, num_pages)

    def pages(cells: torch.Tensor) -> Pages:
        table = torch.zeros(num_slots, num_pages, dtype=torch.int16)
        numbers = torch.zeros(num_slots * touched, dtype=torch.int32)
        for slot in range(num_slots - 1):
            chosen = torch.randperm(num_pages, generator=generator)[:touched]
            table[slot, chosen] = torch.arange(1, touched + 1, dtype=torch.int16)
            numbers[slot * touched : (slot + 1) * touched] = chosen.int()
        used = torch.full((num_slots,), touched, dtype=torch.int32)
        used[-1] = 0
        base = torch.arange(0, num_slots * touched, touched, dtype=torch.int32)
        lanes = torch.rand(cells.shape, generator=generator) < 0.3
        inside = numbers[:, None] * PAGE + torch.arange(PAGE) < width
        return Pages(table, base, used, numbers, cells * (lanes & inside))

    shape = (num_slots * touched, PAGE)
    bias = pages(torch.randn(shape, generator=generator) * 3)
    counts = pages(torch.randint(1, 9, shape, generator=generator).int())
    columns = (torch.rand(num_slots, generator=generator) + start for start in (0.6, -0.3, -0.3))
    return Adjustments(bias, counts, *columns)


def on(device: str, adjustments: Adjustments) -> Adjustments:
    """The same on a device."""

    def moved(pages: Pages | None) -> Pages | None:
        return pages and Pages(*(getattr(pages, each.name).to(device) for each in fields(Pages)))

    columns = (adjustments.repetition, adjustments.presence, adjustments.frequency)
    return Adjustments(moved(adjustments.bias), moved(adjustments.counts), *(each.to(device) for each in columns))


def with_drafts(rows: DeviceRows, width: int, seed: int = 0) -> DeviceRows:
    """Rows in threes: a slot's committed place, and two behind drafts."""
    num = len(rows.slots)
    offsets = torch.arange(num) % 3
    drafts = torch.randint(0, width, (num,), generator=torch.Generator().manual_seed(seed))
    drafts[2::3] = -1
    device = rows.slots.device
    slots = rows.slots[torch.arange(num, device=device) // 3 * 3]
    return DeviceRows(slots, offsets.to(device), rows.output_indices, drafts.to(device))
