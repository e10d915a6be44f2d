"""Logprobs that a request asks for: of the model, or of the distribution drawn from."""

import math
from typing import Any

import pytest
import torch

from constrain.sampling.params import SamplingParams
from constrain.sampling.sampler import HostSample, Sampler
from constrain.sampling.wanted_logprobs import prompt_logprobs
from tests.sampling.order_oracle import distribution
from tests.sampling.requests import Running, drawn, masks, rows_of, start
from tests.sampling.test_processors import Recorder
from tests.sampling.test_sampler_order import as_wanted

SIZE, WIDE = 64, 70


def log_softmax(values: list[float]) -> list[float]:
    maximum = max(values)
    total = math.log(math.fsum(math.exp(value - maximum) for value in values)) + maximum
    return [value - total for value in values]


def ranked(values: list[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda token: (-values[token], token))


def step(requests: list[Running], logits: torch.Tensor, processors: list[Any] | None = None) -> HostSample:
    sampler = Sampler(SIZE, 8, processors=processors or [])
    start(sampler, requests)
    return drawn(sampler, requests, logits).to_host()


def some_logits(num_rows: int) -> torch.Tensor:
    return torch.randn(num_rows, WIDE, generator=torch.Generator().manual_seed(4)) * 2


def test_raw_logprobs_are_the_models_own_before_the_mask() -> None:
    fields: dict[str, Any] = {"allowed_token_ids": [5, 6], "temperature": 0.3, "presence_penalty": 2.0}
    requests = [
        Running(0, SamplingParams(logprobs=3, logprob_token_ids=[7, 60], **fields), drafts=[5]),
        Running(1, SamplingParams()),
        Running(2, SamplingParams(logprobs=0)),
        Running(3, SamplingParams(logprobs=-1)),
        Running(4, SamplingParams(logprob_token_ids=[9])),
    ]
    logits = some_logits(6)
    sample = step(requests, logits)
    assert set(sample.logprobs) == {0, 1, 3, 4, 5}
    for row, found in sample.logprobs.items():
        expected = log_softmax(logits[row, :SIZE].tolist())
        token = sample.tokens[row]
        assert (found.token_id, found.logprob) == (token, pytest.approx(expected[token], abs=1e-5))
        order = ranked(expected)
        assert found.rank == order.index(token) + 1
        count = {0: 3, 1: 3, 3: 0, 4: SIZE, 5: 0}[row]
        assert [each.token_id for each in found.top] == order[:count]
        assert [each.logprob for each in found.top] == pytest.approx([expected[i] for i in order[:count]], abs=1e-5)
        given = {0: (7, 60), 1: (7, 60), 5: (9,)}.get(row, ())
        assert found.given == tuple((i, pytest.approx(expected[i], abs=1e-5)) for i in given)


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("mode", ["processed_logprobs", "processed_logits"])
def test_processed_logprobs_are_of_the_distribution_drawn_from(mode: Any, custom: bool) -> None:
    fields: dict[str, Any] = {"logprobs": -1, "logprobs_mode": mode, "bad_words": ["c"], "frequency_penalty": 0.5}
    drawn_from = SamplingParams(temperature=0.7, min_p=0.01, top_k=20, top_p=0.9, **fields)
    requests = [
        Running(0, SamplingParams(temperature=0, **fields), prompt=[4], output=[6, 6]),
        Running(1, SamplingParams(), prompt=[4]),
        Running(2, drawn_from, prompt=[4], output=[6], drafts=[7, 7]),
    ]
    if custom:
        requests[1].params = SamplingParams(extra={"lift": 5})
    logits = some_logits(5)
    sample = step(requests, logits, [Recorder()])
    assert set(sample.logprobs) == {0, 2, 3, 4}
    legal = set(range(SIZE)) - {12, 38}
    for row, request, output in [(0, 0, [6, 6]), (2, 2, [6]), (3, 2, [6, 7]), (4, 2, [6, 7, 7])]:
        wanted = as_wanted(requests[request], custom=False)
        penalised, expected = distribution(wanted, logits[row, :SIZE].tolist(), legal, [4], output)
        if request == 0:
            expected = penalised
        elif mode == "processed_logits":  # divided by the temperature, with nothing taken off
            expected = [value + max(penalised) / 0.7 for value in expected]
        if mode == "processed_logprobs":
            expected = log_softmax(expected)
        found = sample.logprobs[row]
        assert found.logprob == pytest.approx(expected[sample.tokens[row]], abs=1e-5)
        assert {each.token_id: each.logprob for each in found.top} == pytest.approx(dict(enumerate(expected)), abs=1e-5)


def test_logprobs_change_no_token_and_none_of_another_request() -> None:
    logits = some_logits(2)
    plain = step([Running(0, SamplingParams(seed=1)), Running(1, SamplingParams(temperature=0.5))], logits)
    modes: list[Any] = ["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]
    for mode in modes:
        params = SamplingParams(seed=1, logprobs=2, logprobs_mode=mode)
        alone = step([Running(0, params)], logits[:1])
        beside = step([Running(0, params), Running(1, SamplingParams(temperature=0.5, logprobs=-1))], logits)
        assert beside.tokens == plain.tokens and alone.tokens == plain.tokens[:1]
        assert beside.logprobs[0] == alone.logprobs[0]


def test_logprobs_of_tokens_that_were_chosen_elsewhere() -> None:
    request = Running(3, SamplingParams(logprobs=1, logprobs_mode="processed_logprobs", allowed_token_ids=[5, 6]))
    sampler = Sampler(SIZE, 4)
    start(sampler, [request])
    bitmask = masks(sampler, [request], WIDE)[0]
    ((group, found),) = sampler.logprobs(some_logits(1), rows_of([request]), torch.tensor([6]), bitmask)
    values = some_logits(1)[0]
    expected = torch.log_softmax(values[[5, 6]].double(), 0)
    assert group.rows == (0,) and found.values.tolist() == [pytest.approx(expected[1].item(), abs=1e-5)]


def test_prompt_logprobs_are_of_every_token_behind_the_first() -> None:
    logits = some_logits(3)
    found = prompt_logprobs(logits, [9, 8, 7, 6], SamplingParams(prompt_logprobs=2), SIZE)
    for row, token in enumerate((8, 7, 6)):
        expected = log_softmax(logits[row, :SIZE].tolist())
        assert (found[row].token_id, found[row].logprob) == (token, pytest.approx(expected[token], abs=1e-5))
        assert [each.token_id for each in found[row].top] == ranked(expected)[:2]
