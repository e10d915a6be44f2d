"""Watch an object grow: on a real 135M model, offline, on the CPU; first from a loop, then two at once from asyncio."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import asyncio
from typing import Any, Literal

import torch
from pydantic import BaseModel, Field
from transformers.utils import logging

from constrain import astream, stream
from constrain.hf import load_packaged_model


class Recipe(BaseModel):
    name: str = Field(max_length=30)
    ingredients: list[str] = Field(min_length=2, max_length=4)
    difficulty: Literal["easy", "medium", "hard"]


def ask(dish: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"A recipe for {dish} as JSON with name, ingredients and difficulty."}]


def watch(model: Any, tokenizer: Any) -> None:
    with stream(model, ask("pancakes"), Recipe, tokenizer=tokenizer, temperature=0.0, max_tokens=150) as events:
        for event in events:
            print(event.text, end="", flush=True)
    print(f"\n{events.result().unwrap()!r}\n")


async def watch_two(model: Any, tokenizer: Any) -> None:
    async def read(dish: str) -> None:
        async with astream(model, ask(dish), Recipe, tokenizer=tokenizer, temperature=0.0, max_tokens=150) as events:
            async for event in events:
                if event.partial is not None:
                    ingredients = event.partial.get("ingredients", [])
                    print(f"{dish:>6}: {len(ingredients)} ingredients, the last is {ingredients[-1:]}")
        print(f"{dish:>6}: {(await events.result()).unwrap()!r}")

    await asyncio.gather(read("soup"), read("salad"))


def main() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    print("Loading SmolLM2-135M-Instruct (converted on the first run, about half a minute) ...\n")
    model, tokenizer = load_packaged_model()
    watch(model, tokenizer)
    asyncio.run(watch_two(model, tokenizer))


if __name__ == "__main__":
    main()
