from typing import Any

import pytest

from constrain import InvalidInputError, InvalidPromptError, Vocabulary, VocabularyError, choice
from constrain.reasoning import FORMATS, Reasoning, ReasoningFormat, compile_reasoning, parser_for
from tests.reasoning.tiny import compiled, vocabulary


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"parser": "qwen9"}, "qwen9"),
        ({"parser": 3}, "3"),
        ({"budget": -1}, "budget=-1"),
        ({"budget": True}, "budget=True"),
        ({"budget": 1.5}, "budget=1.5"),
        ({"budget": "9"}, "budget='9'"),
        ({"required": 1}, "required=1"),
        ({"in_reasoning": None}, "in_reasoning=None"),
        ({"budget_phrase": "enough"}, "budget="),
        ({"budget": 1, "budget_phrase": b"x"}, "budget_phrase"),
        ({"budget": 1, "budget_phrase": "\ud800"}, "surrogate"),
        ({"end_markers": "<call>"}, "tuple"),
        ({"end_markers": ("",)}, "empty"),
        ({"end_markers": ("\udfff",)}, "surrogate"),
        ({"end_markers": 5}, "end_markers=5"),
        ({"end_markers": None}, "end_markers=None"),
        ({"end_markers": (b"x",)}, "end_markers"),
        ({"content_starts": "<call>"}, "content_starts"),
        ({"content_starts": ("x", "")}, "empty"),
        ({"content_starts": ("x",), "end_markers": ("x",)}, "'x'"),
        ({"in_reasoning": True, "content_starts": ("x",)}, "in_reasoning"),
        ({"in_reasoning": True, "budget": 3}, "in_reasoning"),
        ({"in_reasoning": True, "required": True}, "in_reasoning"),
    ],
)
def test_wrong_options_are_refused_at_the_door(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        Reasoning(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "<a>", "end": ""},
        {"start": "", "end": "</a>"},
        {"start": None, "end": "</a>"},
        {"start": "<a>", "end": "</a>", "closing": "</a> "},
        {"start": "\ud800", "end": "</a>"},
        {"start": "<a>", "end": "</a>", "turns": "x"},
        {"start": "<a>", "end": "</a>", "skip": "<a"},
        {"start": "<a>", "end": "</a>", "skip": "<a>b"},
        {"start": "<a>", "end": "</a>", "needs": "x"},
        {"start": "<a>", "end": "</a>", "content_starts": ("",)},
        {"start": "<a>", "end": "</a>", "headers": ("a", "b")},
        {"start": "<a>", "end": "</a>", "headers": (("a",),)},
        {"start": "<a>", "end": "</a>", "headers": None},
    ],
)
def test_a_format_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        ReasoningFormat(**wrong)


def test_an_unknown_family_names_those_that_are_known() -> None:
    with pytest.raises(InvalidInputError, match=", ".join(FORMATS)):
        parser_for("grok", vocabulary())


def test_markers_that_the_vocabulary_cannot_write_are_refused() -> None:
    with pytest.raises(VocabularyError, match="cannot write the marker '<Z>'"):
        parser_for(ReasoningFormat(start="<Z>", end="</b>"), vocabulary())
    with pytest.raises(VocabularyError, match="cannot write the marker '</Z>'"):
        parser_for(ReasoningFormat(start="<b>", end="</Z>"), vocabulary())
    with pytest.raises(VocabularyError, match="cannot write the marker 'Z'"):
        parser_for(ReasoningFormat(start="<b>", end="</b>"), vocabulary(), end_markers=["Z"])
    with pytest.raises(VocabularyError, match="budget_phrase='Z'"):
        compile_reasoning(None, vocabulary(), Reasoning(parser="think", budget=1, budget_phrase="Z"))


def test_harmony_needs_its_special_tokens() -> None:
    plain = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0])
    with pytest.raises(VocabularyError, match=r"<\|start\|>"):
        parser_for("harmony", plain)


def test_a_marker_that_would_end_the_output_is_refused() -> None:
    stops = Vocabulary([b"", b"a"], stop_token_ids=[0], special_tokens={"<end>": 0})
    with pytest.raises(InvalidInputError, match="stop token"):
        parser_for(ReasoningFormat(start="a", end="<end>"), stops)


def test_a_phrase_that_ends_thinking_itself_is_refused() -> None:
    textual = ReasoningFormat(start="<b>", end="</b>")
    for phrase in ("a</b>", "</b>a"):
        with pytest.raises(InvalidInputError, match="before its end"):
            compile_reasoning(None, vocabulary(), Reasoning(parser=textual, budget=1, budget_phrase=phrase))
    doubled = ReasoningFormat(start="<b>", end="aa")
    with pytest.raises(InvalidInputError, match="before its end"):
        compile_reasoning(None, vocabulary(), Reasoning(parser=doubled, budget=1, budget_phrase="ba"))


def test_auto_goes_by_the_tokens_of_the_vocabulary() -> None:
    assert parser_for("auto", vocabulary()).format is FORMATS["harmony"]
    bytes_only = [b"", *(bytes([byte]) for byte in range(256))]
    for name, start, end in (("mistral", "[THINK]", "[/THINK]"), ("think", "<think>", "</think>")):
        as_special = Vocabulary([*bytes_only, b"", b""], stop_token_ids=[0], special_tokens={start: 257, end: 258})
        as_text = Vocabulary([*bytes_only, start.encode(), end.encode()], stop_token_ids=[0])
        assert parser_for("auto", as_special).format is parser_for("auto", as_text).format is FORMATS[name]
    with pytest.raises(InvalidInputError, match="name the parser"):
        parser_for("auto", Vocabulary(bytes_only, stop_token_ids=[0]))


def test_what_cannot_go_together_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="without a constraint"):
        compile_reasoning(None, vocabulary(), Reasoning(in_reasoning=True))
    other = Vocabulary([b"", b"a"], stop_token_ids=[0])
    with pytest.raises(VocabularyError, match="another vocabulary"):
        compile_reasoning(compiled(choice(["a"])), other, Reasoning(parser=ReasoningFormat(start="a", end="aa")))
    with pytest.raises(InvalidInputError, match="want Reasoning"):
        compile_reasoning(None, vocabulary(), "think")  # type: ignore[arg-type]


def test_a_stop_token_is_no_thought_though_the_format_names_it() -> None:
    stops = Vocabulary([b"", b"a", b"b"], stop_token_ids=[0], special_tokens={"<end>": 0})
    odd = ReasoningFormat(start="a", end="b", headers=(("<end>",), ()))
    grammar = compile_reasoning(None, stops, Reasoning(parser=odd), [1]).start()
    assert [grammar.validate([i]) for i in range(3)] == [0, 1, 1]


@pytest.mark.parametrize("prompt", [[None], ["a"], [1.5], [True], "<think>", b"<think>"])
def test_a_prompt_that_is_no_token_ids_is_refused(prompt: Any) -> None:
    with pytest.raises(InvalidPromptError):
        compile_reasoning(None, vocabulary(), Reasoning(parser="think"), prompt)


def test_content_that_cannot_begin_as_it_would_is_refused() -> None:
    reasoning = Reasoning(parser="think", content_starts=("ab",))
    assert compile_reasoning(compiled(choice(["abc"])), vocabulary(), reasoning)
    with pytest.raises(InvalidInputError, match="'ab' begins the content"):
        compile_reasoning(compiled(choice(["ba", "a"])), vocabulary(), reasoning)
