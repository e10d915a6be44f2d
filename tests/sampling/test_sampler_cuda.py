"""On a GPU every row is processed as on the CPU."""

import random
from typing import Any

import pytest
import torch

from constrain.sampling.params import SamplingParams
from constrain.sampling.sampler import RowStatus, Sampler
from tests.sampling.requests import Running, masks, random_fields, rows_of, start
from tests.sampling.test_sampler_order import Keeper, Mover, random_batch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_distributions_and_tokens_that_they_hold(seed: int, custom: bool) -> None:
    rng = random.Random(seed)
    requests = random_batch(rng, 90, drafts=True)
    logits = torch.randn(len(rows_of(requests)), 90, generator=torch.Generator().manual_seed(seed)) * 2
    processed = []
    for device in ("cpu", "cuda"):
        sampler = Sampler(90, 8, device, processors=[Keeper(), Mover()] if custom else [])
        start(sampler, requests)
        bitmask = masks(sampler, requests, 90)[0].to(device)
        sampled = sampler.sample(logits.to(device), rows_of(requests), bitmask).to_host()
        processed.append(torch.softmax(sampler.process(logits.to(device), rows_of(requests), bitmask), 1).cpu())
        for row, token in enumerate(sampled.tokens):
            is_empty = bool(processed[-1][row].isnan().any())
            assert sampled.status[row] == (RowStatus.EMPTY if is_empty else RowStatus.OK)
            assert is_empty or processed[-1][row, token] > 0
    torch.testing.assert_close(processed[0], processed[1], equal_nan=True, atol=1e-5, rtol=1e-4)


def test_logprobs_come_back_with_the_tokens() -> None:
    modes: list[Any] = ["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]
    requests = [
        Running(slot, SamplingParams(temperature=0, logprobs=slot, logprobs_mode=mode, logprob_token_ids=[3]))
        for slot, mode in enumerate(modes)
    ]
    logits = torch.randn(4, 90, generator=torch.Generator().manual_seed(0))
    found = []
    for device in ("cpu", "cuda"):
        sampler = Sampler(90, 4, device)
        start(sampler, requests)
        found.append(sampler.sample(logits.to(device), rows_of(requests)).to_host())
    assert found[0].tokens == found[1].tokens
    for row in range(4):
        ours, theirs = found[0].logprobs[row], found[1].logprobs[row]
        assert [each.token_id for each in ours.top] == [each.token_id for each in theirs.top]
        assert theirs.logprob == pytest.approx(ours.logprob, abs=1e-4) and theirs.rank == ours.rank == 1


def test_a_slot_is_changed_without_waiting_for_the_device() -> None:
    sampler = Sampler(90, 4, "cuda")
    requests = [Running(0, SamplingParams(**random_fields(random.Random(1), 90)))]
    start(sampler, requests)
    sampler.remove(0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        start(sampler, [Running(0, SamplingParams(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1, draw="gumbel"))])
        sampler.sample(torch.zeros(1, 90, device="cuda"), rows_of(requests))
    finally:
        torch.cuda.set_sync_debug_mode("default")
