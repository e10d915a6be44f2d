"""The engine over transformers' own ``model.generate``, on SmolLM2-135M-Instruct in one run.

Both answer the same prompts greedily with the same number of tokens; the outputs must be equal, up to ties. The engine
runs twice: free, and under a JSON schema that the tokens cannot finish. Prints the process's CPU time on one thread,
the best round of each, and the ratios engine / generate.

    python benchmarks/bench_engine.py [--rounds 3] [--batch 1 8 32] [--tokens 32]
"""

import argparse
import os
import random
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers

from constrain import Engine, Request, SamplingParams, TransformersSource, Vocabulary, json_schema
from constrain.hf import load_packaged_model

SCHEMA = {
    "type": "array",
    "minItems": 40,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "year": {"type": "integer"}},
        "required": ["name", "year"],
        "additionalProperties": False,
    },
}
TEXT = (
    "The history of the small town begins with a mill on the river, which ground the corn of the farms around it. "
    "In later years a railway came, and with it a school, a market on every second Friday, and a newspaper. "
)
NEVER = 16  # a special token that the model never draws: no answer ends early


def make_prompts(tokenizer: Any, batch: int) -> list[list[int]]:
    """Prompts of 20 to 200 tokens."""
    rng = random.Random(batch)
    ids: list[int] = tokenizer.encode(TEXT * 10)
    return [ids[start : start + rng.randint(20, 200)] for start in (rng.randrange(100) for _ in range(batch))]


def generate(model: Any, prompts: list[list[int]], tokens: int) -> list[tuple[int, ...]]:
    longest = max(map(len, prompts))
    ids = torch.tensor([[NEVER] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    out = model.generate(
        ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False, eos_token_id=NEVER, pad_token_id=NEVER
    )
    return [tuple(row) for row in out[:, longest:].tolist()]


def run(engine: Engine, requests: list[Request]) -> list[tuple[int, ...]]:
    for request in requests:
        engine.add(request)
    results = engine.run()
    assert all(result.finish_reason == "length" for result in results), results
    return [result.token_ids for result in results]


def cpu_seconds(function: Callable[..., list[tuple[int, ...]]], *arguments: Any) -> tuple[float, list[tuple[int, ...]]]:
    started = time.process_time()
    outputs = function(*arguments)
    return time.process_time() - started, outputs


def count_ties(model: Any, prompts: list[list[int]], ours: Any, theirs: Any) -> int:
    """Requests whose outputs part where the model's two logits are equal to 1e-3; any other difference raises."""
    ties = 0
    for prompt, one, other in zip(prompts, ours, theirs, strict=True):
        if one == other:
            continue
        at = next(i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *one[:at]]]), use_cache=False).logits[0, -1]
        gap = abs(float(logits[one[at]] - logits[other[at]]))
        assert gap < 1e-3, f"outputs part at token {at} over a gap of {gap}"
        ties += 1
    return ties


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=32)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_packaged_model()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model, stop_token_ids=[NEVER])
    params = SamplingParams(temperature=0.0, max_tokens=arguments.tokens)
    print(
        f"SmolLM2-135M float32, CPU, one thread, torch {torch.__version__}, transformers {transformers.__version__}; "
        f"{arguments.tokens} tokens a request, CPU seconds, best of {arguments.rounds}"
    )
    print(f"{'batch':>5} {'generate':>9} {'free':>7} {'held':>7} {'free/gen':>9} {'held/gen':>9} {'ties':>5}")
    for batch in arguments.batch:
        prompts = make_prompts(tokenizer, batch)
        free = [Request(prompt_ids=ids, params=params) for ids in prompts]
        held = [Request(prompt_ids=ids, params=params, constraint=json_schema(SCHEMA)) for ids in prompts]
        with Engine(TransformersSource(model), vocabulary, max_batch_size=batch) as engine:
            engine.compiler.submit(json_schema(SCHEMA)).result()
            rounds = []
            for _ in range(arguments.rounds):
                theirs_s, theirs = cpu_seconds(generate, model, prompts, arguments.tokens)
                free_s, ours = cpu_seconds(run, engine, free)
                held_s, _ = cpu_seconds(run, engine, held)
                rounds.append((theirs_s, free_s, held_s))
        ties = count_ties(model, prompts, ours, theirs)
        best = [min(column) for column in zip(*rounds, strict=True)]
        print(
            f"{batch:>5} {best[0]:>9.2f} {best[1]:>7.2f} {best[2]:>7.2f} {best[1] / best[0]:>9.3f} "
            f"{best[2] / best[0]:>9.3f} {ties:>5}",
            flush=True,
        )


if __name__ == "__main__":
    main()
