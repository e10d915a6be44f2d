"""Read a note, get a validated pydantic object: on a real 135M model, offline, on the CPU."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from datetime import date
from typing import Literal

import torch
from pydantic import BaseModel, Field
from transformers.utils import logging

from constrain import generate
from constrain.hf import load_packaged_model

NOTE = (
    "Maria Lopez, 34 years old, from Lisbon, joined as a senior engineer on 2024-03-18. "
    "She speaks Portuguese and English."
)
ASK = "Extract the employee as JSON with the fields name, age, city, level, joined, languages."


class Employee(BaseModel):
    name: str = Field(min_length=2, max_length=40)
    age: int = Field(ge=0, le=130)
    city: str = Field(max_length=40)
    level: Literal["junior", "senior", "lead"]
    joined: date
    languages: list[Literal["English", "French", "German", "Portuguese", "Spanish"]] = Field(min_length=1, max_length=3)


def main() -> None:
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    print("Loading SmolLM2-135M-Instruct (converted on the first run, about half a minute) ...")
    model, tokenizer = load_packaged_model()
    messages = [{"role": "user", "content": f"{ASK}\n\n{NOTE}"}]
    result = generate(model, messages, Employee, tokenizer=tokenizer, temperature=0.0, max_tokens=200)
    employee = result.unwrap()
    assert isinstance(employee, Employee)
    print(f"\nNote:   {NOTE}\nText:   {result.text}\nObject: {employee!r}")
    times = result.timings
    print(
        f"\n{result.num_output_tokens} tokens, enforced by {result.backend}; {times.forward_s:.1f} s in the model, "
        f"{1e3 * times.mask_s:.0f} ms filling masks beside it ({1e3 * times.mask_wait_s:.1f} ms of it waited for)"
    )


if __name__ == "__main__":
    main()
