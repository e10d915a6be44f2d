"""The main job on a real model: many prompts, many schemas, one batch."""

import dataclasses
import json
from collections.abc import Sequence
from datetime import date
from enum import Enum
from typing import Any, Literal, TypedDict

import jsonschema
import pytest
import torch
from pydantic import BaseModel, Field

from constrain import Engine, GenerationResult, Request, SamplingParams, TransformersSource, Vocabulary, as_constraint

pytestmark = pytest.mark.model

SMALL_TEXT = Field(max_length=12)


class Point(BaseModel):
    x: int = Field(ge=-99, le=99)
    y: int = Field(ge=-99, le=99)


class Colour(Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


class Movie(TypedDict):
    title: str
    year: int


@dataclasses.dataclass
class Order:
    item: Literal["tea", "coffee", "juice"]
    count: int
    takeaway: bool


class Person(BaseModel):
    name: str = SMALL_TEXT
    born: date
    favourite: Colour


CONSTRAINTS: list[Any] = [
    Point,
    Colour,
    list[bool],
    Order,
    Person,
    {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"enum": ["north", "south", 1, None, {"a": [1]}]},
    {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
            "tags": {"type": "array", "maxItems": 2, "items": {"enum": ["new", "old"]}},
        },
        "required": ["id", "tags"],
        "additionalProperties": False,
    },
    {"anyOf": [{"type": "integer", "minimum": 10, "maximum": 20}, {"const": "none"}]},
    None,
]
TOPICS = ["a point", "the sky", "three answers", "an order at a bar", "Ada Lovelace"]


def requests(tokenizer: Any, count: int) -> list[Request]:
    made = []
    for index in range(count):
        prompt = f"Answer in JSON about {TOPICS[index % len(TOPICS)]}, number {index}."
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
        )
        wanted = CONSTRAINTS[index % len(CONSTRAINTS)]
        constraint = None if wanted is None else as_constraint(wanted)
        made.append(
            Request(
                prompt_ids=ids,
                constraint=constraint and constraint.grammar_spec,
                decode=constraint and constraint.decode,
                params=SamplingParams(temperature=0.0, max_tokens=16 if wanted is None else 120),
            )
        )
    return made


def run(model: Any, vocabulary: Vocabulary, wanted: Sequence[Request]) -> list[GenerationResult]:
    with Engine(TransformersSource(model), vocabulary, max_batch_size=len(wanted)) as engine:
        for request in wanted:
            engine.add(request)
        return engine.run()


def assert_valid(request: Request, result: GenerationResult) -> None:
    if request.constraint is None:
        assert result.finish_reason in ("stop", "length") and result.backend is None
        return
    assert result.ok, (request.constraint, result)
    assert not isinstance(request.constraint, type(None)) and hasattr(request.constraint, "text")
    schema = json.loads(request.constraint.text)
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker()).validate(json.loads(result.text))


def assert_same_up_to_a_tie(model: Any, request: Request, one: GenerationResult, other: GenerationResult) -> bool:
    """Equal tokens, or the first difference lies where the model's two logits are equal to 1e-3. True if equal."""
    if one.token_ids == other.token_ids:
        return True
    at = next(i for i, (a, b) in enumerate(zip(one.token_ids, other.token_ids, strict=False)) if a != b)
    prefix = [*request.prompt_ids, *one.token_ids[:at]]
    with torch.inference_mode():
        logits = model(torch.tensor([prefix]), use_cache=False).logits[0, -1]
    gap = abs(float(logits[one.token_ids[at]] - logits[other.token_ids[at]]))
    assert gap < 1e-3, f"diverged at output {at} over a gap of {gap}"
    return False


@pytest.mark.parametrize("count", [11, pytest.param(50, marks=pytest.mark.slow)])
def test_a_mixed_batch_is_valid_and_each_request_is_what_it_is_alone(
    smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary, count: int
) -> None:
    model, tokenizer = smollm2
    wanted = requests(tokenizer, count)
    results = run(model, smollm2_vocabulary, wanted)
    for request, result in zip(wanted, results, strict=True):
        assert_valid(request, result)
    equal = 0
    for request, result in zip(wanted, results, strict=True):
        [alone] = run(model, smollm2_vocabulary, [request])
        equal += assert_same_up_to_a_tie(model, request, result, alone)
    print(f"{equal} of {count} requests gave the same tokens alone; the others diverged at a tie")


def test_greedy_free_text_is_what_transformers_generates(
    smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary
) -> None:
    model, tokenizer = smollm2
    prompts = ["The capital of France is", "def fibonacci(n):\n", "Once upon a time, in a small village by the sea,"]
    wanted = [
        Request(prompt_ids=tokenizer.encode(prompt), params=SamplingParams(temperature=0.0, max_tokens=20))
        for prompt in prompts
    ]
    for request, result in zip(wanted, run(model, smollm2_vocabulary, wanted), strict=True):
        ids = torch.tensor([request.prompt_ids])
        theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False)
        assert result.token_ids == tuple(theirs[0, ids.shape[1] :].tolist())
