"""Thinking, then a valid object, on a real model."""

from typing import Any

import pytest
from pydantic import BaseModel, Field

from constrain import Engine, Request, SamplingParams, TransformersSource, Vocabulary, as_grammar_spec
from constrain.reasoning import CompiledReasoning, Reasoning, compile_reasoning

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
        assert split.end_index is not None and split.end_index <= start + budget + len(closing)
        assert split.ended_by == "</think>"
