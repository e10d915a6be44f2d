"""Think first, within a budget, then answer with a valid object: on a real 135M model, offline, on the CPU."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from pydantic import BaseModel, Field

from constrain import Engine, Request, SamplingParams, TransformersSource, Vocabulary, as_grammar_spec
from constrain.hf import load_packaged_model
from constrain.reasoning import Reasoning, compile_reasoning

QUESTION = "A train leaves at 14:10 and takes 95 minutes. When does it arrive? Think, then say hour and minute as JSON."


class Time(BaseModel):
    hour: int = Field(ge=0, le=23)
    minute: int = Field(ge=0, le=59)


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_packaged_model()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
    messages = [{"role": "user", "content": QUESTION}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) + "<think>\n"
    prompt_ids = tokenizer.encode(prompt)
    with Engine(TransformersSource(model), vocabulary) as engine:
        content = engine.compiler.compile(as_grammar_spec(Time))
        # This model knows no <think>: the marker is plain text to it, and the budget makes sure that it comes.
        options = Reasoning(parser="think", budget=48, budget_phrase="\nThat is enough.\n")
        constraint = compile_reasoning(content, vocabulary, options, prompt_ids)
        params = SamplingParams(temperature=0.0, max_tokens=120)
        engine.add(Request(prompt_ids=prompt_ids, constraint=constraint, decode=str, params=params))
        [result] = engine.run()
    split = constraint.split(result.token_ids)
    print(f"Thought ({split.end_index} tokens with the marker):\n{split.reasoning}\n")
    print(f"Answer: {Time.model_validate_json(split.text)!r}")


if __name__ == "__main__":
    main()
