"""The fields of SamplingParams that an engine answers for: where an output ends, and what its result says."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from constrain import (
    Engine,
    GenerationResult,
    InvalidInputError,
    ProcessorError,
    Reasoning,
    Request,
    SamplingParams,
    Vocabulary,
    generate,
    regex,
)
from constrain.sampling import LogitsProcessor, RowView
from constrain.source import FunctionSource
from tests.tiny import AB, CLOSE, EOS, ONE, OPEN, QUOTE, TWO, A, B, ScriptedSource, tiny_vocabulary


def run_one(script: list[int], constraint: Any = None, **fields: Any) -> GenerationResult:
    fields = {"temperature": 0.0, "max_tokens": 20} | fields
    with Engine(ScriptedSource({A: script}), tiny_vocabulary(), backend="trie") as engine:
        engine.add(Request(prompt_ids=[A], constraint=constraint, params=SamplingParams(**fields)))
        [result] = engine.run()
    return result


def test_a_stop_string_ends_the_output_and_is_no_part_of_it() -> None:
    result = run_one([AB, A, B, ONE, TWO], stop=["b1"])
    assert (result.text, result.finish_reason, result.stop_reason) == ("aba", "stop", "b1")
    assert result.token_ids == (AB, A, B, ONE) and result.value == "aba"


def test_the_earliest_stop_string_counts_and_the_longest_of_those_that_begin_together() -> None:
    assert run_one([A, B, ONE], stop=["b", "ab"]).stop_reason == "ab"
    assert run_one([AB, ONE], stop=["b", "ab"]).stop_reason == "ab"
    assert run_one([AB, ONE], stop=["a", "ab"]).stop_reason == "ab"


def test_a_stop_string_inside_the_minimum_length_does_not_count() -> None:
    result = run_one([ONE, TWO, ONE, TWO, ONE, TWO], stop=["12"], min_tokens=4)
    assert (result.text, result.num_output_tokens) == ("12", 4)


def test_an_id_of_stop_token_ids_ends_the_output_and_is_no_part_of_its_text() -> None:
    result = run_one([A, ONE, TWO, B], stop_token_ids=[TWO])
    assert (result.text, result.token_ids, result.stop_reason) == ("a1", (A, ONE, TWO), TWO)


def test_the_output_goes_on_behind_the_end_where_that_is_ignored() -> None:
    result = run_one([A, EOS, B, EOS], ignore_eos=True, max_tokens=5)
    assert result.token_ids == (A, EOS, B, EOS, EOS) and result.finish_reason == "length"


def test_the_minimum_length_holds_the_end_back_and_yields_to_a_constraint() -> None:
    assert run_one([A], min_tokens=3).num_output_tokens == 4  # three of text, and the end
    result = run_one([A], regex("a"), min_tokens=3)
    assert result.token_ids == (A, EOS) and result.min_tokens_yielded
    assert not run_one([A], min_tokens=3).min_tokens_yielded


def test_what_could_end_a_constrained_text_early_is_refused_at_the_door() -> None:
    for fields in ({"stop": ["x"]}, {"ignore_eos": True}, {"stop_token_ids": [ONE]}):
        with pytest.raises(InvalidInputError, match=next(iter(fields))):
            run_one([A], regex("a1?"), **fields)
    assert run_one([A], regex("a"), stop_token_ids=[EOS]).ok


def test_bad_words_and_allowed_ids_hold_beside_a_constraint() -> None:
    assert run_one([AB], regex("[ab]{2}"), bad_words=["ab"]).token_ids == (A, A, EOS)  # the word as its tokens
    assert run_one([A, B], regex("[ab]{2}"), allowed_token_ids=[B, EOS]).text == "bb"
    empty = run_one([A, B], regex("[ab]{2}"), allowed_token_ids=[ONE])
    assert empty.finish_reason == "dead_end"


def test_logprobs_are_those_of_the_models_own_distribution() -> None:
    source = ScriptedSource({A: [B, ONE]})
    result = run_one([B, ONE], regex("b1"), logprobs=2, logprob_token_ids=[QUOTE])
    assert result.logprobs is not None and [each.token_id for each in result.logprobs] == [B, ONE, EOS]
    ids = [A]
    for each in result.logprobs:
        exact = torch.log_softmax(source.row(ids)[: tiny_vocabulary().size].double(), dim=0)
        order = sorted(range(len(exact)), key=lambda token: (-exact[token], token))
        assert each.logprob == pytest.approx(float(exact[each.token_id]), abs=1e-6)
        assert each.rank == 1 + order.index(each.token_id)
        assert [token for token, *_ in each.top] == order[:2]
        assert each.given == ((QUOTE, pytest.approx(float(exact[QUOTE]), abs=1e-6)),)
        ids.append(each.token_id)


def test_logprobs_of_the_prompt_stand_at_its_tokens() -> None:
    prompt = [A, B, ONE, TWO]
    source = ScriptedSource({A: [CLOSE] * 9})
    for beside in (0, 3):  # alone, and in a batch whose other rows ask for none
        with Engine(source, tiny_vocabulary(), max_batch_size=4) as engine:
            for _ in range(beside):
                engine.add(Request(prompt_ids=[A], params=SamplingParams(max_tokens=2)))
            engine.add(Request(prompt_ids=prompt, params=SamplingParams(prompt_logprobs=1, max_tokens=2)))
            result = engine.run()[-1]
        assert result.prompt_logprobs is not None and result.prompt_logprobs[0] is None
        for index, each in enumerate(result.prompt_logprobs[1:], start=1):
            exact = torch.log_softmax(source.row(prompt[:index])[: tiny_vocabulary().size].double(), dim=0)
            assert each is not None and each.token_id == prompt[index]
            assert each.logprob == pytest.approx(float(exact[prompt[index]]), abs=1e-6)
    views = source.calls[0]
    assert views[-1].num_logits == len(prompt) or len(views) == 1
    assert all(view.num_logits == 1 for call in source.calls[1:2] for view in call)


def test_several_outputs_of_one_prompt_are_draws_of_their_own() -> None:
    flat = FunctionSource(lambda prefixes: torch.zeros(len(prefixes), 12))
    options: dict[str, Any] = {"vocabulary": tiny_vocabulary(12), "max_tokens": 8, "seed": 7}
    results = generate(flat, [A], **options, n=3)
    assert isinstance(results, list) and len({result.token_ids for result in results}) == 3
    assert results[0].token_ids == generate(flat, [A], **options).token_ids
    of_two = generate(flat, [[A], [A, B]], **options, n=3)
    assert [result.request_id for result in of_two] == [0, 0, 0, 1, 1, 1]
    assert [result.token_ids for result in of_two[:3]] == [result.token_ids for result in results]
    with Engine(flat, tiny_vocabulary(12)) as engine, pytest.raises(InvalidInputError, match="samples"):
        engine.add(Request(prompt_ids=[A], params=SamplingParams(n=2)))


def test_a_repetition_penalty_counts_prompt_and_output() -> None:
    source = FunctionSource(
        lambda prefixes: torch.tensor([[0.0, 0, 4, 3.9, 3.8, 3.7, 0, 0, 0, 0, 0, 0]] * len(prefixes))
    )
    with Engine(source, tiny_vocabulary(12)) as engine:
        params = SamplingParams(temperature=0.0, repetition_penalty=2.0, max_tokens=3)
        engine.add(Request(prompt_ids=[A], params=params))
        [result] = engine.run()
    assert result.token_ids == (B, AB, OPEN)


class NoB(LogitsProcessor):
    """Raises in the middle of its work where an output holds B."""

    def add(self, *arguments: Any) -> bool:
        return True

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        for values, row in zip(logits, rows, strict=True):
            values.neg_()
            if B in row.written_ids:
                raise ValueError("a B")
        return logits.neg_()


def test_a_processor_that_raises_for_one_request_ends_no_other() -> None:
    scripts = {A: [A, A, A, A], B: [A, B, A], ONE: [ONE, ONE, ONE]}
    with Engine(ScriptedSource(scripts), tiny_vocabulary(), processors=[NoB()]) as engine:
        for prompt in scripts:
            engine.add(Request(prompt_ids=[prompt], params=SamplingParams(temperature=0.0, max_tokens=20)))
        results = engine.run()
    assert [result.finish_reason for result in results] == ["stop", "error", "stop"]
    assert [result.token_ids for result in results] == [(A, A, A, A, EOS), (A, B), (ONE, ONE, ONE, EOS)]
    assert isinstance(results[1].error, ProcessorError) and "NoB failed: ValueError: a B" in str(results[1].error)


@pytest.mark.parametrize(
    ("script", "text"),
    [("<ab>b1ab1", "b1a"), ("<ab>b1a(bb)1", "b1a"), ("<ab>b1\xc3ab1", "b1\ufffda"), ("<ab>,1ab1", "1a")],
)
def test_behind_thinking_the_text_ends_before_the_stop_string_that_counts(script: str, text: str) -> None:
    tokens = [b"", b"a", b"b", b"1", b"bb", b"\xc3", b"", b"", b"\n"]
    ids = {"a": 1, "b": 2, "1": 3, "(bb)": 4, "\xc3": 5, "<": 6, ">": 7, ",": 8}
    vocabulary = Vocabulary(tokens, stop_token_ids=[0], special_tokens={"<think>": 6, "</think>": 7})
    written = [ids[piece] for piece in re.findall(r"\(bb\)|.", script)]
    params = SamplingParams(temperature=0.0, stop=["b"], min_tokens=6, max_tokens=20)
    request = Request(prompt_ids=[1], params=params, reasoning=Reasoning(parser="think"))
    with Engine(ScriptedSource({1: written}, width=len(tokens)), vocabulary) as engine:
        engine.add(request)
        [result] = engine.run()
    assert (result.reasoning, result.stop_reason, result.finish_reason) == ("ab", "b", "stop")
    assert result.text == text
