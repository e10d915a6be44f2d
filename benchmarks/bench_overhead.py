"""Time per token, constrained over unconstrained, on SmolLM2-135M-Instruct in one run.

Every round runs the same prompts free and constrained, in turn, on one engine; the constrained run's tokens are forced
on neither. Prints medians over rounds of the time per generated token and their ratio, and what the masks cost.

    python benchmarks/bench_overhead.py [--rounds 5] [--batch 1 8] [--tokens 48]
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from constrain import Engine, Request, SamplingParams, TransformersSource, Vocabulary, json_schema
from constrain.hf import load_packaged_model

SCHEMA = {
    "type": "array",
    "minItems": 12,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 20},
            "kind": {"enum": ["book", "film", "song"]},
            "year": {"type": "integer", "minimum": 1900, "maximum": 2030},
        },
        "required": ["name", "kind", "year"],
        "additionalProperties": False,
    },
}


def run(engine: Engine, requests: list[Request]) -> tuple[float, int, float, float]:
    """(seconds a token, tokens, mask ms a step, mask ms a step that was waited for)."""
    started = time.perf_counter()
    for request in requests:
        engine.add(request)
    results = engine.run()
    seconds = time.perf_counter() - started
    assert all(result.error is None for result in results), results
    steps = max(result.num_output_tokens for result in results)
    tokens = sum(result.num_output_tokens for result in results)
    mask = 1e3 * max(result.timings.mask_s for result in results) / steps
    waited = 1e3 * max(result.timings.mask_wait_s for result in results) / steps
    return seconds / steps, tokens, mask, waited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--tokens", type=int, default=48)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = load_packaged_model()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
    params = SamplingParams(temperature=1.0, max_tokens=arguments.tokens, seed=1)
    print(f"SmolLM2-135M float32, CPU, one thread, torch {torch.__version__}; {arguments.tokens} tokens a request")
    print(f"{'batch':>5} {'free ms':>9} {'constrained':>11} {'ratio':>6} {'range':>13} {'mask ms':>8} {'waited':>7}")
    for batch in arguments.batch:
        prompts = [tokenizer.encode(f"List twelve famous works, part {i}, as JSON:\n") for i in range(batch)]
        free = [Request(prompt_ids=ids, params=params) for ids in prompts]
        held = [Request(prompt_ids=ids, params=params, constraint=json_schema(SCHEMA)) for ids in prompts]
        with Engine(TransformersSource(model), vocabulary, max_batch_size=batch) as engine:
            run(engine, free), run(engine, held)  # warm up, and compile
            rounds = [(run(engine, free), run(engine, held)) for _ in range(arguments.rounds)]
        ratios = sorted(b[0] / a[0] for a, b in rounds)
        print(
            f"{batch:>5} {1e3 * statistics.median(a[0] for a, _ in rounds):>9.1f} "
            f"{1e3 * statistics.median(b[0] for _, b in rounds):>11.1f} {statistics.median(ratios):>6.3f} "
            f"{ratios[0]:>6.3f}-{ratios[-1]:.3f} {statistics.median(b[2] for _, b in rounds):>8.3f} "
            f"{statistics.median(b[3] for _, b in rounds):>7.3f}"
        )


if __name__ == "__main__":
    main()
