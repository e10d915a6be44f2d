"""Draws against a float64 oracle and against the exact distribution."""

import numpy as np
import pytest
import torch

from constrain.sampling.ops.draw import draw_inverse
from constrain.sampling.uniform import Purpose, uniforms

BAND = 1e-6  # the draw may differ from the oracle's within this distance of a boundary


def oracle(logits: torch.Tensor, u: float) -> tuple[int, float]:
    """The token by float64 and one loop, and how near u is to the nearest boundary."""
    weights = np.exp(logits.double().numpy() - logits.max().item())
    ends = np.cumsum(weights) / weights.sum()
    survivors = np.flatnonzero(weights > 0)
    token = next((int(i) for i in survivors if ends[i] > u), int(survivors[-1]))
    return token, float(np.abs(ends - u).min())


@pytest.mark.parametrize("width", [1, 2, 33, 111, 512, 513, 32001])
def test_draws_equal_the_float64_oracle_off_the_boundaries(width: int) -> None:
    generator = torch.Generator().manual_seed(width)
    logits = torch.randn(200, width, generator=generator) * 4
    logits[::3] = logits[::3].masked_fill(torch.rand(67, width, generator=generator) < 0.9, float("-inf"))
    logits[:, width // 2] = 0.0  # no row is empty
    uniform = torch.rand(200, dtype=torch.float64, generator=generator)
    drawn = draw_inverse(logits, uniform).tolist()
    checked = 0
    for row in range(200):
        token, distance = oracle(logits[row], float(uniform[row]))
        if distance > BAND:
            checked += 1
            assert drawn[row] == token, (row, distance)
    assert checked > 150


def test_forbidden_tokens_are_never_drawn_at_the_edges_of_u() -> None:
    logits = torch.full((4, 1100), float("-inf"))
    logits[:, [700, 900]] = torch.tensor([0.0, 0.0])
    uniform = torch.tensor([0.0, 0.49999, 0.5, 1 - 2.0**-53], dtype=torch.float64)
    assert draw_inverse(logits, uniform).tolist() == [700, 700, 900, 900]


def test_a_token_of_weight_zero_is_never_drawn() -> None:
    logits = torch.tensor([[-200.0, 0.0, -200.0]])  # exp(-200) is 0 in float32
    for u in (0.0, 0.3, 1 - 2.0**-53):
        assert draw_inverse(logits, torch.tensor([u], dtype=torch.float64)).item() == 1


def test_a_million_draws_have_the_exact_distribution() -> None:
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(1, 40, generator=generator) * 1.5
    exact = torch.softmax(logits.double(), dim=1)[0].numpy()
    n = 1_000_000
    counts = np.zeros(40)
    for start in range(0, n, 5000):
        uniform = uniforms([7] * 5000, range(start, start + 5000), Purpose.DRAW)
        counts += np.bincount(draw_inverse(logits.expand(5000, -1), uniform).numpy(), minlength=40)
    chi_square = float(((counts - n * exact) ** 2 / (n * exact)).sum())
    assert chi_square < 80.1, chi_square  # 39 degrees of freedom: exceeded once in 10,000 runs, and the seed is fixed
