"""transformers' own generate, held to one constraint for each prompt: beams, then sampling. Offline, on the CPU."""

import os
import re

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from typing import Literal

import torch
from pydantic import BaseModel, Field

from constrain import ConstrainedLogitsProcessor, Vocabulary
from constrain.hf import load_packaged_model


class Weather(BaseModel):
    city: str = Field(max_length=12)
    sky: Literal["clear", "cloudy", "rain"]
    degrees: int = Field(ge=-40, le=50)


PROMPTS = ["The weather in Lisbon today, as JSON with city, sky and degrees:", "A date as year-month-day:"]


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_packaged_model()
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.eos_token
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    processor = ConstrainedLogitsProcessor(
        constraints=[Weather, re.compile(r"20\d\d-[01]\d-[0-3]\d")],
        vocabulary=Vocabulary.from_tokenizer(tokenizer, model=model),
    )
    for mode in ({"num_beams": 3}, {"do_sample": True, "temperature": 1.2, "num_return_sequences": 2}):
        torch.manual_seed(0)
        output = model.generate(
            **inputs,
            **mode,
            max_new_tokens=48,
            pad_token_id=tokenizer.pad_token_id,
            logits_processor=[processor],
            stopping_criteria=[processor.prefetch],  # fills the next masks during the forward pass
        )
        print(mode)
        for result in processor.results(output):
            print(f"  {result.finish_reason}: {result.value!r}")


if __name__ == "__main__":
    main()
