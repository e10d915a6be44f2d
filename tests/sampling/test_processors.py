"""Processors: told of requests, run where they are wanted, and failing alone."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from constrain.errors import InvalidInputError, ProcessorError
from constrain.sampling.params import SamplingParams
from constrain.sampling.processors import LogitsProcessor, RowProcessor, RowView
from constrain.sampling.sampler import RowStatus, Sampler
from tests.sampling.requests import Running, drawn, masks, random_fields, rows_of, start

SIZE = 64


class Recorder(LogitsProcessor):
    """Serves requests that have ``extra={"lift": token}``: lifts the token, and writes down what it is told."""

    extra_fields = frozenset({"lift"})

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.tokens: dict[int, int] = {}
        self.seen: list[tuple[int, int, list[int]]] = []

    def setup(self, vocab_size: int, num_slots: int, device: torch.device) -> None:
        self.told.append(("setup", vocab_size, num_slots, device.type))

    def check(self, params: SamplingParams) -> None:
        if (params.extra or {}).get("lift") == "bad":
            raise InvalidInputError("lift='bad': want a token")

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        self.told.append(("add", slot))
        self.tokens[slot] = (params.extra or {}).get("lift", -1)
        return self.tokens[slot] >= 0

    def remove(self, slot: int) -> None:
        self.told.append(("remove", slot))

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        for index, row in enumerate(rows):
            self.seen.append((row.slot, row.offset, row.written_ids))
            logits[index, self.tokens[row.slot]] = 1e4
        return logits


class Failing(LogitsProcessor):
    """Raises for all rows at once."""

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        if slot == 3:
            raise KeyError("no room")
        return slot == 1

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        logits.fill_(float("nan"))
        raise RuntimeError("broken")


class FailingTogether(LogitsProcessor):
    """Lifts 9; raises, its work half done, where the row of slot 1 or a second draft is among its rows, or `most` are.

    Where `returns`, it does not raise but returns what is no logits.
    """

    def __init__(self, most: int = 100, *, returns: bool = False) -> None:
        self.most = most
        self.returns = returns

    def add(self, *arguments: Any) -> bool:
        return True

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        assert logits.shape[0] == len(rows)
        logits[:, 9] += 10.0
        if len(rows) < self.most and not any(row.slot == 1 or row.offset == 2 for row in rows):
            return logits
        logits.fill_(float("nan"))
        if self.returns:
            return logits[:, :3]
        raise RuntimeError("broken")


class FailingRow(RowProcessor):
    """Raises for the row of slot 1."""

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        return True

    def process_row(self, logits: torch.Tensor, row: RowView) -> torch.Tensor:
        if row.slot == 1:
            raise RuntimeError("broken")
        return torch.where(torch.arange(len(logits)) == row.slot, 100.0, logits)


class Returning(LogitsProcessor):
    """Returns what it was made with; for one slot, or for all."""

    def __init__(self, result: Any, *, slot: int | None = None) -> None:
        self.result = result
        self.slot = slot

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        return self.slot in (None, slot)

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        return self.result  # type: ignore[no-any-return]


def test_a_processor_is_told_of_requests_and_sees_only_the_rows_that_it_wants() -> None:
    recorder = Recorder()
    sampler = Sampler(SIZE, 4, processors=[recorder])
    wants = Running(2, SamplingParams(extra={"lift": 9}), output=[5], drafts=[9, 9])
    other = Running(0, SamplingParams())
    start(sampler, [wants, other])
    tokens = drawn(sampler, [other, wants], torch.zeros(4, SIZE)).tokens.tolist()
    assert tokens[1:] == [9, 9, 9]
    assert recorder.seen == [(2, 0, [5]), (2, 1, [5, 9]), (2, 2, [5, 9, 9])]
    wants.output.append(9)
    wants.drafts = []
    drawn(sampler, [wants], torch.zeros(1, SIZE))
    assert recorder.seen[-1] == (2, 0, [5, 9]), "the output that it sees is the live one"
    sampler.remove(2)
    assert recorder.told == [("setup", SIZE, 4, "cpu"), ("add", 2), ("add", 0), ("remove", 2)]
    start(sampler, [again := Running(2, SamplingParams())])
    drawn(sampler, [again], torch.zeros(1, SIZE))
    assert len(recorder.seen) == 4


def test_the_other_rows_of_a_batch_draw_what_they_draw_without_processors() -> None:
    requests = [Running(slot, SamplingParams(temperature=0.7, top_p=0.9), seed=slot) for slot in range(3)]
    logits = torch.randn(3, SIZE, generator=torch.Generator().manual_seed(0)) * 3
    plain, with_processor = Sampler(SIZE, 4), Sampler(SIZE, 4, processors=[Recorder()])
    start(plain, requests)
    requests[1].params = SamplingParams(temperature=0.7, top_p=0.9, extra={"lift": 4})
    start(with_processor, requests)
    expected, got = drawn(plain, requests, logits).tokens, drawn(with_processor, requests, logits).tokens
    assert got.tolist() == [expected[0], 4, expected[2]]


@pytest.mark.parametrize("keeps_argmax", [False, True])
def test_a_processor_that_changes_nothing_changes_no_token(keeps_argmax: bool) -> None:
    rng = random.Random(3)
    requests = [
        Running(slot, SamplingParams(**random_fields(rng, SIZE)), seed=slot, output=[5, slot]) for slot in range(40)
    ]
    logits = torch.randn(40, SIZE, generator=torch.Generator().manual_seed(0)) * 3
    idle = Returning(None)
    idle.process = lambda logits, rows: logits  # type: ignore[method-assign]
    idle.keeps_argmax = keeps_argmax
    plain, with_processor = Sampler(SIZE, 40), Sampler(SIZE, 40, processors=[idle])
    for sampler in (plain, with_processor):
        start(sampler, requests)
    expected, got = drawn(plain, requests, logits), drawn(with_processor, requests, logits)
    ok = expected.status == RowStatus.OK
    assert torch.equal(got.status, expected.status) and torch.equal(got.tokens[ok], expected.tokens[ok])


@pytest.mark.parametrize("keeps_argmax", [False, True])
def test_what_is_forbidden_stays_forbidden_whatever_a_processor_does(keeps_argmax: bool) -> None:
    processor = Returning(torch.zeros(1, SIZE))
    processor.keeps_argmax = keeps_argmax
    sampler = Sampler(SIZE, 1, processors=[processor])
    request = Running(0, SamplingParams(allowed_token_ids=[7, 8], logit_bias={8: float("-inf")}))
    start(sampler, [request])
    assert drawn(sampler, [request], torch.zeros(1, SIZE)).tokens.tolist() == [7]


def test_unknown_extra_fields_and_refused_parameters_are_errors_at_the_door() -> None:
    sampler = Sampler(SIZE, 1, processors=[Recorder()])
    for extra, message in (({"lfit": 1}, "lfit.*lift"), ({"lift": "bad"}, "want a token")):
        with pytest.raises(InvalidInputError, match=message):
            sampler.resolve(SamplingParams(extra=extra), stop_token_ids=[2], tokenize=lambda text: [1])


def test_a_processor_that_fails_for_the_batch_costs_the_rows_that_use_it() -> None:
    sampler = Sampler(SIZE, 4, processors=[Failing()])
    requests = [Running(0, SamplingParams()), Running(1, SamplingParams(), drafts=[4])]
    start(sampler, requests)
    logits = torch.zeros(3, SIZE)
    logits[0, 11] = 100.0
    sampled = drawn(sampler, requests, logits)
    assert set(sampled.errors) == {1, 2} and sampled.tokens[0] == 11 and sampled.status[0] == 0
    assert "test_processors:Failing failed: RuntimeError: broken" in str(sampled.errors[1])
    assert isinstance(sampled.errors[1].__cause__, RuntimeError)


@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("beside", [False, True])
def test_where_rows_fail_together_those_that_fail_alone_are_at_fault(beside: bool, returns: bool) -> None:
    processor, greedy = FailingTogether(returns=returns), SamplingParams(temperature=0)
    sampler = Sampler(SIZE, 4, processors=[processor])
    requests = [Running(0, greedy, drafts=[9, 9]), Running(1, greedy), Running(2, greedy)]
    if beside:  # a request that the processor does not touch, so that it is given a part of the rows
        processor.add = lambda slot, *rest: slot != 3  # type: ignore[method-assign]
        requests.append(Running(3, greedy))
    start(sampler, requests)
    sampled = drawn(sampler, requests, torch.zeros(5 + beside, SIZE))
    assert set(sampled.errors) == {2, 3}
    assert sampled.tokens.tolist()[:2] == [9, 9] and sampled.tokens.tolist()[4:] == [9] + [0] * beside
    assert "test_processors:FailingTogether failed" in str(sampled.errors[3])


def test_rows_that_fail_together_and_none_alone_are_processed_alone_with_a_warning() -> None:
    sampler = Sampler(SIZE, 4, processors=[FailingTogether(2)])
    requests = [Running(slot, SamplingParams(temperature=0)) for slot in (0, 2)]
    start(sampler, requests)
    with pytest.warns(RuntimeWarning, match="FailingTogether failed on rows together, and on none alone: .*broken"):
        sampled = drawn(sampler, requests, torch.zeros(2, SIZE))
    assert sampled.tokens.tolist() == [9, 9] and not sampled.errors


def test_a_processor_of_rows_that_fails_costs_its_row() -> None:
    sampler = Sampler(SIZE, 4, processors=[FailingRow()])
    requests = [Running(slot, SamplingParams()) for slot in range(3)]
    start(sampler, requests)
    sampled = drawn(sampler, requests, torch.zeros(3, SIZE))
    assert set(sampled.errors) == {1}
    assert sampled.tokens[[0, 2]].tolist() == [0, 2]


def test_a_processor_that_refuses_a_request_leaves_its_slot_free() -> None:
    recorder = Recorder()
    sampler = Sampler(SIZE, 4, processors=[recorder, Failing()])
    with pytest.raises(ProcessorError, match="Failing refused the request: KeyError"):
        start(sampler, [Running(3, SamplingParams(extra={"lift": 9}))])
    assert recorder.told[1:] == [("add", 3), ("remove", 3)]
    with pytest.raises(InvalidInputError, match="slot 3"):
        sampler.remove(3)


class Raising(Recorder):
    """Raises where it is told to."""

    def __init__(self, where: str) -> None:
        super().__init__()
        setattr(self, where, self._raise)

    def _raise(self, *arguments: Any) -> None:
        raise OSError("no file")


def test_a_processor_that_cannot_be_set_up_is_named() -> None:
    with pytest.raises(InvalidInputError, match="test_processors:Raising cannot be set up: OSError"):
        Sampler(SIZE, 1, processors=[Raising("setup")])


def test_a_processor_that_fails_to_check_is_named_and_one_that_fails_at_the_end_costs_nothing() -> None:
    with pytest.raises(ProcessorError, match="test_processors:Raising refused the request: OSError"):
        start(Sampler(SIZE, 1, processors=[Raising("check")]), [Running(0, SamplingParams())])
    last = Recorder()
    sampler = Sampler(SIZE, 1, processors=[Raising("remove"), last])
    start(sampler, [Running(0, SamplingParams())])
    with pytest.warns(RuntimeWarning, match="Raising raised when a request ended"):
        sampler.remove(0)
    assert last.told[-1] == ("remove", 0)
    start(sampler, [Running(0, SamplingParams())])


def test_a_row_that_failed_is_not_given_to_the_processors_behind() -> None:
    recorder, keeping = Recorder(), Recorder()
    keeping.keeps_argmax = True
    sampler = Sampler(SIZE, 4, processors=[FailingRow(), recorder, keeping])
    requests = [Running(slot, SamplingParams(extra={"lift": 9})) for slot in range(2)]
    start(sampler, requests)
    assert set(drawn(sampler, requests, torch.zeros(2, SIZE)).errors) == {1}
    assert recorder.seen == keeping.seen == [(0, 0, [])]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(
    "result",
    [
        None,
        torch.zeros(1, SIZE + 1),
        torch.zeros(1, SIZE, dtype=torch.int64),
        torch.zeros(1, SIZE, device="meta"),
        torch.zeros(1, SIZE).to_sparse(),
    ],
)
def test_what_is_not_logits_is_an_error_that_names_the_processor(result: Any, beside: bool) -> None:
    sampler = Sampler(SIZE, 2, processors=[Returning(result, slot=0)])
    requests = [Running(slot, SamplingParams()) for slot in range(1 + beside)]
    start(sampler, requests)
    errors = drawn(sampler, requests, torch.zeros(len(requests), SIZE)).errors
    assert list(errors) == [0] and "Returning failed" in str(errors[0])


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("change", [torch.Tensor.double, torch.Tensor.bfloat16, torch.Tensor.requires_grad_])
def test_logits_of_another_dtype_or_with_gradients_are_logits(change: Any, beside: bool) -> None:
    sampler = Sampler(SIZE, 2, processors=[Returning(change(torch.eye(1, SIZE) * 1000), slot=0)])
    requests = [Running(slot, SamplingParams(logprobs=1)) for slot in range(1 + beside)]
    start(sampler, requests)
    sample = drawn(sampler, requests, torch.zeros(len(requests), SIZE))
    assert sample.tokens[0] == 0 and not sample.errors


def test_gradients_that_a_processor_brings_in_end_with_it() -> None:
    class Trained(Recorder):
        def add(self, *arguments: Any) -> bool:
            return True

        def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
            return logits.add_(torch.nn.Parameter(torch.eye(1, SIZE) * 1000))

    sampler = Sampler(SIZE, 1, processors=[Trained()])
    request = Running(0, SamplingParams(bad_words=["b"], repetition_penalty=1.5))
    start(sampler, [request])
    sample = drawn(sampler, [request], torch.zeros(1, SIZE))
    assert sample.tokens[0] == 0 and not sample.tokens.requires_grad and not sample.errors


def test_an_answer_that_is_neither_yes_nor_no_is_named() -> None:
    class Unclear(Recorder):
        def add(self, *arguments: Any) -> Any:
            return torch.ones(2)

    with pytest.raises(ProcessorError, match="Unclear refused the request: RuntimeError"):
        start(Sampler(SIZE, 1, processors=[Unclear()]), [Running(0, SamplingParams())])


def test_a_distribution_that_a_processor_failed_on_is_not_given() -> None:
    sampler = Sampler(SIZE, 2, processors=[Failing()])
    requests = [Running(slot, SamplingParams()) for slot in range(2)]
    start(sampler, requests)
    with pytest.raises(ProcessorError, match="Failing failed: RuntimeError: broken"):
        sampler.process(torch.zeros(2, SIZE), rows_of(requests))


def test_a_processor_that_keeps_the_argmax_does_not_see_greedy_rows() -> None:
    processor = Returning(torch.zeros(1, SIZE))
    processor.keeps_argmax = True
    sampler = Sampler(SIZE, 2, processors=[processor])
    requests = [Running(0, SamplingParams(temperature=0)), Running(1, SamplingParams(top_k=1))]
    start(sampler, requests)
    logits = torch.zeros(2, SIZE)
    logits[:, 30] = 1.0
    bitmask = masks(sampler, requests, SIZE)[0]
    assert sampler.sample(logits, rows_of(requests), bitmask).tokens.tolist() == [30, 0]
