"""``Request.reasoning``: what an engine makes of thinking, tools and constraints together."""

from typing import Any

import pytest

from constrain import GenerationResult, Vocabulary, generate, stream
from constrain.reasoning import Reasoning
from constrain.tools import ToolCall, ToolOutput, Tools
from tests.reasoning.scripted import STOP, special_vocabulary, spelled_vocabulary, tokens, wanting

VOCABULARIES = [pytest.param(special_vocabulary, id="special"), pytest.param(spelled_vocabulary, id="spelled")]
CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
CALLED = ToolCall("add", {"x": 1}, '{"x": 1}')


def add(x: int) -> int:
    """Add one."""
    return x + 1


def now() -> str:
    """The time."""
    return ""


def run(vocabulary: Vocabulary, prompt: str, output: str, constraint: Any = None, **options: Any) -> GenerationResult:
    """What a model that wants ``output`` gives."""
    prompt_ids, output_ids = tokens(prompt, vocabulary), [*tokens(output, vocabulary), STOP]
    model = wanting([(prompt_ids, output_ids)], vocabulary)
    options = {"temperature": 0.0, "max_tokens": 150, **options}
    return generate(model, prompt_ids, constraint, vocabulary=vocabulary, **options)


@pytest.mark.parametrize("make_vocabulary", VOCABULARIES)
@pytest.mark.parametrize("space", ["", "\n", "\n\n"])
@pytest.mark.parametrize("choice", ["auto", "required", "add"])
def test_white_space_behind_thinking_is_no_part_of_a_value(make_vocabulary: Any, space: str, choice: str) -> None:
    vocabulary = make_vocabulary()
    tools = Tools([add, now], choice=choice)
    result = run(vocabulary, "q<think>", f"hm</think>{space}{CALL}", tools, reasoning=Reasoning(parser="think"))
    assert (result.ok, result.reasoning) == (True, "hm")
    assert result.value == (ToolOutput("", (CALLED,)) if choice == "auto" else [CALLED])
    content = result.token_ids[result.content_start :]
    assert vocabulary.decode(content).decode() == result.text
    assert result.content_start == len(tokens(f"hm</think>{space}", vocabulary))


@pytest.mark.parametrize("make_vocabulary", VOCABULARIES)
@pytest.mark.parametrize("choice", ["auto", "required"])
@pytest.mark.parametrize("budget", [None, 20])
def test_a_call_may_end_thinking_by_itself(make_vocabulary: Any, choice: str, budget: int | None) -> None:
    vocabulary, tools = make_vocabulary(), Tools([add, now], choice=choice)
    reasoning = Reasoning(parser="think", content_starts=("<tool_call>",), budget=budget)
    for thought in ("", "a <b"):
        result = run(vocabulary, "q<think>", thought + CALL, tools, reasoning=reasoning)
        assert (result.ok, result.reasoning) == (True, thought)
        assert result.text == vocabulary.decode(tokens(CALL, vocabulary)).decode()
        assert result.value == (ToolOutput("", (CALLED,)) if choice == "auto" else [CALLED])
        assert result.content_start == len(thought)


THOUGHT = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
HARMONY_CALL = '<|channel|>commentary to=functions.add <|constrain|>json<|message|>{"x": 1}<|call|>'


@pytest.mark.parametrize("thought", ["", THOUGHT])
@pytest.mark.parametrize("parser", ["harmony", "gpt_oss", "auto"])
@pytest.mark.parametrize(
    ("choice", "answer", "value"),
    [
        ("auto", HARMONY_CALL, ToolOutput("", (CALLED,))),
        ("auto", "<|channel|>final<|message|>hi<|return|>", ToolOutput("hi", ())),
        ("required", HARMONY_CALL, [CALLED]),
        ("add", HARMONY_CALL, [CALLED]),
    ],
)
def test_harmony_thinks_and_then_calls_or_answers(
    thought: str, parser: str, choice: str, answer: str, value: Any
) -> None:
    tools = Tools([add, now], choice=choice, format="harmony")
    result = run(
        special_vocabulary(), "q<|start|>assistant", thought + answer, tools, reasoning=Reasoning(parser=parser)
    )
    assert (result.ok, result.value, result.reasoning) == (True, value, "hm" if thought else "")
    assert result.content_start == len(tokens(thought, special_vocabulary()))


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_budget_of_harmony_leads_to_a_call_where_one_is_required(choice: str) -> None:
    tools = Tools([add, now], choice=choice, format="harmony")
    reasoning = Reasoning(parser="harmony", budget=4)
    result = run(
        special_vocabulary(), "q<|start|>assistant", THOUGHT.replace("hm", "h" * 99), tools, reasoning=reasoning
    )
    assert result.reasoning == "hhhh"
    content = special_vocabulary().decode(result.token_ids[result.content_start :]).decode()
    assert content.startswith("final" if choice == "auto" else "commentary to=functions.")


@pytest.mark.parametrize("make_vocabulary", VOCABULARIES)
@pytest.mark.parametrize("output", [f"a <t b{CALL}", f"hm</think>\n\n{CALL}\n{CALL}", "hm</think>so <", "a <tool"])
def test_a_stream_of_thinking_and_calls_is_the_result_in_pieces(make_vocabulary: Any, output: str) -> None:
    vocabulary, tools = make_vocabulary(), Tools([add, now])
    prompt_ids, output_ids = tokens("q<think>", vocabulary), [*tokens(output, vocabulary), STOP]
    options: dict[str, Any] = {
        "vocabulary": vocabulary,
        "reasoning": Reasoning(parser="think", content_starts=("<tool_call>",), budget=40),
        "temperature": 0.0,
        "max_tokens": 170,
    }
    model = wanting([(prompt_ids, output_ids)], vocabulary)
    whole = generate(model, prompt_ids, tools, **options)
    with stream(model, prompt_ids, tools, **options) as events:
        seen = list(events)
    result = seen[-1].result
    assert result is not None and (result.value, result.token_ids) == (whole.value, whole.token_ids)
    assert "".join(event.reasoning for event in seen) == whole.reasoning == result.reasoning
    assert "".join(event.text for event in seen) == whole.text
    assert sum((event.token_ids for event in seen), ()) == whole.token_ids
    if output.endswith(CALL):
        assert whole.ok and whole.value.calls == (CALLED,) * output.count(CALL)
