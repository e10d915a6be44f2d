"""Fewer forward passes for the same tokens: what the schema forces and the prompt says is drafted, then verified."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from pydantic import BaseModel, Field

from constrain import generate
from constrain.hf import load_packaged_model


class Order(BaseModel):
    customer_name: str = Field(max_length=30)
    ordered_item: str = Field(max_length=30)
    number_of_items: int = Field(ge=1, le=99)


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_packaged_model()
    ask = (
        "Extract customer_name, ordered_item and number_of_items as JSON.\n\nMaria Lopez ordered 3 pieces of green tea."
    )
    for proposer in (None, "forced+ngram", "grammar+ngram"):
        messages = [{"role": "user", "content": ask}]
        result = generate(model, messages, Order, tokenizer=tokenizer, temperature=0.0, proposer=proposer)
        drafts = result.speculation
        passes = result.num_output_tokens - (drafts.num_accepted if drafts else 0)
        print(f"{result.unwrap()!r}\n  {result.num_output_tokens} tokens in {passes} forward passes ({proposer=})")


if __name__ == "__main__":
    main()
