"""Functions of one request, and the processors of transformers, as they were."""

import functools
from typing import Any

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.adapters import FunctionProcessor, RequestFunctions, as_row_function
from constrain.sampling.params import SamplingParams
from constrain.sampling.sampler import Sampler
from tests.sampling.requests import Running, drawn, masks, rows_of, start

SIZE = 64


def repeat_last(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Writes the last token again, 40 at first."""
    logits[output_ids[-1] if output_ids else 40] = 1e4
    return logits


def repeat_first_of_prompt(prompt_ids: list[int], output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
    """Writes the first token of the prompt, in a new tensor."""
    assert isinstance(prompt_ids, list) and isinstance(output_ids, list)
    return torch.where(torch.arange(len(logits)) == prompt_ids[0], 1e4, logits)


class Method:
    """A function of three by its ``__call__``, whose last parameter may be left out."""

    def __call__(self, output_ids: list[int], logits: torch.Tensor, scale: float = 1e4) -> torch.Tensor:
        logits[len(output_ids)] = scale
        return logits


def tokens_of(function: Any, request: Running) -> list[int]:
    request.params = SamplingParams(extra={"logits_processors": [function]})
    sampler = Sampler(SIZE, 2)
    start(sampler, [request])
    sampled = drawn(sampler, [request], torch.zeros(len(request.drafts) + 1, SIZE))
    assert not sampled.errors, sampled.errors
    return sampled.tokens.tolist()


def test_functions_see_prompt_output_and_drafts() -> None:
    running = functools.partial(Running, 1, SamplingParams(), prompt=[33, 34])
    assert tokens_of(repeat_last, running()) == [40]
    assert tokens_of(repeat_last, running(output=[5], drafts=[6, 7])) == [5, 6, 7]
    assert tokens_of(repeat_first_of_prompt, running(output=[5], drafts=[6])) == [33, 33]
    assert tokens_of(Method(), running(output=[5], drafts=[6])) == [1, 2]
    assert tokens_of(functools.partial(repeat_first_of_prompt, [50]), running()) == [50]


def test_each_request_has_its_own_functions_and_a_failing_one_ends_it_alone() -> None:
    def broken(output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        raise ValueError("mine")

    sampler = Sampler(SIZE, 4)
    functions: list[list[Any]] = [[repeat_last], [broken], [], [repeat_last, Method()]]
    requests = [
        Running(slot, SamplingParams(temperature=0, extra={"logits_processors": each}), output=[9])
        for slot, each in enumerate(functions)
    ]
    start(sampler, requests)
    sampled = drawn(sampler, requests, torch.zeros(4, SIZE))
    assert set(sampled.errors) == {1} and "mine" in str(sampled.errors[1])
    assert sampled.tokens[[0, 2, 3]].tolist() == [9, 0, 1]


def test_a_function_for_every_request_is_a_processor() -> None:
    sampler = Sampler(SIZE, 2, processors=[FunctionProcessor(repeat_last)])
    requests = [Running(0, SamplingParams(), output=[3]), Running(1, SamplingParams(), output=[8])]
    start(sampler, requests)
    assert drawn(sampler, requests, torch.zeros(2, SIZE)).tokens.tolist() == [3, 8]


@pytest.mark.parametrize("function", [None, "f", lambda logits: logits, lambda a, b, c, d: d])
def test_what_cannot_be_adapted_is_refused_when_the_request_is_made(function: Any) -> None:
    with pytest.raises(InvalidInputError, match="want f"):
        RequestFunctions().check(SamplingParams(extra={"logits_processors": [function]}))


@pytest.mark.parametrize("value", [repeat_last, "abc"])
def test_the_functions_come_in_a_list(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="want a list"):
        RequestFunctions().check(SamplingParams(extra={"logits_processors": value}))


def test_a_function_that_returns_nothing_is_an_error() -> None:
    sampler = Sampler(SIZE, 1)
    request = Running(0, SamplingParams(extra={"logits_processors": [lambda ids, logits: None]}))
    start(sampler, [request])
    assert "it returned NoneType" in str(drawn(sampler, [request], torch.zeros(1, SIZE)).errors[0])


def test_processors_of_transformers_agree_with_our_own_parameters() -> None:
    from transformers.generation.logits_process import (
        LogitsProcessorList,
        MinPLogitsWarper,
        NoRepeatNGramLogitsProcessor,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
    )

    theirs: Any = LogitsProcessorList(
        [RepetitionPenaltyLogitsProcessor(1.3), TemperatureLogitsWarper(0.7), MinPLogitsWarper(0.05)]
    )
    ours = Running(
        0, SamplingParams(repetition_penalty=1.3, temperature=0.7, min_p=0.05), prompt=[4, 5], output=[6], drafts=[7, 4]
    )
    adapted = Running(
        1, SamplingParams(extra={"logits_processors": [theirs]}), prompt=[4, 5], output=[6], drafts=[7, 4]
    )
    sampler = Sampler(SIZE, 2)
    start(sampler, [ours, adapted])
    logits = (torch.randn(3, SIZE, generator=torch.Generator().manual_seed(5)) * 2).repeat(2, 1)
    bitmask = masks(sampler, [ours, adapted], SIZE)[0]
    processed = torch.softmax(sampler.process(logits, rows_of([ours, adapted]), bitmask), 1)
    torch.testing.assert_close(processed[:3], processed[3:])
    assert (processed == 0).any(), "min-p cut something"

    view: Any = Running(0, SamplingParams(), prompt=[1, 2], output=[1])
    function = as_row_function(NoRepeatNGramLogitsProcessor(2))
    from constrain.sampling.processors import RowView

    row = RowView(0, 0, view.params, view.prompt, view.output, ())
    assert function(torch.zeros(SIZE), row).isneginf().nonzero().flatten().tolist() == [2]
