"""Top-k and top-p against a plain float64 loop."""

import math

import pytest
import torch

from constrain.sampling.ops.truncate import truncate_


def oracle(logits: list[float], k: int, p: float) -> set[int]:
    order = sorted((i for i, x in enumerate(logits) if x > -math.inf), key=lambda i: (-logits[i], i))[:k]
    weights = [math.exp(logits[i] - logits[order[0]]) for i in order]
    kept, mass = set(), 0.0
    for i, weight in zip(order, weights, strict=True):
        if mass >= p * math.fsum(weights) and p < 1:
            break
        kept.add(i)
        mass += weight
    return kept


@pytest.mark.parametrize("width", [1, 33, 111, 1000])
@pytest.mark.parametrize("k", [1, 2, 5, 2000])
@pytest.mark.parametrize("p", [1e-9, 0.3, 0.9, 0.999, 1.0])
def test_the_kept_tokens_are_the_oracles(width: int, k: int, p: float) -> None:
    generator = torch.Generator().manual_seed(width * k)
    logits = torch.randn(6, width, generator=generator) * 3
    logits[1] = logits[1].round()  # many ties
    logits[2] = 0.5  # all tied
    logits[3] = logits[3].masked_fill(torch.rand(width, generator=generator) < 0.7, float("-inf"))
    logits[3, width - 1] = 0.0
    truncated = truncate_(logits.clone(), torch.full((6,), min(k, width)), torch.full((6,), p, dtype=torch.float64))
    for row in range(6):
        kept = set(torch.isfinite(truncated[row]).nonzero().flatten().tolist())
        assert kept == oracle(logits[row].double().tolist(), k, p)
        assert all(truncated[row, i] == logits[row, i] for i in kept)


def test_top_k_keeps_exactly_k_and_the_lowest_ids_of_a_tie() -> None:
    logits = torch.tensor([[1.0, 3.0, 1.0, 1.0, 2.0]])
    truncated = truncate_(logits, torch.tensor([3]), torch.tensor([1.0], dtype=torch.float64))
    assert torch.isfinite(truncated).tolist() == [[True, True, False, False, True]]
