"""``Request.reasoning``: what an engine makes of thinking, tools and constraints together."""

from typing import Any

import pytest

from constrain import GenerationResult, Vocabulary, generate
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
