"""Think first, within a budget, then answer with a valid object: on a real 135M model, offline, on the CPU."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from pydantic import BaseModel, Field

from constrain import Reasoning, generate
from constrain.hf import load_packaged_model

QUESTION = "A train leaves at 14:10 and takes 95 minutes. When does it arrive? Think, then say hour and minute as JSON."


class Time(BaseModel):
    hour: int = Field(ge=0, le=23)
    minute: int = Field(ge=0, le=59)


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_packaged_model()
    messages = [{"role": "user", "content": QUESTION}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) + "<think>\n"
    # This model knows no <think>: the marker is plain text to it, and the budget makes sure that it comes.
    reasoning = Reasoning(parser="think", budget=48, budget_phrase="\nThat is enough.\n")
    result = generate(model, prompt, Time, tokenizer=tokenizer, reasoning=reasoning, temperature=0.0, max_tokens=120)
    print(f"Thought ({result.content_start} tokens with the marker):\n{result.reasoning}\n")
    print(f"Answer: {result.unwrap()!r}")


if __name__ == "__main__":
    main()
