"""Let a model call functions: the call is always one of yours, with valid arguments; on a real 135M model, offline."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from typing import Annotated, Literal

import torch
from pydantic import Field
from transformers.utils import logging

from constrain import generate
from constrain.hf import load_packaged_model
from constrain.tools import Tools


def get_weather(city: Annotated[str, Field(max_length=20)], unit: Literal["C", "F"] = "C") -> str:
    """The weather in a city."""
    return f"It is 21 {unit} in {city}."


def convert(amount: Annotated[int, Field(ge=0, le=9999)], to: Literal["EUR", "USD"]) -> str:
    """Convert an amount of money."""
    return f"{amount} converted to {to}."


EXAMPLES = [  # a model this small learns the tools from examples only
    ("What is the weather in Oslo?", '{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "C"}}'),
    ("What is the weather in Rome?", '{"name": "get_weather", "arguments": {"city": "Rome", "unit": "C"}}'),
    ("Convert 5 euros to dollars.", '{"name": "convert", "arguments": {"amount": 5, "to": "USD"}}'),
]
FUNCTIONS = {"get_weather": get_weather, "convert": convert}


def main() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    model, tokenizer = load_packaged_model()
    tools = Tools([get_weather, convert], choice="required", parallel=False)
    asked = ["What is the weather in Lisbon?", "Convert 20 dollars to euros."]
    shown = [
        {"role": role, "content": content}
        for question, call in EXAMPLES
        for role, content in (("user", question), ("assistant", f"<tool_call>\n{call}\n</tool_call>"))
    ]
    prompts = [[*shown, {"role": "user", "content": each}] for each in asked]
    results = generate(model, prompts, tools, tokenizer=tokenizer, temperature=0.0, max_tokens=120)
    for question, result in zip(asked, results, strict=True):
        for call in result.unwrap():
            print(f"{question}\n  {call.name}({call.raw}) -> {FUNCTIONS[call.name](**call.arguments)}")


if __name__ == "__main__":
    main()
