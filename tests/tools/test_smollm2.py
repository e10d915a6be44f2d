"""Tools on a real model: batches, streams and transformers' own generate."""

import json
from typing import Any, Literal

import jsonschema
import pytest
from pydantic import BaseModel, Field

from constrain import Vocabulary, generate, stream
from constrain.tools import ToolCall, ToolOutput, Tools

pytestmark = pytest.mark.model

CITIES = ["Paris", "Lima", "Oslo", "Cairo", "Rome", "Delhi", "Quito", "Bern", "Kyoto", "Accra"]
ASKED = [
    *(f"What is the weather in {city}?" for city in CITIES),
    *(f"Remind me in {10 + n} minutes to call the office in {city}." for n, city in enumerate(CITIES)),
    *(f"Convert {n + 1} dollars to euros for my trip to {city}." for n, city in enumerate(CITIES)),
]


def get_weather(city: str = Field(max_length=20), unit: Literal["C", "F"] = "C") -> str:
    """The weather of a city."""
    raise AssertionError("a tool is never called here")


class Remind(BaseModel):
    """Set a reminder."""

    text: str = Field(max_length=40)
    minutes: int = Field(ge=1, le=999)


CONVERT = {
    "name": "convert",
    "description": "Convert money.",
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "integer", "minimum": 0, "maximum": 9999}, "to": {"enum": ["EUR", "USD"]}},
        "required": ["amount", "to"],
        "additionalProperties": False,
    },
}
TOOLS = [get_weather, Remind, CONVERT]


def messages(asked: str, tools: Tools) -> list[dict[str, str]]:
    listed = "\n".join(json.dumps(tool["function"]) for tool in tools.described())
    return [
        {"role": "system", "content": f"You answer by calling one of these tools:\n{listed}"},
        {"role": "user", "content": asked},
    ]


def assert_valid(call: ToolCall, tools: Tools) -> None:
    """Against the schemas by ``jsonschema``, and the value against what was written."""
    [schema] = [each["function"]["parameters"] for each in tools.described() if each["function"]["name"] == call.name]
    written = json.loads(call.raw)
    jsonschema.validate(written, schema)
    match call.name:
        case "get_weather":
            assert call.arguments == {"unit": "C", **written}
        case "Remind":
            assert call.arguments == Remind(**written)
        case _:
            assert call.arguments == written


def run_required(model: Any, tokenizer: Any, asked: list[str]) -> None:
    tools = Tools(TOOLS, choice="required", parallel=False)
    prompts = [messages(each, tools) for each in asked]
    results = generate(model, prompts, tools, tokenizer=tokenizer, temperature=0.7, seed=1, max_tokens=120)
    for result in results:
        assert result.ok, result
        [call] = result.unwrap()
        assert_valid(call, tools)


def test_required_calls_are_valid(smollm2: tuple[Any, Any]) -> None:
    run_required(*smollm2, ASKED[::10])


@pytest.mark.slow
def test_thirty_required_calls_are_all_valid(smollm2: tuple[Any, Any]) -> None:
    run_required(*smollm2, ASKED)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama3", "llama3-python-tag", "mistral", "mistral-args", "harmony"])
def test_every_format_gives_valid_calls(smollm2: tuple[Any, Any], name: str) -> None:
    model, tokenizer = smollm2
    tools = Tools(TOOLS, format=name, choice="required", parallel=False)
    prompts = [messages(each, tools) for each in ASKED[::10]]
    for result in generate(model, prompts, tools, tokenizer=tokenizer, temperature=0.0, max_tokens=120):
        [call] = result.unwrap()
        assert_valid(call, tools)


@pytest.mark.slow
def test_one_batch_holds_calls_text_and_other_constraints(smollm2: tuple[Any, Any]) -> None:
    model, tokenizer = smollm2
    named = Tools(TOOLS, choice="convert", parallel=False)
    auto = Tools(TOOLS)
    constraints = [named, auto, ["yes", "no"]]
    prompts = [messages(ASKED[20], named), "<tool_call>\n", "Is water wet? Answer:"]
    results = generate(model, prompts, constraints=constraints, tokenizer=tokenizer, temperature=0.0, max_tokens=90)
    [call] = results[0].unwrap()
    assert call.name == "convert"
    assert results[1].finish_reason == "length" or isinstance(results[1].value, ToolOutput)
    assert results[2].value in ("yes", "no")


@pytest.mark.slow
def test_a_stream_gives_what_generate_gives_and_its_text_splits(
    smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary
) -> None:
    model, tokenizer = smollm2
    tools = Tools(TOOLS, choice="convert", parallel=False)
    ids: list[int] = []
    seen = []
    with stream(
        model, messages(ASKED[20], tools), tools, tokenizer=tokenizer, temperature=0.0, max_tokens=90
    ) as events:
        for event in events:
            ids += event.token_ids
            seen.append(len(tools.split(ids, smollm2_vocabulary).calls))
    value = events.result().unwrap()
    assert seen == sorted(seen) and seen[-1] == 1
    assert list(tools.split(ids, smollm2_vocabulary).calls) == value
    same = generate(model, messages(ASKED[20], tools), tools, tokenizer=tokenizer, temperature=0.0, max_tokens=90)
    assert same.value == value


def test_the_processor_of_transformers_gives_calls(smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary) -> None:
    from constrain import ConstrainedLogitsProcessor

    model, tokenizer = smollm2
    tools = Tools(TOOLS, choice="convert", parallel=False)
    processor = ConstrainedLogitsProcessor(tools, smollm2_vocabulary)
    inputs = tokenizer(ASKED[20], return_tensors="pt")
    output = model.generate(**inputs, logits_processor=[processor], max_new_tokens=90, do_sample=False)
    [[call]] = [result.unwrap() for result in processor.results(output)]
    assert_valid(call, tools)
