"""Dead ends: tokens are taken back, banned where they stood, and drawn anew."""

from collections.abc import Sequence
from typing import Any

import pytest

from constrain import (
    DeadEndError,
    Engine,
    GenerationResult,
    InvalidInputError,
    Request,
    SamplingParams,
    Vocabulary,
    generate,
    regex,
    stream,
)
from constrain.engine.active import ActiveRequest
from constrain.engine.backtrack import TRIES_AT_ONE_PLACE, place_to_rewind_to
from tests.engine.speculation import Written
from tests.tiny import AB, EOS, ONE, OPEN, TWO, A, B, ScriptedSource, tiny_vocabulary


def run_one(script: Sequence[int], pattern: str, *, max_backtracks: int = 32, **fields: Any) -> GenerationResult:
    params = SamplingParams(**({"temperature": 0.0, "max_tokens": 20} | fields))
    with Engine(
        ScriptedSource({A: script}), tiny_vocabulary(), backend="trie", max_backtracks=max_backtracks
    ) as engine:
        engine.add(Request(prompt_ids=[A], constraint=regex(pattern), params=params))
        [result] = engine.run()
    return result


def test_a_dead_end_takes_one_token_back_and_goes_another_way() -> None:
    result = run_one([A, B], "ab?é|ab2")  # no token writes é: behind `ab` only 2 is legal, behind `a` nothing else
    assert result.ok and result.text == "ab2"
    result = run_one([A], "aé|b1")
    assert result.ok and (result.text, result.num_backtracks) == ("b1", 1)
    assert result.token_ids == (B, ONE, EOS)


def test_a_way_out_further_back_is_found() -> None:
    result = run_one([A, B, A, B], "a[ab]{3}é|b1")
    assert result.ok and result.text == "b1" and result.num_backtracks > 1


def test_where_there_is_no_way_out_the_longest_output_and_its_error_are_kept() -> None:
    result = run_one([A, B], "abé")
    assert result.finish_reason == "dead_end" and isinstance(result.error, DeadEndError)
    assert result.text == "ab" and "after" in str(result.error)
    assert 0 < result.num_backtracks <= 32
    assert run_one([A], "aé|b1", max_backtracks=0).token_ids == (A,)
    with pytest.raises(InvalidInputError, match="max_backtracks"):
        run_one([A], "a", max_backtracks=-1)


def test_logprobs_and_penalties_stand_as_if_the_tokens_taken_back_had_never_been() -> None:
    fields = {"logprobs": 1, "frequency_penalty": 1.5, "presence_penalty": 0.5, "repetition_penalty": 1.2}
    back = run_one([A, A, A], "aaé|b[12]{3}", **fields)
    straight = run_one([B], "b[12]{3}", **fields)
    assert back.num_backtracks and back.ok and straight.ok
    assert back.logprobs is not None and len(back.logprobs) == len(back.token_ids)
    # The scripts part at the first tokens only: from there on the source says the same.
    assert back.token_ids == straight.token_ids


@pytest.mark.parametrize("proposer", [None, "ngram"])
def test_a_stop_string_is_not_found_in_what_was_taken_back(proposer: str | None) -> None:
    # Nothing may stand behind a 1, so it is taken back, and an `a` stands where it stood.
    fields: dict[str, Any] = {"allowed_token_ids": [ONE, TWO, A], "bad_words": ["11", "12", "1a"], "temperature": 0.0}
    params = SamplingParams(stop=["1a", "aaa"], max_tokens=9, **fields)
    with Engine(ScriptedSource({A: [ONE]}), tiny_vocabulary(), backend="trie", proposer=proposer) as engine:
        engine.add(Request(prompt_ids=[A], params=params))
        [result] = engine.run()
    assert result.num_backtracks == 1 and result.token_ids == (A, A, A)
    assert (result.text, result.stop_reason, result.finish_reason) == ("", "aaa", "stop")


def test_a_stream_says_what_is_taken_back() -> None:
    source = ScriptedSource({A: [A]})
    events = list(stream(source, [A], regex("aé|b1"), vocabulary=tiny_vocabulary(), backend="trie", temperature=0.0))
    text, ids = "", []
    for event in events:
        text = text[: len(text) - event.retracted] + event.text
        ids = ids[: len(ids) - event.retracted_tokens] + list(event.token_ids)
    result = events[-1].result
    assert result is not None and (text, tuple(ids)) == (result.text, result.token_ids) == ("b1", (B, ONE, EOS))
    assert any(event.retracted for event in events)


def test_a_stable_stream_takes_nothing_back() -> None:
    source = ScriptedSource({A: [A]})
    options: dict[str, Any] = {"vocabulary": tiny_vocabulary(), "backend": "trie", "temperature": 0.0}
    events = list(stream(source, [A], regex("aé|b1"), stable=True, **options))
    assert all(event.retracted == 0 for event in events)
    result = events[-1].result
    assert result is not None and "".join(event.text for event in events) == result.text


def test_a_stable_stream_whose_grammar_knows_no_values_holds_nothing_and_ends_at_a_dead_end() -> None:
    source = ScriptedSource({A: [A, A, A]})
    options: dict[str, Any] = {"vocabulary": tiny_vocabulary(), "backend": "trie", "temperature": 0.0}
    *events, last = stream(source, [A], regex("aaaé|b1"), stable=True, **options)
    assert [event.text for event in events] == ["a", "a", "a"]
    assert last.result is not None and last.result.finish_reason == "dead_end" and last.result.num_backtracks == 0
    assert isinstance(last.result.error, DeadEndError) and "handed out as stable" in str(last.result.error)
    assert generate(source, [A], regex("aaaé|b1"), **options).unwrap() == "b1"


def test_a_stable_stream_ends_with_the_longest_output_that_goes_on_from_what_it_handed_out() -> None:
    # The draft `aba` leads nowhere before any of it is handed out, then `abb` is, and leads nowhere either.
    options: dict[str, Any] = {"vocabulary": tiny_vocabulary(), "backend": "trie", "temperature": 0.0}
    drafts = {A: [A, B, A]}
    proposer = Written(lambda token_ids, length: drafts.get(token_ids[0], []) if len(token_ids) == 1 else [])
    source = ScriptedSource({A: [A, B, A]})
    events = list(stream(source, [A], regex("ab[ab]é"), stable=True, proposer=proposer, **options))
    assert [(event.text, event.retracted, event.retracted_tokens) for event in events] == [
        *[("ab", 0, 0), ("b", 0, 0), ("", 0, 0)]
    ]
    result = events[-1].result
    assert result is not None and result.finish_reason == "dead_end" and result.num_backtracks == 1
    assert (result.text, result.token_ids) == ("abb", (A, B, B)) and "handed out as stable" in str(result.error)


def test_a_stable_stream_whose_grammar_knows_values_hands_them_out_whole() -> None:
    vocabulary = Vocabulary([b"", *(bytes([code]) for code in range(32, 127))], stop_token_ids=[0])
    source = ScriptedSource({1: [ord(char) - 31 for char in '["ab","abc"]']}, width=96)
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    events = list(stream(source, [1], schema, stable=True, vocabulary=vocabulary, temperature=0.0))
    assert [event.text for event in events] == ["[", '"ab",', '"abc"]', ""]


def test_places_go_one_back_then_to_the_values_from_the_inside_out() -> None:
    class Values:
        num_settled = 0

        def value_starts(self) -> list[int]:
            return [0, 3, 7]

    sequence: Any = ActiveRequest.__new__(ActiveRequest)
    sequence.output_ids, sequence.grammar, sequence.bans, sequence.num_fixed = [5] * 10, Values(), {}, 0
    seen: list[int] = []
    while (place := place_to_rewind_to(sequence)) is not None:
        seen.append(place)
        sequence.bans.setdefault(place, set()).add(len(seen))
    assert seen == [place for place in (9, 7, 3, 0) for _ in range(TRIES_AT_ONE_PLACE)]
    sequence.bans, sequence.num_fixed = {}, 7
    assert place_to_rewind_to(sequence) == 9
    sequence.bans = {9: {1, 2, 3}, 7: {1, 2, 3}}
    assert place_to_rewind_to(sequence) is None


def test_a_dead_end_costs_no_other_request_anything() -> None:
    source = ScriptedSource({A: [A], OPEN: [AB, TWO]})
    with Engine(source, tiny_vocabulary(), backend="trie") as engine:
        params = SamplingParams(temperature=0.0, max_tokens=9)
        engine.add(Request(prompt_ids=[A], constraint=regex("aé|b1"), params=params))
        engine.add(Request(prompt_ids=[OPEN], constraint=regex("ab2"), params=params))
        first, second = engine.run()
    assert first.ok and second.token_ids == (AB, TWO, EOS) and second.num_backtracks == 0
