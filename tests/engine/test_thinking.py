"""Thinking in requests: dead ends, stop strings, lengths, streams."""

from typing import Any

import pytest

from constrain import Engine, Request, SamplingParams, choice
from constrain.errors import InvalidInputError
from constrain.inputs import cached_backend
from constrain.reasoning import Reasoning, compile_reasoning
from constrain.result import GenerationResult
from constrain.stream import Stream
from constrain.stream_pieces import StreamEvent
from tests.reasoning.scripted import STOP, special_vocabulary, spelled_vocabulary, tokens, wanting

THINK = Reasoning(parser="think")


def request_for(output: str, vocabulary: Any, **options: Any) -> tuple[Any, Request]:
    """A model that wants ``output`` behind an open thinking, and a request to it."""
    prompt_ids, output_ids = tokens("q<think>", vocabulary), [*tokens(output, vocabulary), STOP]
    fields = {name: options.pop(name) for name in ("constraint", "reasoning", "decode") if name in options}
    params = SamplingParams(**{"temperature": 0.0, "max_tokens": 80, **options})
    model = wanting([(prompt_ids, output_ids)], vocabulary)
    return model, Request(prompt_ids=prompt_ids, params=params, **{"reasoning": THINK, **fields})


def run(output: str, vocabulary: Any, **options: Any) -> GenerationResult:
    model, request = request_for(output, vocabulary, **options)
    with Engine(model, vocabulary) as engine:
        engine.add(request)
        [result] = engine.run()
    return result


def streamed(output: str, vocabulary: Any, *, stable: bool = False, **options: Any) -> list[StreamEvent]:
    model, request = request_for(output, vocabulary, **options)
    with Stream(Engine(model, vocabulary, max_batch_size=1), request, stable=stable) as events:
        return list(events)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("thought", ["", "hm", "hm, hm, hm, hm"])
def test_a_dead_end_of_the_content_takes_no_thinking_back(thought: str, stable: bool) -> None:
    vocabulary = special_vocabulary()
    banned = [vocabulary.token_bytes.index(byte) for byte in (b"b", b"y")]
    options = {"constraint": choice(["xabc", "xay"]), "logit_bias": dict.fromkeys(banned, float("-inf"))}
    result = run(f"{thought}</think>xabc", vocabulary, **options)
    assert (result.finish_reason, result.reasoning, result.text) == ("dead_end", thought, "xa")
    events = streamed(f"{thought}</think>xabc", vocabulary, stable=stable, **options)
    assert "".join(event.reasoning for event in events) == thought
    text = ""
    for event in events:
        text = text[: len(text) - event.retracted] + event.text
    assert text == "xa"


def test_a_dead_end_is_left_within_the_content() -> None:
    vocabulary = special_vocabulary()
    options = {
        "constraint": choice(["xabc", "xdy"]),
        "logit_bias": {vocabulary.token_bytes.index(b"b"): float("-inf")},
    }
    result = run("hm</think>xabc", vocabulary, **options)
    assert (result.ok, result.reasoning, result.value) == (True, "hm", "xdy") and result.num_backtracks


def test_the_stop_string_that_counts_ends_the_text() -> None:
    vocabulary = special_vocabulary()
    result = run("ab</think>c END d END e", vocabulary, stop=("END",), min_tokens=12)
    assert (result.reasoning, result.text, result.stop_reason) == ("ab", "c END d ", "END")
    events = streamed("ab</think>c END d END e", vocabulary, stop=("END",), min_tokens=12)
    assert "".join(event.text for event in events) == "c END d "


def test_a_stop_string_counts_neither_in_thinking_nor_in_its_marker() -> None:
    for stop in ("k>c", "ab", "</"):
        result = run("ab</think>cd", spelled_vocabulary(), stop=(stop,))
        assert (result.reasoning, result.text, result.stop_reason) == ("ab", "cd", None)


@pytest.mark.parametrize("length", range(1, 12))
@pytest.mark.parametrize("make_vocabulary", [special_vocabulary, spelled_vocabulary])
def test_an_output_that_is_cut_anywhere_shows_what_it_has(make_vocabulary: Any, length: int) -> None:
    vocabulary = make_vocabulary()
    whole = tokens("ab</think>xy", vocabulary)
    events = streamed("ab</think>xy", vocabulary, max_tokens=length)
    result = events[-1].result
    assert result is not None and list(result.token_ids) == [*whole, STOP][:length]
    end = len(tokens("ab</think>", vocabulary))
    assert result.content_start == (end if length >= end else None)
    assert result.text == "xy"[: max(length - end, 0)]
    cut = vocabulary.decode(whole[:length]).decode()
    assert result.reasoning == ("ab"[:length] if length >= end else cut)
    assert "".join(event.text for event in events) == result.text
    assert "".join(event.reasoning for event in events) == result.reasoning


def test_a_constraint_that_thinks_is_read_as_a_request_that_does() -> None:
    vocabulary = special_vocabulary()
    compiled = cached_backend("auto", vocabulary).compile(choice(["x", "yz"]))
    made = compile_reasoning(compiled, vocabulary, THINK, tokens("q<think>", vocabulary))
    for output in ("hm</think>yz", "hm</think>\n\nx"):
        plain = run(output, vocabulary, constraint=compiled)
        result = run(output, vocabulary, constraint=made, reasoning=None)
        assert (result.ok, result.reasoning, result.value, result.content_start) == (
            True,
            "hm",
            plain.value,
            plain.content_start,
        )
        events = streamed(output, vocabulary, constraint=made, reasoning=None)
        assert ("".join(e.reasoning for e in events), "".join(e.text for e in events)) == ("hm", result.text)
    with pytest.raises(InvalidInputError, match="thinks already"):
        run("", vocabulary, constraint=made)
