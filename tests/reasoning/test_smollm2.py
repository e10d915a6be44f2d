"""Thinking, then a valid object, on a real model."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

from constrain import (
    Engine,
    Request,
    SamplingParams,
    TransformersSource,
    Vocabulary,
    as_grammar_spec,
    generate,
    stream,
)
from constrain.reasoning import CompiledReasoning, Reasoning, compile_reasoning
from constrain.tools import ToolCall, Tools

pytestmark = pytest.mark.model

PHRASE = "\nEnough.\n"


class Point(BaseModel):
    x: int = Field(ge=-99, le=99)
    y: int = Field(ge=-99, le=99)


def test_a_batch_thinks_within_its_budgets_and_then_writes_valid_objects(
    smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary
) -> None:
    model, tokenizer = smollm2
    messages = [{"role": "user", "content": "Where is the ship? Think, then answer in JSON with x and y."}]
    asked = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    made: list[tuple[int, CompiledReasoning]] = []
    with Engine(TransformersSource(model), smollm2_vocabulary) as engine:
        content = engine.compiler.compile(as_grammar_spec(Point))
        for budget in (0, 5, 12):
            for prompt, phrase, required in ((asked + "<think>\n", PHRASE, False), (asked, "", True)):
                prompt_ids = tokenizer.encode(prompt)
                options = Reasoning(parser="think", budget=budget, budget_phrase=phrase, required=required)
                constraint = compile_reasoning(content, smollm2_vocabulary, options, prompt_ids)
                params = SamplingParams(temperature=1.0, seed=budget, max_tokens=100)
                engine.add(Request(prompt_ids=prompt_ids, constraint=constraint, decode=str, params=params))
                made.append((budget, constraint))
        results = engine.run()
    for number, (result, (budget, constraint)) in enumerate(zip(results, made, strict=True)):
        assert result.ok, result
        split = constraint.split(result.token_ids)
        Point.model_validate_json(split.text)
        written = [smollm2_vocabulary.decode(result.token_ids[:n]) for n in range(10)]
        start, phrase = (written.index(b"<think>"), "") if number % 2 else (0, PHRASE)
        closing = [*smollm2_vocabulary.encode(phrase), *smollm2_vocabulary.encode("</think>")]
        assert split.end_index is not None
        end = split.end_index
        while smollm2_vocabulary.decode([result.token_ids[end - 1]]).isspace():  # up to two line ends
            end -= 1
        assert split.end_index - end <= 2 and end <= start + budget + len(closing)
        assert split.ended_by == "</think>"


def asked(tokenizer: Any, question: str) -> str:
    messages = [{"role": "user", "content": question}]
    return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)) + "<think>\n"


@pytest.mark.slow
@pytest.mark.parametrize("proposer", [None, "forced+ngram"])
def test_generate_thinks_and_gives_objects_alone_and_in_a_batch(smollm2: tuple[Any, Any], proposer: str | None) -> None:
    model, tokenizer = smollm2
    prompts = [asked(tokenizer, f"Where is ship {n}? Think, then answer in JSON with x and y.") for n in range(4)]
    options: dict[str, Any] = {
        "tokenizer": tokenizer,
        "reasoning": Reasoning(parser="think", budget=12, budget_phrase=PHRASE),
        "temperature": 0.8,
        "seed": 3,
        "max_tokens": 90,
        "proposer": proposer,
    }
    results = generate(model, prompts, Point, **options)
    for result in results:
        assert isinstance(result.unwrap(), Point) and result.reasoning and result.content_start is not None
        assert Point.model_validate_json(result.text) == result.value
        assert "</think>" not in result.reasoning + result.text
    assert generate(model, prompts[1], Point, **options).token_ids == results[1].token_ids
    with stream(model, prompts[2], Point, **options) as events:
        seen = list(events)
    assert "".join(event.reasoning for event in seen) == results[2].reasoning
    assert "".join(event.text for event in seen) == results[2].text


def add(a: int = Field(ge=0, le=99), b: int = Field(ge=0, le=99)) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.slow
@pytest.mark.parametrize("content_starts", [(), ("<tool_call>",)])
def test_generate_thinks_and_then_calls(smollm2: tuple[Any, Any], content_starts: tuple[str, ...]) -> None:
    model, tokenizer = smollm2
    prompts = [asked(tokenizer, f"What is {n} + 7? Think, then call add.") for n in range(3)]
    reasoning = Reasoning(parser="think", budget=8, content_starts=content_starts)
    tools = Tools([add, Point], choice="required", parallel=False)
    options: dict[str, Any] = {"tokenizer": tokenizer, "temperature": 0.0, "max_tokens": 90}
    for result in generate(model, prompts, tools, reasoning=reasoning, **options):
        [call] = result.unwrap()
        assert isinstance(call, ToolCall) and call.name in ("add", "Point") and result.reasoning
