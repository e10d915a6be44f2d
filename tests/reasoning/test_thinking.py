"""The budget, against a search in the bytes of everything written so far."""

import random

import pytest

from constrain import Grammar, choice
from constrain.reasoning import Reasoning, ReasoningFormat, compile_reasoning
from tests.reasoning.tiny import compiled, ids, legal, special, vocabulary

# Closing markers of 1 to 5 tokens; the text ones are cut by other tokens in every way.
MARKERS = {1: "</think>", 2: ">1", 3: "<b>]T", 4: "</b>2</b>2", 5: "aacaa"}
CONTENT = choice(["[1]", "x"])


def closing_of(length: int, phrase: str) -> tuple[Reasoning, list[int], list[int]]:
    """The options, the phrase's tokens and the closing marker's."""
    marker = MARKERS[length]
    options = Reasoning(
        parser=ReasoningFormat(start="<think>", end=marker), required=True, budget=0, budget_phrase=phrase
    )
    closing = [special(marker)] if marker == "</think>" else vocabulary().encode(marker)
    assert len(closing) == length
    return options, vocabulary().encode(phrase), closing


def expected(wishes: list[int], budget: int, phrase: list[int], marker: list[int], end: str) -> list[int]:
    """Thinking as it should be: what is wished for, tokens that run over a boundary left out, until the marker is
    complete or the budget is spent."""
    thought: list[int] = []
    wishes = list(wishes)
    while len(thought) < budget:
        wish = wishes.pop(0)
        is_end = wish == special("</think>") and end == "</think>"
        text = vocabulary().decode([*thought, wish])
        at = text.find(end.encode())
        if not is_end and (not vocabulary().token_bytes[wish] or 0 <= at < len(text) - len(end)):
            continue
        thought.append(wish)
        if is_end or at >= 0:
            return thought
    under_way = max(n for n in range(len(marker)) if thought[len(thought) - n :] == marker[:n])
    return [*thought, *(marker[under_way:] if under_way else [*phrase, *marker])]


def written(grammar: Grammar, wishes: list[int], window: int) -> list[int]:
    """What comes out where drafts are the next wishes, and a wish that is illegal gives way to what is forced, or
    to the next one."""
    wishes, out = list(wishes), []
    while grammar.num_before_content is None:  # type: ignore[attr-defined]
        draft = [*grammar.forced_tokens(), *wishes][:window]
        kept = grammar.validate(draft)
        assert grammar.accept(draft) == kept
        num_forced = 0
        grammar.rollback(kept)  # and once more, a token at a time, each against its mask
        for token_id in draft[:kept]:
            forced = grammar.forced_tokens()
            assert token_id in legal(grammar)
            num_forced += bool(forced)
            assert not forced or legal(grammar) == {forced[0]} == {token_id}
            assert grammar.accept([token_id]) == 1
        out += draft[:kept]
        wishes = wishes[kept - num_forced :]
        if kept < len(draft) and grammar.num_before_content is None and not grammar.forced_tokens():  # type: ignore[attr-defined]
            refused = wishes.pop(0)
            assert refused not in legal(grammar)
    return out


@pytest.mark.parametrize("phrase", ["", "xx"])
@pytest.mark.parametrize("length", MARKERS)
@pytest.mark.parametrize("budget", range(21))
def test_a_budget_is_exact_under_any_draft(budget: int, length: int, phrase: str) -> None:
    options, phrase_ids, marker = closing_of(length, phrase)
    options = Reasoning(parser=options.parser, required=True, budget=budget, budget_phrase=phrase)
    rng = random.Random(1000 * budget + length)
    made = compile_reasoning(compiled(CONTENT), vocabulary(), options)
    for window in range(1, 10):
        # Mostly tokens of the marker, so that it is begun, broken off and completed at every place.
        pool = [*marker, *ids("a", "c", ">", "b>", "</b>", ">a", "T", "ab", "</b>\n")]
        wishes = [rng.choice(pool) for _ in range(200)]
        wanted = expected(wishes, budget, phrase_ids, marker, MARKERS[length])
        grammar = made.start()
        assert legal(grammar) == {special("<think>")} and grammar.accept([special("<think>")]) == 1
        found = written(grammar, wishes, window)
        assert found[: len(wanted)] == wanted, (window, wishes)
        assert len(wanted) <= budget + len(phrase_ids) + len(marker)
        assert grammar.num_before_content == len(wanted) + 1  # type: ignore[attr-defined]
        split = made.split([special("<think>"), *found])
        assert split.end_index == len(wanted) + 1 and split.ended_by == MARKERS[length]


def test_a_natural_end_under_way_is_finished_and_not_begun_again() -> None:
    options, _, marker = closing_of(4, "xx")
    made = compile_reasoning(
        compiled(CONTENT), vocabulary(), Reasoning(parser=options.parser, budget=3, budget_phrase="xx"), ids(
            special("<think>")
        )
    )  # fmt: skip
    grammar = made.start()
    assert grammar.accept([*ids("a"), *marker[:2]]) == 3
    assert grammar.forced_tokens() == marker[2:]
    assert grammar.accept(marker[2:]) == 2 and legal(grammar) == {*ids("[", "x", "[1")}
    assert made.split([*ids("a"), *marker, *ids("x")]).reasoning == "a"


def test_without_a_budget_nothing_is_ever_forced() -> None:
    options, *_ = closing_of(1, "")
    grammar = compile_reasoning(None, vocabulary(), Reasoning(parser=options.parser), [special("<think>")]).start()
    for _ in range(300):
        assert not grammar.forced_tokens() and grammar.accept(ids("a")) == 1


def test_a_budget_of_zero_closes_at_once() -> None:
    prompts = ([special("<think>")], [])
    for prompt, start in zip(prompts, ([], [special("<think>")]), strict=True):
        made = compile_reasoning(None, vocabulary(), Reasoning(parser="think", budget=0, required=True), prompt)
        grammar = made.start()
        assert grammar.accept(start) == len(start)
        assert legal(grammar) == {special("</think>")}


def test_a_closing_sequence_that_begins_content_is_whole_tokens_from_there() -> None:
    # As a whole it would be written "b>a", "<b".
    form = ReasoningFormat(start="<b>", end="a<b", closing="b>a<b", content_starts=("a<b",))
    made = compile_reasoning(None, vocabulary(), Reasoning(parser=form, budget=1), ids("<b>"))
    grammar = made.start()
    assert grammar.accept(ids("x")) == 1
    closing = grammar.forced_tokens()
    assert vocabulary().decode(closing) == b"b>a<b" and grammar.accept(closing) == len(closing)
    split = made.split([*ids("x"), *closing, *ids("c")])
    assert (split.reasoning, split.text, split.ended_by) == ("x", "a<bc", "a<b")
    assert vocabulary().decode([*ids("x"), *closing, *ids("c")][split.end_index :]) == b"a<bc"
