"""Rules of verification other than drawing, through the engine: the distribution stays, and so does all else."""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from constrain import Request, SamplingParams, regex
from constrain.errors import ConstrainError, ProcessorError
from constrain.sampling.processors import RowProcessor, RowView
from constrain.source import FunctionSource
from constrain.spec import DraftModelProposer, RejectionSampler
from tests.engine.speculation import (
    STOPS,
    TEXT_IDS,
    WIDTH,
    TextSource,
    Written,
    compiled,
    ids,
    knowing,
    random_request,
    run,
    said,
    vocabulary,
)

RULES = ["rejection", "block"]


def drafting(**options: Any) -> DraftModelProposer:
    return DraftModelProposer(TextSource(near=0.5), vocabulary(), max_batch_size=512, probabilities=True, **options)


@pytest.mark.parametrize("rule", RULES)
def test_greedy_requests_are_what_they_are_without_drafts(rule: str) -> None:
    rng = random.Random(3)
    requests = [random_request(rng, index, temperature=0.0) for index in range(10)]
    plain = [said(result) for result in run(requests)]
    for proposer in (None, "forced+ngram", drafting()):
        assert [said(result) for result in run(requests, proposer=proposer, rule=rule)] == plain


def test_without_drafts_a_rule_draws_what_the_pipeline_draws() -> None:
    rng = random.Random(4)
    requests = [random_request(rng, index, draw="inverse") for index in range(10)]
    plain = [said(result) for result in run(requests)]
    same = 0
    for rule in RULES:
        for options in ({}, {"proposer": Written(lambda _, length: [])}):
            results = [said(result) for result in run(requests, rule=rule, **options)]
            assert rule == "block" or results == plain
            same += results == plain
    assert same == 2, "block draws with the seed of the step"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("drafts", ["model", "certain", "combined"])
def test_texts_have_the_distribution_of_the_model_under_its_constraint(rule: str, drafts: str) -> None:
    n, letters = 1500, ids("a", "b")
    table = {(): [0.7, 0.3], (0,): [0.2, 0.8], (1,): [0.5, 0.5]}  # by the letter before

    def rows(prefixes: list[list[int]], sharpness: float) -> torch.Tensor:
        logits = torch.full((len(prefixes), WIDTH), 0.0)
        for row, prefix in zip(logits, prefixes, strict=True):
            row[letters] = (
                sharpness * torch.tensor(table[tuple(letters.index(t) for t in prefix[1:][-1:] if t in letters)]).log()
            )
        return logits

    target = FunctionSource(lambda prefixes: rows(prefixes, 1.0), logits_width=WIDTH)
    small = FunctionSource(lambda prefixes: rows(prefixes, -0.5), logits_width=WIDTH)
    model = DraftModelProposer(small, vocabulary(), max_batch_size=512, probabilities=True)
    proposer: Any = {"model": model, "certain": Written(lambda token_ids, length: [letters[1]] * length)}.get(drafts)
    if proposer is None:
        from constrain.spec import CombinedProposer

        proposer = CombinedProposer([Written(lambda token_ids, length: [letters[0]]), model], vocabulary())
    grammar = compiled(regex("[ab]{4}"))
    allowed = [*letters, *STOPS]
    params = [SamplingParams(seed=seed, max_tokens=4, allowed_token_ids=allowed) for seed in range(n)]
    requests = [Request(prompt_ids=[5], constraint=grammar, params=each, decode=str) for each in params]
    results = run(requests, source=target, proposer=proposer, rule=rule, draft_length=3, max_batch_size=500)
    seen = Counter(result.text for result in results)
    statistic = 0.0
    for text in itertools.product((0, 1), repeat=4):
        chance = 1.0
        for before, token in zip(((), *((each,) for each in text)), text, strict=False):
            chance *= table[before][token]
        count = seen.pop("".join("ab"[token] for token in text), 0)
        statistic += (count - n * chance) ** 2 / (n * chance)
    assert not seen
    assert statistic < 45, statistic  # chi-squared with 15 degrees of freedom: once in 14,000


@pytest.mark.parametrize("rule", RULES)
def test_logprobs_are_those_of_the_tokens_that_were_chosen(rule: str) -> None:
    source = TextSource()
    params = [SamplingParams(seed=seed, max_tokens=20, logprobs=2, ignore_eos=True) for seed in range(6)]
    requests = [Request(prompt_ids=TEXT_IDS[:3], params=each) for each in params]
    results = run(requests, source=source, proposer=drafting(), rule=rule, draft_length=4)
    for result in results:
        assert result.logprobs is not None and result.speculation is not None
        assert [each.token_id for each in result.logprobs] == list(result.token_ids)
        for index, each in enumerate(result.logprobs):
            row = source.row([*TEXT_IDS[:3], *result.token_ids[:index]])
            exact = torch.log_softmax(row[: vocabulary().size].double(), dim=0)
            assert each.logprob == pytest.approx(float(exact[each.token_id]), abs=1e-5)
    assert sum(result.speculation.num_accepted for result in results if result.speculation) > 10


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_reached_and_gives_nothing_ends_its_request_alone(rule: str, value: float) -> None:
    source = TextSource()

    def logits(prefixes: list[list[int]]) -> torch.Tensor:
        rows = torch.stack([source.row(prefix) for prefix in prefixes])
        for row, prefix in zip(rows, prefixes, strict=True):
            if len(prefix) >= 8 and prefix[0] == TEXT_IDS[1]:
                row[:] = value
        return rows

    wanted = FunctionSource(logits, logits_width=WIDTH)
    params = SamplingParams(seed=1, max_tokens=12, ignore_eos=True)
    prompts = [TEXT_IDS[:3], TEXT_IDS[1:4], TEXT_IDS[:3]]
    requests = [Request(prompt_ids=prompt, params=params) for prompt in prompts]
    good, bad, other = run(requests, source=wanted, proposer=drafting(), rule=rule, max_backtracks=0)
    assert good.token_ids == other.token_ids and good.num_output_tokens == 12
    assert bad.num_output_tokens == 5 and isinstance(bad.error, ConstrainError)
    assert bad.finish_reason == ("dead_end" if value == float("-inf") else "error")


@pytest.mark.parametrize("rule", RULES)
def test_hard_fields_hold_and_the_batch_plays_no_part(rule: str) -> None:
    rng = random.Random(11)
    requests = [random_request(rng, index, temperature=1.0) for index in range(12)]
    results = run(requests, proposer=drafting(), rule=rule, draft_length=4)
    for request, result in zip(requests, results, strict=True):
        params = request.params
        forbidden = {token for token, bias in (params.logit_bias or {}).items() if bias == float("-inf")}
        assert not forbidden.intersection(result.token_ids)
        assert params.allowed_token_ids is None or set(result.token_ids) <= set(params.allowed_token_ids)
        assert result.finish_reason in ("stop", "length", "dead_end")
    for index in (0, 5, 11):
        [alone] = run([requests[index]], proposer=drafting(), rule=rule, draft_length=4)
        assert alone.token_ids == results[index].token_ids


def test_synthetic_rates_are_met_and_outputs_stay_legal() -> None:
    grammar = compiled(regex(r"[abc12 ]{60}"))
    params = [SamplingParams(seed=seed, max_tokens=50) for seed in range(24)]
    requests = [Request(prompt_ids=TEXT_IDS[:3], constraint=grammar, params=each, decode=str) for each in params]
    rule = RejectionSampler("synthetic", synthetic_rates=[0.8, 0.4, 0.0])
    proposer = Written(lambda _, length: [TEXT_IDS[0]] * length)
    results = run(requests, proposer=proposer, rule=rule, draft_length=3)
    counts = [result.speculation for result in results if result.speculation is not None]
    assert len(counts) == 24 and all(result.finish_reason in ("length", "stop") for result in results)
    for place, rate in enumerate([0.8, 0.4, 0.0]):
        proposed = sum(each.proposed_by_position[place] for each in counts)
        assert sum(each.accepted_by_position[place] for each in counts) / proposed == pytest.approx(rate, abs=0.08)


@pytest.mark.parametrize("rule", RULES)
def test_right_drafts_without_probabilities_are_taken_as_far_as_the_target_wants_them(rule: str) -> None:
    params = [SamplingParams(seed=seed, temperature=0.02, max_tokens=30, ignore_eos=True) for seed in range(6)]
    requests = [Request(prompt_ids=TEXT_IDS[: 3 + i], params=each) for i, each in enumerate(params)]
    outputs = {tuple(r.prompt_ids): each.token_ids for r, each in zip(requests, run(requests), strict=True)}
    results = run(requests, proposer=knowing(outputs), rule=rule, draft_length=4)
    assert sum(result.speculation.num_accepted for result in results if result.speculation is not None) > 30


@pytest.mark.parametrize("rule", RULES)
def test_a_processor_that_fails_on_one_request_ends_no_other(rule: str) -> None:
    class FailsLate(RowProcessor):
        extra_fields = frozenset({"fails"})

        def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
            return bool((params.extra or {}).get("fails"))

        def process_row(self, logits: torch.Tensor, row: RowView) -> torch.Tensor:
            if len(row.written_ids) >= 3:
                raise RuntimeError("not past three")
            return logits

    def request(index: int, **fields: Any) -> Request:
        params = SamplingParams(seed=index, max_tokens=12, ignore_eos=True, **fields)
        return Request(prompt_ids=[TEXT_IDS[index]] * 4, params=params)

    options: dict[str, Any] = {"processors": [FailsLate()], "rule": rule, "proposer": "ngram", "draft_length": 3}
    failed, whole = run([request(0, extra={"fails": True}), request(1)], **options)
    assert failed.finish_reason == "error" and isinstance(failed.error, ProcessorError)
    assert failed.num_output_tokens == 3 and "not past three" in str(failed.error)
    assert said(whole)[0] == said(run([request(1)], **options)[0])[0] and whole.num_output_tokens == 12
