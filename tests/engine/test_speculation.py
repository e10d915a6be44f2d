"""Speculation never changes an output: each request is, token for token, what it is one token at a time."""

import itertools
import math
import random
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from constrain import Engine, InvalidInputError, Request, SamplingParams, agenerate, generate, regex, stream
from constrain.reasoning import Reasoning
from constrain.source import FunctionSource
from constrain.spec import AdaptiveLength, Draft, DraftModelProposer, LengthByBatch, Proposer, RejectionSampler
from tests.engine.speculation import (
    STOPS,
    TEXT_IDS,
    THINKING,
    WIDTH,
    Halver,
    TextSource,
    Written,
    bad_proposers,
    compiled,
    ids,
    knowing,
    no_repeat,
    random_request,
    run,
    said,
    vocabulary,
)

SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 100))]
PROPOSERS = ["forced", "grammar", "ngram", "forced+ngram", "model", "another model"]


def proposer_of(name: str) -> str | Proposer:
    if name == "model":
        return DraftModelProposer(TextSource(near=0.2), vocabulary(), max_batch_size=7)
    if name == "another model":
        return DraftModelProposer(TextSource(9), vocabulary())
    return name


@pytest.mark.parametrize("seed", SEEDS)
def test_every_request_is_what_it_is_without_drafts_whoever_drafts(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice([1, 2, 5, 16] if seed < 4 else [1, 2, 5, 16, 64])
    requests = [random_request(rng, index) for index in range(size)]
    plain = [said(result) for result in run(requests)]
    # One after the other, too: the batch is none of a request's business.
    assert [said(result) for result in run(requests[:3], max_batch_size=1)] == plain[:3]
    for name, length in zip(PROPOSERS, rng.sample(range(1, 9), len(PROPOSERS)), strict=True):
        batch_size = rng.choice([size, max(1, size // 3)])
        results = run(requests, proposer=proposer_of(name), draft_length=length, max_batch_size=batch_size)
        for one, other, request in zip(results, plain, requests, strict=True):
            assert said(one) == other, (name, length, request)


LENGTHS = [*((n, 4) for n in range(1, 8)), (8, 64), *(pytest.param(n, 64, marks=pytest.mark.slow) for n in range(1, 8))]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(("length", "count"), LENGTHS)
def test_every_length_and_batch_size_gives_the_same(length: int, count: int, temperature: float) -> None:
    rng = random.Random(length)
    requests = [random_request(rng, index, temperature=temperature, draw="gumbel") for index in range(count)]
    plain = [said(result) for result in run(requests)]
    for size, name in ((count, "forced+ngram"), (3, "model"), (1, "model")):
        some = requests if size == count else requests[:4]
        results = run(some, proposer=proposer_of(name), draft_length=length, max_batch_size=size)
        assert [said(result) for result in results] == plain[: len(some)], (size, name)


@pytest.mark.parametrize("wrong_every", [0, 1, 2, 3, 5])
def test_drafts_that_are_right_up_to_any_place_change_nothing_but_the_number_of_steps(wrong_every: int) -> None:
    rng = random.Random(wrong_every)
    requests = [random_request(rng, index) for index in range(12)]
    plain = run(requests)
    outputs = {tuple(request.prompt_ids): result.token_ids for request, result in zip(requests, plain, strict=True)}
    source, proposer = TextSource(), knowing(outputs, wrong_every=wrong_every)
    results = run(requests, source=source, proposer=proposer, draft_length=4)
    assert [said(result) for result in results] == [said(result) for result in plain]
    if wrong_every == 0:
        longest = max(result.num_output_tokens for result in plain if not result.num_backtracks)
        assert source.num_calls >= math.ceil(longest / 5)
        for result in results:
            if not result.num_backtracks and result.num_output_tokens > 10 and STOPS[0] not in result.token_ids:
                assert result.speculation is not None
                assert result.speculation.num_accepted >= result.num_output_tokens * 4 // 5 - 1
    assert not proposer.held


@pytest.mark.parametrize("name", bad_proposers())
def test_a_proposer_of_no_use_changes_nothing(name: str) -> None:
    rng = random.Random(5)
    requests = [random_request(rng, index) for index in range(8)]
    plain = [said(result) for result in run(requests)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name == "not ids" else "error")
        results = run(requests, proposer=bad_proposers()[name], draft_length=5)
    assert [said(result) for result in results] == plain


def test_a_proposer_that_raises_now_and_then_is_warned_of_once_and_requests_go_on() -> None:
    calls = itertools.count()

    def write(token_ids: Sequence[int], length: int) -> list[int]:
        if next(calls) % 7 == 3:
            raise MemoryError("no room")
        return [token_ids[-1]] * length

    rng = random.Random(1)
    requests = [random_request(rng, index) for index in range(8)]
    with pytest.warns(RuntimeWarning, match="Written raised MemoryError: no room") as warned:
        results = run(requests, proposer=Written(write))
    assert len(warned) == 1
    assert [said(result) for result in results] == [said(result) for result in run(requests)]
    assert any(result.speculation is not None and result.speculation.num_accepted for result in results)


class Careless(Proposer):
    """Leaves grammars where its drafts end, or takes committed tokens back."""

    def __init__(self) -> None:
        self.steps = 0

    def propose(self, views: Any, grammars: Any, lengths: Any, keys: Any) -> list[Draft]:
        self.steps += 1
        for grammar in grammars:
            if grammar is not None and self.steps % 2:
                grammar.accept(grammar.forced_tokens())
            elif grammar is not None:
                grammar.rollback(grammar.num_accepted)
        return [Draft((TEXT_IDS[0],))] * len(views)


def test_grammars_are_put_back_wherever_a_proposer_leaves_them() -> None:
    rng = random.Random(2)
    requests = [random_request(rng, index) for index in range(16)]
    plain = run(requests)
    assert sum(request.constraint is not None for request in requests) > 5
    assert [said(result) for result in run(requests, proposer=Careless())] == [said(result) for result in plain]


def test_dead_ends_inside_a_draft_lead_back_as_they_do_without() -> None:
    # Bad words forbid the only end of one branch, which dies three tokens in.
    grammar = compiled(regex(r"(?:a[12]{3}|c\[[12]{2}\]|c1)+x"))
    fields: dict[str, Any] = {"bad_words": ("]",), "max_tokens": 30}
    requests = [
        Request(
            prompt_ids=[*TEXT_IDS[:index], TEXT_IDS[0]],
            constraint=grammar,
            decode=str,
            params=SamplingParams(seed=seed, temperature=temperature, logprobs=1, frequency_penalty=0.3, **fields),
        )
        for index, seed in enumerate(range(4))
        for temperature in (0.0, 1.3)
    ]
    plain = run(requests)
    assert sum(result.num_backtracks for result in plain) > 3
    outputs = {tuple(request.prompt_ids): result.token_ids for request, result in zip(requests, plain, strict=True)}
    for proposer in ("forced+ngram", proposer_of("model"), knowing(outputs)):
        for length in (1, 3, 8):
            results = run(requests, proposer=proposer, draft_length=length)
            assert [said(result) for result in results] == [said(result) for result in plain]


def test_stop_strings_do_not_see_what_a_dead_end_took_back() -> None:
    a, b, one = TEXT_IDS[0], TEXT_IDS[1], TEXT_IDS[3]
    script = {0: a, 1: b, 2: one}  # then nothing: a dead end, behind which "1" is banned

    def logits(prefixes: list[list[int]]) -> torch.Tensor:
        rows = torch.full((len(prefixes), WIDTH), float("-inf"))
        for row, prefix in zip(rows, prefixes, strict=True):
            output = prefix[1:]
            if output[-1:] != [one]:
                row[script.get(len(output), a)], row[b] = 2.0, 1.0
        return rows

    source = FunctionSource(logits, logits_width=WIDTH)
    params = SamplingParams(temperature=0.0, stop=["1b"], max_tokens=6)
    for proposer in (None, Written(lambda _, length: [a, b, one, b][:length])):
        [result] = run([Request(prompt_ids=[a], params=params)], source=source, proposer=proposer)
        assert result.num_backtracks == 1 and result.stop_reason is None
        assert result.token_ids == (a, b, b, a, a, a), "1 was taken back, so 1b stands nowhere"


@pytest.mark.parametrize(
    ("fields", "length", "reason"),
    [
        ({"max_tokens": 3}, 3, "length"),
        ({"stop": ["b1"]}, 3, "stop"),
        ({"stop_token_ids": [TEXT_IDS[3]]}, 3, "stop"),
        ({}, 5, "stop"),
        ({"ignore_eos": True, "max_tokens": 7}, 7, "length"),
    ],
)
def test_what_stands_in_a_draft_behind_the_end_is_dropped(fields: dict[str, Any], length: int, reason: str) -> None:
    script = [TEXT_IDS[0], TEXT_IDS[1], TEXT_IDS[3], TEXT_IDS[4], STOPS[0], TEXT_IDS[0], TEXT_IDS[0], TEXT_IDS[0]]

    def logits(prefixes: list[list[int]]) -> torch.Tensor:
        rows = torch.zeros(len(prefixes), WIDTH)
        for row, prefix in zip(rows, prefixes, strict=True):
            row[script[min(len(prefix) - 1, 7)]] = 9.0
        return rows

    source = FunctionSource(logits, logits_width=WIDTH)
    params = SamplingParams(**({"temperature": 0.0, "logprobs": 0, "max_tokens": 20} | fields))
    proposer = Written(lambda token_ids, length: script[len(token_ids) - 1 :][:length])
    [result] = run([Request(prompt_ids=[5], params=params)], source=source, proposer=proposer, draft_length=8)
    assert result.token_ids == tuple(script[:length]) and result.finish_reason == reason
    assert result.logprobs is not None and len(result.logprobs) == length
    assert result.speculation is not None and result.speculation.num_accepted <= length


def test_no_draft_reaches_past_the_context_of_either_model() -> None:
    rng = random.Random(3)
    requests = [random_request(rng, index, max_tokens=24, min_tokens=0) for index in range(12)]
    plain = [said(result) for result in run(requests, source=TextSource(max_length=20))]
    for limit in (10, 20, 40):
        small = TextSource(near=0.1, max_length=limit)
        proposer = DraftModelProposer(small, vocabulary())
        results = run(requests, source=TextSource(max_length=20), proposer=proposer, draft_length=6)
        assert [said(result) for result in results] == plain
        assert not small.held and small.num_calls
    assert any(len(request.prompt_ids) + len(each[0]) == 20 for request, each in zip(requests, plain, strict=True))


def test_thinking_ends_inside_a_draft_at_the_same_token() -> None:
    for budget in (None, 0, 1, 4, 7):
        requests = [
            Request(
                prompt_ids=ids("a", "<b>")[: 1 + seed % 2],
                constraint=compiled(regex(r"\[[12]{1,4}\]")),
                decode=str,
                reasoning=Reasoning(parser=THINKING, budget=budget, required=True),
                params=SamplingParams(seed=seed, temperature=1.5 * (seed % 3 > 0), max_tokens=40),
            )
            for seed in range(6)
        ]
        plain = run(requests)
        if budget is not None:
            assert all(result.reasoning is not None and result.ok for result in plain)
        for name in PROPOSERS:
            results = run(requests, proposer=proposer_of(name), draft_length=6)
            assert [said(result) for result in results] == [said(result) for result in plain]


def test_lengths_by_batch_and_by_acceptance_give_the_same() -> None:
    rng = random.Random(4)
    requests = [random_request(rng, index) for index in range(20)]
    plain = [said(result) for result in run(requests)]
    for length in (LengthByBatch([(1, 4, 6), (5, 12, 2), (13, 99, 0)]), AdaptiveLength(6), 0):
        results = run(requests, proposer="forced+ngram", draft_length=length)
        assert [said(result) for result in results] == plain


def test_statistics_count_what_was_drafted_and_what_became_output() -> None:
    rng = random.Random(6)
    requests = [random_request(rng, index) for index in range(12)]
    outputs = {tuple(r.prompt_ids): result.token_ids for r, result in zip(requests, run(requests), strict=True)}
    with Engine(
        TextSource(),
        vocabulary(),
        backend="trie",
        processors=[Halver()],
        proposer=knowing(outputs, wrong_every=5),
        draft_length=3,
    ) as engine:
        for request in requests:
            engine.add(request)
        steps: dict[int, int] = {}
        results = []
        while engine.has_work:
            running = [each.request_id for each in engine._running or engine._waiting]
            for request_id in running:
                steps[request_id] = steps.get(request_id, 0) + 1
            results += engine.step()
        total = engine.statistics
    seen = [result.speculation for result in results if result.speculation is not None]
    for result in results:
        counts = result.speculation
        if counts is None or result.num_backtracks:
            continue
        assert counts.num_proposed == sum(counts.proposed_by_position) <= 3 * counts.num_drafts
        assert counts.num_accepted == sum(counts.accepted_by_position) <= result.num_output_tokens
        assert counts.acceptance_length == 1 + counts.num_accepted / counts.num_drafts
        # Each step gives one token and what was accepted; the last may end inside its draft.
        given = steps[result.request_id] + counts.num_accepted
        assert result.num_output_tokens in (given, given - 1)
        assert 0 < counts.seconds < result.timings.total_s
        assert counts.accepted_per_second == counts.num_accepted / counts.seconds
    assert total.num_drafts == sum(each.num_drafts for each in seen)
    assert total.num_proposed == sum(each.num_proposed for each in seen)
    assert total.num_accepted == sum(each.num_accepted for each in seen) > 20
    assert total.seconds >= max(each.seconds for each in seen)
    assert total.proposed_per_second > total.accepted_per_second > 0


def test_a_request_without_drafts_has_no_statistics() -> None:
    [result] = run([random_request(random.Random(1), 1)])
    assert result.speculation is None


def test_slots_of_draft_model_and_proposer_are_released_also_by_closing_and_cancelling() -> None:
    for how in ("close", "cancel"):
        small = TextSource(near=0.1)
        proposer = DraftModelProposer(small, vocabulary())
        with Engine(TextSource(), vocabulary(), proposer=proposer) as engine:
            params = SamplingParams(max_tokens=50, ignore_eos=True, seed=1)
            request_ids = [engine.add(Request(prompt_ids=TEXT_IDS[:3], params=params)) for _ in range(3)]
            engine.step()
            assert small.held == {0, 1, 2}
            if how == "cancel":
                assert all(map(engine.cancel, request_ids))
                assert not small.held
        assert not small.held


def test_a_model_may_draft_for_itself() -> None:
    source = TextSource()
    params = SamplingParams(seed=3, draw="gumbel", max_tokens=30, ignore_eos=True)
    requests = [Request(prompt_ids=TEXT_IDS[: 3 + index], params=params) for index in range(4)]
    plain = [said(result) for result in run(requests)]
    results = run(requests, source=source, proposer=DraftModelProposer(source, vocabulary()), draft_length=4)
    assert [said(result) for result in results] == plain
    assert all(result.speculation and result.speculation.acceptance_rate > 0.9 for result in results)


def test_shared_gumbel_noise_makes_a_draft_model_agree_more_often() -> None:
    rates = {}
    for draw in ("gumbel", "inverse"):
        params = [SamplingParams(seed=seed, draw=draw, max_tokens=24, ignore_eos=True) for seed in range(16)]  # type: ignore[arg-type]
        requests = [Request(prompt_ids=TEXT_IDS[:4], params=each) for each in params]
        with Engine(TextSource(), vocabulary(), proposer=proposer_of("model"), draft_length=3) as engine:
            for request in requests:
                engine.add(request)
            engine.run()
        rates[draw] = engine.statistics.acceptance_rate
    assert rates["gumbel"] > rates["inverse"] + 0.15, rates


def test_generate_stream_and_agenerate_take_a_proposer() -> None:
    import asyncio

    options: dict[str, Any] = {"vocabulary": vocabulary(), "seed": 5, "max_tokens": 30, "ignore_eos": True}
    drafting: dict[str, Any] = {"proposer": "ngram", "draft_length": 4, "rule": "draw"}
    plain, fast = TextSource(), TextSource()
    prompt = TEXT_IDS[:4]
    wanted = generate(plain, prompt, temperature=0.0, **options)
    result = generate(fast, prompt, temperature=0.0, **options, **drafting)
    assert result.token_ids == wanted.token_ids and fast.num_calls < plain.num_calls
    assert result.speculation is not None and result.speculation.num_accepted > 0
    with stream(TextSource(), prompt, temperature=0.0, **options, **drafting) as events:
        seen = [token for event in events for token in event.token_ids]
    assert tuple(seen) == wanted.token_ids
    several = generate(TextSource(), [prompt, prompt], temperature=0.0, **options, **drafting)
    assert [each.token_ids for each in several] == [wanted.token_ids] * 2
    awaited = asyncio.run(agenerate(TextSource(), prompt, temperature=0.0, **options, **drafting))
    assert awaited.token_ids == wanted.token_ids and awaited.speculation is not None


def test_what_is_no_proposer_length_or_rule_is_refused_at_the_door() -> None:
    for options, match in (
        ({"proposer": "guess"}, "proposer='guess'"),
        ({"proposer": "forced+"}, "proposer"),
        ({"proposer": 3}, "proposer=3"),
        ({"draft_length": -1}, "draft_length=-1"),
        ({"draft_length": "4"}, "draft_length='4'"),
        ({"rule": "best"}, "rule='best'"),
        ({"rule": "synthetic"}, "needs rates"),
        ({"rule": RejectionSampler("synthetic", synthetic_rates=[0.5]), "proposer": "ngram"}, "a rate for each"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            Engine(TextSource(), vocabulary(), **options)  # type: ignore[arg-type]


def test_custom_functions_see_drafts_as_output() -> None:
    extra = {"logits_processors": [no_repeat]}
    params = SamplingParams(temperature=0.0, max_tokens=20, extra=extra, ignore_eos=True, seed=1)
    requests = [Request(prompt_ids=TEXT_IDS[: 2 + index], params=params) for index in range(6)]
    plain = run(requests)
    outputs = {tuple(r.prompt_ids): result.token_ids for r, result in zip(requests, plain, strict=True)}
    results = run(requests, proposer=knowing(outputs), draft_length=5)
    assert [said(result) for result in results] == [said(result) for result in plain]
    assert all(result.speculation and result.speculation.acceptance_rate == 1 for result in results)
