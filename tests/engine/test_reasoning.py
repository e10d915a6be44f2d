"""Thinking in requests: the constraint holds behind it, and results and streams tell the two apart."""

from collections.abc import Sequence
from typing import Any

import pytest

from constrain import (
    Engine,
    GenerationResult,
    InvalidInputError,
    Reasoning,
    ReasoningFormat,
    Request,
    SamplingParams,
    regex,
    stream,
)
from tests.tiny import CLOSE, EOS, ONE, OPEN, SPACE, TWO, A, B, ScriptedSource, tiny_vocabulary

BRACES = ReasoningFormat(start="{", end="}")  # both are single tokens of the tiny vocabulary


def run_one(script: Sequence[int], pattern: str | None = "1[ab]2", **options: Any) -> GenerationResult:
    reasoning = Reasoning(parser=BRACES, **{"required": True, **options})
    constraint = None if pattern is None else regex(pattern)
    params = SamplingParams(temperature=0.0, max_tokens=20)
    with Engine(ScriptedSource({A: script}), tiny_vocabulary(), backend="trie") as engine:
        engine.add(Request(prompt_ids=[A], constraint=constraint, params=params, reasoning=reasoning))
        [result] = engine.run()
    return result


def test_the_constraint_holds_behind_the_thinking() -> None:
    result = run_one([OPEN, A, SPACE, B, CLOSE, TWO, B])
    assert result.ok and result.token_ids == (OPEN, A, SPACE, B, CLOSE, ONE, B, TWO, EOS)
    assert (result.reasoning, result.text, result.value) == ("a b", "1b2", "1b2")
    assert result.content_start == 5


def test_a_spent_budget_closes_the_thinking() -> None:
    for budget in range(4):
        result = run_one([OPEN, A, A, A, A, A, A], budget=budget)
        assert result.ok and result.reasoning == "a" * budget and result.content_start == budget + 2


def test_thinking_that_is_cut_off_has_no_text() -> None:
    result = run_one([OPEN] + [A] * 30)
    assert (result.finish_reason, result.text, result.content_start) == ("length", "", None)
    assert result.reasoning == "a" * 19


def test_thinking_goes_with_free_text_too() -> None:
    result = run_one([OPEN, B, CLOSE, A, ONE], None)
    assert result.ok and (result.reasoning, result.text) == ("b", "a1")


def test_stop_strings_count_in_the_text_only() -> None:
    reasoning = Reasoning(parser=BRACES, required=True)
    params = SamplingParams(temperature=0.0, max_tokens=20, stop=["ab"])
    for script, text in (([OPEN, A, B, CLOSE, ONE, A, B, ONE], "1"), ([OPEN, A, CLOSE, B, A, B], "b")):
        with Engine(ScriptedSource({A: script}), tiny_vocabulary()) as engine:
            engine.add(Request(prompt_ids=[A], params=params, reasoning=reasoning))
            [result] = engine.run()
        assert (result.text, result.stop_reason, result.finish_reason) == (text, "ab", "stop")
        assert result.reasoning in ("ab", "a")


def test_a_stream_tells_thinking_and_text_apart() -> None:
    source = ScriptedSource({A: [OPEN, A, B, CLOSE, ONE, B]})
    options: dict[str, Any] = {"vocabulary": tiny_vocabulary(), "backend": "trie", "temperature": 0.0}
    reasoning = Reasoning(parser=BRACES, required=True)
    events = list(stream(source, [A], regex("1[ab]2"), reasoning=reasoning, **options))
    result = events[-1].result
    assert result is not None and result.ok
    assert "".join(event.reasoning for event in events) == result.reasoning == "ab"
    assert "".join(event.text for event in events) == result.text == "1b2"
    assert tuple(token for event in events for token in event.token_ids) == result.token_ids


def test_a_dead_end_takes_no_thoughts_back() -> None:
    result = run_one([OPEN, A, B, CLOSE, A], "aé|b1")
    assert result.ok and (result.reasoning, result.text) == ("ab", "b1") and result.num_backtracks == 1
    lost = run_one([OPEN, A, B, CLOSE, A], "a[ab]{4}é")
    assert lost.finish_reason == "dead_end" and lost.reasoning == "ab"


def test_what_contradicts_thinking_is_refused_at_the_door() -> None:
    with pytest.raises(InvalidInputError, match="Reasoning"):
        Request(prompt_ids=[A], reasoning="think")  # type: ignore[arg-type]
    with Engine(ScriptedSource({A: []}), tiny_vocabulary()) as engine:
        for request in (
            Request(prompt_ids=[A], reasoning=Reasoning(parser="think")),  # no token writes <
            Request(prompt_ids=[A], reasoning=Reasoning(parser=BRACES, in_reasoning=True)),
            Request(prompt_ids=[A], reasoning=Reasoning(parser=BRACES), params=SamplingParams(ignore_eos=True)),
        ):
            with pytest.raises(InvalidInputError):
                engine.add(request)
