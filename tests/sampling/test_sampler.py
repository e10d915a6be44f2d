"""One token and one status a row, whatever stands beside it."""

from typing import Any

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.params import SamplingParams
from constrain.sampling.rows import Rows
from constrain.sampling.sampler import RowStatus, Sampler
from tests.sampling.requests import Running, rows_of, sample, start

GREEDY = SamplingParams(temperature=0)


def statuses(logits: torch.Tensor, params: SamplingParams) -> list[int]:
    n = len(logits)
    return sample(logits, [params] * n, [1] * n, [0] * n)[1].tolist()


def test_greedy_takes_the_lowest_id_of_a_tie() -> None:
    logits = torch.zeros(3, 1000)
    logits[1, [70, 900]] = 2.0
    logits[2, 999] = 0.1
    assert sample(logits, [GREEDY] * 3, [0] * 3, [0] * 3)[0].tolist() == [0, 70, 999]


def test_the_status_says_what_is_wrong_with_a_row() -> None:
    for params in (GREEDY, SamplingParams(), SamplingParams(top_k=2), SamplingParams(top_p=0.5)):
        logits = torch.randn(5, 700)
        logits[1] = float("-inf")
        logits[2, 600] = float("nan")
        logits[3, 5] = float("inf")
        logits[4, :-1] = float("-inf")
        expected = [RowStatus.OK, RowStatus.EMPTY, RowStatus.NOT_FINITE, RowStatus.NOT_FINITE, RowStatus.OK]
        assert statuses(logits, params) == expected


def test_a_row_does_not_depend_on_its_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 3000, generator=generator) * 3
    params = [
        SamplingParams(temperature=(row % 4) * 0.5, top_k=[0, 5, 50][row % 3], top_p=[1.0, 0.9][row % 2])
        for row in range(64)
    ]
    seeds, indices = list(range(64)), [row * 3 for row in range(64)]
    together = sample(logits.clone(), params, seeds, indices)[0].tolist()
    for size in (1, 8):
        for first in range(0, 64, size):
            part = slice(first, first + size)
            alone = sample(logits[part].clone(), params[part], seeds[part], indices[part])[0].tolist()
            assert alone == together[part]


def test_huge_logits_and_temperatures_do_not_overflow() -> None:
    lowest = torch.finfo(torch.float32).min
    logits = torch.full((1, 97), float("-inf"))
    logits[0, [33, 34]] = lowest  # what some models give to all that they forbid
    for temperature in (1e-5, 0.7, 1e30):
        tokens, status = sample(logits.clone(), [SamplingParams(temperature=temperature)], [1], [0])
        assert (tokens.item() in (33, 34), status.item()) == (True, RowStatus.OK)
    logits = torch.zeros(1, 97)
    logits[0, [5, 7]] = 1e35
    drawn = {sample(logits.clone(), [SamplingParams(temperature=1e-4)], [1], [i])[0].item() for i in range(40)}
    assert drawn == {5, 7}


def test_masked_tokens_are_never_drawn() -> None:
    logits = torch.full((500, 600), float("-inf"))
    logits[:, [3, 555]] = torch.tensor([1.0, 1.5])
    tokens = sample(logits, [SamplingParams(temperature=3.0)] * 500, [4] * 500, range(500))[0]
    assert set(tokens.tolist()) == {3, 555}


def test_a_request_that_forbids_tokens_is_not_sampled_without_a_mask() -> None:
    sampler = Sampler(64, 2)
    request = Running(1, SamplingParams(min_tokens=2))
    start(sampler, [request])
    with pytest.raises(InvalidInputError, match=r"slots \[1\]"):
        sampler.sample(torch.zeros(1, 64), rows_of([request]))
    request.output += [5, 5]
    sampler.sample(torch.zeros(1, 64), rows_of([request]))


def test_a_slot_is_taken_once_and_freed_for_the_next() -> None:
    sampler = Sampler(64, 2)
    first, second = Running(0, SamplingParams(logit_bias={7: 50.0})), Running(0, SamplingParams())
    start(sampler, [first])
    with pytest.raises(InvalidInputError, match="slot 0"):
        start(sampler, [second])
    assert sampler.sample(torch.zeros(1, 64), rows_of([first])).tokens.tolist() == [7]
    sampler.remove(0)
    start(sampler, [second])
    tokens = {int(sampler.sample(torch.zeros(1, 64), Rows.without_drafts([0], [i])).tokens) for i in range(20)}
    assert len(tokens) > 5


def test_logits_of_another_shape_are_refused() -> None:
    sampler = Sampler(64, 2)
    request = Running(0, SamplingParams())
    start(sampler, [request])
    for shape in ((1, 63), (2, 64), (64,)):
        with pytest.raises(InvalidInputError, match="want"):
            sampler.sample(torch.zeros(shape), rows_of([request]))


def test_prompts_may_hold_ids_past_the_vocabulary() -> None:
    sampler = Sampler(64, 2)
    request = Running(0, SamplingParams(temperature=0, repetition_penalty=2.0), prompt=[70, 5])
    start(sampler, [request])
    logits = torch.zeros(1, 80)
    logits[0, [5, 6, 70]] = torch.tensor([1.5, 1.0, 9.0])
    assert sampler.sample(logits, rows_of([request])).tokens.tolist() == [6]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_logits_of_every_floating_dtype_are_read_and_left_alone(dtype: torch.dtype) -> None:
    sampler = Sampler(64, 1)
    request = Running(0, SamplingParams(top_k=5, presence_penalty=1.0, logit_bias={3: 1.0}), output=[4])
    start(sampler, [request])
    logits = torch.randn(1, 64, generator=torch.Generator().manual_seed(2)).to(dtype)
    before = logits.clone()
    token = sampler.sample(logits, rows_of([request])).tokens
    assert torch.equal(token, sampler.sample(logits.float(), rows_of([request])).tokens)
    assert torch.equal(logits, before)


def test_rows_of_slots_without_a_request_are_refused() -> None:
    sampler = Sampler(64, 2)
    start(sampler, [Running(1, GREEDY)])
    for slots in ([0], [1, 0], [2], [-1]):
        with pytest.raises(InvalidInputError, match="hold no request"):
            sampler.sample(torch.zeros(len(slots), 64), Rows.without_drafts(slots, [0] * len(slots)))


@pytest.mark.parametrize("seed", [-1, 2**64, None, 1.5])
def test_a_seed_that_is_not_of_64_bits_is_refused_and_takes_no_slot(seed: Any) -> None:
    sampler = Sampler(64, 1)
    restrictions = sampler.resolve(GREEDY, stop_token_ids=[2], tokenize=lambda text: [])
    with pytest.raises(InvalidInputError, match="seed="):
        sampler.add(0, GREEDY, seed, [1], [], restrictions)
    sampler.add(0, GREEDY, 2**64 - 1, [1], [], restrictions)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_numbers_that_are_no_logits_are_refused(dtype: torch.dtype) -> None:
    sampler = Sampler(64, 1)
    start(sampler, [Running(0, GREEDY)])
    with pytest.raises(InvalidInputError, match="want floating"):
        sampler.sample(torch.zeros(1, 64, dtype=dtype), Rows.without_drafts([0], [0]))
