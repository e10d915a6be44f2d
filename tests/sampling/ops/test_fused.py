"""The fused sampler against a float64 oracle, against the exact distribution, and row by row."""

import math
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops import fused
from constrain.sampling.ops.adjust import adjusted
from constrain.sampling.ops.draw import draw_gumbel, draw_inverse
from constrain.sampling.ops.fused import sample_rows
from constrain.sampling.ops.truncate import truncate_
from constrain.sampling.rows import DeviceRows, Rows
from constrain.sampling.status import RowStatus
from constrain.sampling.table import Features, SlotTable
from constrain.sampling.uniform import Purpose, uniforms
from tests.sampling.ops.fused_cases import (
    KINDS,
    Ask,
    Batch,
    adjustments_of,
    answer,
    batch,
    bits,
    on,
    table_of,
    with_drafts,
)

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
needs_gpu = pytest.mark.skipif(not GPU, reason="needs a GPU")
# On the CPU the kernels are interpreted, which takes a third of a second a row.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def kernels(logits, table, rows, features, bitmask=None, adjustments=None, vocab_size=None):  # type: ignore[no-untyped-def]
    """``sample_rows`` by its kernels, on either device."""
    pytest.importorskip("triton")
    if GPU:
        return sample_rows(
            logits, table, rows, features, bitmask=bitmask, adjustments=adjustments, vocab_size=vocab_size
        )
    width = vocab_size or logits.shape[1]
    return fused._sample_rows_triton(logits, table, rows, features, bitmask, adjustments, width)


def judge(case: Batch, allowed: torch.Tensor, tokens: torch.Tensor, status: torch.Tensor) -> None:
    near = 0
    for row, ask in enumerate(case.asks):
        wanted = answer(case.logits[row].float().numpy(), allowed[row].numpy(), ask)
        near += wanted.near
        if wanted.token is None:
            assert status[row] != RowStatus.OK, (row, ask)
        elif not wanted.near:
            assert status[row] == RowStatus.OK, (row, ask)
            assert tokens[row] == wanted.token, (row, ask)
    assert near < len(case.asks) / 4


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("width", [33, 111, 1300, 32001])
def test_tokens_are_the_oracles(width: int, dtype: torch.dtype, masked: bool) -> None:
    case = batch(width, 6 * len(KINDS) if width < 2000 else 2 * len(KINDS), dtype)
    table, rows, features = table_of(case.asks)
    tokens, status = sample_rows(case.logits, table, rows, features, bitmask=bits(case.allowed) if masked else None)
    judge(case, case.allowed if masked else torch.ones_like(case.allowed), tokens, status)


@pytest.mark.parametrize("width", [128256, 151936])
def test_tokens_of_large_vocabularies_are_the_oracles(width: int) -> None:
    case = batch(width, len(KINDS), torch.float32)
    table, rows, features = table_of(case.asks)
    judge(case, case.allowed, *sample_rows(case.logits, table, rows, features, bitmask=bits(case.allowed)))


@pytest.mark.parametrize(
    ("width", "dtype", "masked", "num_rows"),
    [(33, torch.float16, True, 16), (1300, torch.float32, False, 16), (1300, torch.bfloat16, True, 16)]
    + [
        pytest.param(width, dtype, masked, 48, marks=needs_gpu)
        for width in (33, 111, 32001, 128256, 151936)
        for dtype in (torch.float32, torch.bfloat16)
        for masked in (False, True)
    ],
)
def test_the_kernels_give_the_oracles_tokens(width: int, dtype: torch.dtype, masked: bool, num_rows: int) -> None:
    case = batch(width, num_rows, dtype, seed=1)
    table, rows, features = table_of(case.asks, DEVICE)
    mask = bits(case.allowed).to(DEVICE) if masked else None
    before = case.logits.clone()
    tokens, status = kernels(case.logits.to(DEVICE), table, rows, features, mask)
    judge(case, case.allowed if masked else torch.ones_like(case.allowed), tokens.cpu(), status.cpu())
    assert torch.equal(case.logits, before), "the logits were changed"


@pytest.mark.parametrize("few", [14, 48])
def test_many_candidates_are_searched_as_few_are_compared(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flat and tied rows, more candidates than the list holds: the kernels' last resort."""
    if not GPU:
        monkeypatch.setattr(fused, "_LISTED", 128 if few == 14 else 1024)
    width = 700 if not GPU else 40000
    case = batch(width, 8, torch.float32)
    generator = torch.Generator().manual_seed(few)
    flat = torch.randn(8, width, generator=generator) * 0.1
    flat[1::2] = flat[1::2].mul(20).round() / 10  # ties across every boundary
    filters = [Ask(top_p=0.5), Ask(top_p=0.9), Ask(top_k=width // 2), Ask(top_k=width // 3, top_p=0.6)]
    filters += [Ask(min_p=0.5), Ask(min_p=0.7, top_p=0.8), Ask(gumbel=True), Ask(gumbel=True, top_p=0.7)]
    case = Batch(flat, torch.ones(8, width, dtype=torch.bool), [replace(ask, seed=few) for ask in filters])
    table, rows, features = table_of(case.asks, DEVICE)
    tokens, status = kernels(flat.to(DEVICE), table, rows, features)
    judge(case, case.allowed, tokens.cpu(), status.cpu())


def test_a_top_k_over_what_the_mask_leaves_keeps_it_all_for_the_top_p() -> None:
    allowed = torch.zeros(4, 1300, dtype=torch.bool)
    allowed[:, ::6] = True  # 217 tokens, and no row without a top-k
    logits = torch.randn(4, 1300, generator=torch.Generator().manual_seed(3))
    case = Batch(logits, allowed, [Ask(top_k=300, top_p=0.7, seed=row) for row in range(4)])
    table, rows, features = table_of(case.asks, DEVICE)
    tokens, status = kernels(logits.to(DEVICE), table, rows, features, bits(allowed).to(DEVICE))
    judge(case, allowed, tokens.cpu(), status.cpu())


@pytest.mark.parametrize("deviation", [0.5, 2.0, 3.0, 4.0])
def test_nuclei_of_any_width_are_the_oracles(deviation: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if not GPU:
        monkeypatch.setattr(fused, "_LISTED", 128)
    width, num_rows = (40000, 24) if GPU else (3000, 6)
    generator = torch.Generator().manual_seed(7)
    logits = torch.randn(num_rows, width, generator=generator) * deviation
    logits[1::3] = logits[1::3].bfloat16().float()  # thousands of equals
    logits[2::3] = torch.where(torch.rand(width, generator=generator) < 0.5, logits[2::3], -3e38)
    nuclei = [replace(KINDS[4], top_p=p, seed=row) for row, p in enumerate([0.5, 0.9, 0.9, 0.95, 0.7, 0.3])]
    asks = [replace(nuclei[row % 6], index=row, top_k=[0, width // 3][row // 6 % 2]) for row in range(num_rows)]
    table, rows, features = table_of(asks, DEVICE)
    tokens, status = kernels(logits.to(DEVICE), table, rows, features)
    case = Batch(logits, torch.ones(num_rows, width, dtype=torch.bool), asks)
    judge(case, case.allowed, tokens.cpu(), status.cpu())


def moved(rows: DeviceRows, device: str) -> DeviceRows:
    return DeviceRows(*(getattr(rows, each.name).to(device) for each in fields(rows)))


@pytest.mark.parametrize("by_kernel", [False, True])
def test_bias_penalties_and_drafts_come_before_the_draw(by_kernel: bool) -> None:
    device = DEVICE if by_kernel else "cpu"
    case = batch(1300, 12, torch.float32)
    case.asks[:] = [replace(case.asks[row // 3 * 3 + row % 1], index=row, seed=row // 3) for row in range(12)]
    table, rows, features = table_of(case.asks, device)
    rows = moved(with_drafts(moved(rows, "cpu"), 1300), device)
    adjustments = adjustments_of(len(table.seed), 1300, 20)
    run = kernels if by_kernel else sample_rows
    mask = bits(case.allowed)
    tokens, status = run(
        case.logits.to(device), table, rows, features, bitmask=mask.to(device), adjustments=on(device, adjustments)
    )
    wanted = adjusted(case.logits.float(), adjustments, moved(rows, "cpu"))
    judge(Batch(wanted, case.allowed, case.asks), case.allowed, tokens.cpu(), status.cpu())


def test_a_row_gives_its_token_in_any_batch() -> None:
    case = batch(32001, 256, torch.float32)
    table, rows, features = table_of(case.asks, DEVICE)
    logits = case.logits.to(DEVICE)
    tokens, status = sample_rows(logits, table, rows, features)
    for part in (slice(0, 1), slice(0, 8), slice(64, 128), slice(77, 78)):
        own = DeviceRows(*(getattr(rows, each.name)[part] for each in fields(rows)))
        part_tokens, part_status = sample_rows(logits[part], table, own, features)
        assert torch.equal(part_tokens, tokens[part])
        assert torch.equal(part_status, status[part])
    every = torch.full((256, 1001), -1, dtype=torch.int32, device=DEVICE)
    assert torch.equal(sample_rows(logits, table, rows, features, bitmask=every)[0], tokens)


def test_truncating_and_drawing_apart_gives_the_same_tokens() -> None:
    asks = [Ask(temperature=1 + row % 2, top_k=[0, 9, 400][row % 3], top_p=[1.0, 0.8][row % 2]) for row in range(48)]
    asks = [replace(ask, seed=row, index=row) for row, ask in enumerate(asks)]
    table, rows, features = table_of(asks, DEVICE)
    logits = torch.randn(48, 5000, generator=torch.Generator().manual_seed(2)).to(DEVICE) * 3
    tokens, _ = sample_rows(logits, table, rows, features)
    scaled = logits - logits.amax(dim=1, keepdim=True)
    scaled /= table.temperature[rows.slots][:, None]
    top_k = torch.tensor([ask.top_k or 5000 for ask in asks], device=DEVICE)
    truncate_(scaled, top_k, table.top_p[rows.slots])
    uniform = uniforms([ask.seed for ask in asks], [ask.index for ask in asks], Purpose.DRAW).to(DEVICE)
    assert (draw_inverse(scaled, uniform) == tokens).sum() >= 47  # one may lie within rounding of a boundary
    noisy = replace(features, gumbel=True)
    table.gumbel.fill_(True)
    coupled = draw_gumbel(scaled, table.seed[rows.slots], rows.output_indices)
    assert (sample_rows(logits, table, rows, noisy)[0] == coupled).sum() >= 47


@pytest.mark.parametrize("by_kernel", [False, True])
def test_statuses_name_what_a_row_cannot_give(by_kernel: bool) -> None:
    logits = torch.zeros(7, 70)
    logits[0, 5] = math.nan
    logits[1, 69] = math.inf
    logits[2] = -math.inf
    logits[4, 66] = math.nan  # past the vocabulary
    logits[5, 3] = math.nan  # forbidden
    logits[6, 64] = 9.0  # past the vocabulary
    allowed = torch.ones(7, 70, dtype=torch.bool)
    allowed[3] = False
    allowed[5, 3] = False
    device = DEVICE if by_kernel else "cpu"
    statuses = []
    for temperature in (0.0, 1.0):
        table, rows, features = table_of([Ask(temperature=temperature)] * 7, device)
        run = kernels if by_kernel else sample_rows
        for width in (64, 70):
            mask = bits(allowed).to(device)
            tokens, status = run(logits.to(device), table, rows, features, bitmask=mask, vocab_size=width)
            assert bool((tokens < width).all())
            statuses.append(status.tolist())
    assert statuses == [[2, 0, 1, 1, 0, 0, 0], [2, 2, 1, 1, 2, 0, 0]] * 2


DISTRIBUTIONS = [
    Ask(temperature=1.0),
    Ask(temperature=0.7, top_k=12),
    Ask(temperature=1.5, top_p=0.8),
    Ask(temperature=1.0, min_p=0.05, top_k=30, top_p=0.95),
    Ask(temperature=1.2, top_k=20, gumbel=True),
    Ask(gumbel=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("ask", DISTRIBUTIONS)
def test_a_million_draws_have_the_exact_distribution(ask: Ask) -> None:
    chi_square(ask, 1_000_000)


@pytest.mark.parametrize("ask", DISTRIBUTIONS)
def test_draws_have_the_exact_distribution(ask: Ask) -> None:
    chi_square(ask, 1_000_000 if GPU else 10_000)


def chi_square(ask: Ask, draws: int) -> None:
    width, at_once = 40, 10_000
    logits = torch.randn(1, width, generator=torch.Generator().manual_seed(4)) * 1.5
    table, _, features = table_of([ask], DEVICE)
    slot = table.temperature.nonzero()[0].item()
    counts = np.zeros(width)
    for start in range(0, draws, at_once):
        rows = Rows.without_drafts([int(slot)] * at_once, range(start, start + at_once)).to(torch.device(DEVICE))
        tokens, _ = sample_rows(logits.to(DEVICE).expand(at_once, -1), table, rows, features)
        counts += np.bincount(tokens.cpu().numpy(), minlength=width)
    order = np.argsort(-logits[0].numpy(), kind="stable")
    scaled = logits[0, order].double().numpy() / ask.temperature
    weights = np.exp(scaled - scaled[0])
    weights[weights < ask.min_p] = 0
    weights[ask.top_k or width :] = 0
    before = np.cumsum(weights) - weights
    weights[before >= ask.top_p * weights.sum()] = 0
    exact = np.zeros(width)
    exact[order] = weights / weights.sum()
    assert counts[exact == 0].sum() == 0
    expected = draws * exact[exact > 0]
    statistic = float(((counts[exact > 0] - expected) ** 2 / expected).sum())
    freedom = len(expected) - 1
    assert statistic < freedom + 4 * math.sqrt(2 * freedom) + 8, (statistic, freedom)  # once in some 30,000; fixed seed


def test_arguments_that_do_not_fit_are_refused() -> None:
    table, rows, features = table_of([Ask(), Ask()])
    logits, mask = torch.zeros(2, 70), torch.zeros(2, 3, dtype=torch.int32)
    with pytest.raises(InvalidInputError, match="one row for each"):
        sample_rows(torch.zeros(3, 70), table, rows, features)
    with pytest.raises(InvalidInputError, match="float64"):
        sample_rows(logits.double(), table, rows, features)
    with pytest.raises(InvalidInputError, match="vocab_size=71"):
        sample_rows(logits, table, rows, features, vocab_size=71)
    with pytest.raises(InvalidInputError, match="int64"):
        sample_rows(logits, table, rows, features, bitmask=mask.long())
    with pytest.raises(InvalidInputError, match="does not cover"):
        sample_rows(logits, table, rows, features, bitmask=mask[:, :2])


def test_a_vocabulary_that_the_kernels_cannot_count_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="up to 1044480"):
        kernels(torch.zeros(1, 1_044_481, device=DEVICE), *table_of([Ask()], DEVICE))


def test_no_rows_give_no_tokens() -> None:
    empty = Rows.without_drafts([], []).to(torch.device(DEVICE))
    tokens, status = sample_rows(torch.zeros(0, 7, device=DEVICE), SlotTable.empty(1, DEVICE), empty, Features())
    assert tokens.shape == status.shape == (0,)
    assert tokens.dtype == status.dtype == torch.int64


@needs_gpu
def test_a_graph_that_replays_sees_new_logits_and_new_indices() -> None:
    case = batch(32001, 32, torch.float32)
    table, rows, features = table_of(case.asks, DEVICE)
    logits = case.logits.contiguous().cuda()
    sample_rows(logits, table, rows, features)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens, _ = sample_rows(logits, table, rows, features)
    for step in range(3):
        logits.copy_(torch.randn_like(logits) * 3)
        rows.output_indices.fill_(step)
        graph.replay()
        assert torch.equal(tokens, sample_rows(logits, table, rows, features)[0])
