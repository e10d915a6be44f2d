"""What ConstrainedLogitsProcessor adds to a step of transformers' generate, beside xgrammar's own processor.

    python benchmarks/bench_processor.py [--device cuda --model 8b] [--batch 1 8 32] [--tokens 48] [--rounds 3]

Each round runs, in turn: no processor, ours, ours with prefetch, xgrammar.contrib.hf's. All use the grammar that our
xgrammar backend compiled, greedily, so the tokens are equal (checked). "timer" is the time inside processor and
criterion, the median over steps and rounds; on CUDA the device is idle before and after each timed call, so that
queued work of the model is not counted. "step" is the wall time of a whole step in untimed runs, "added" its excess
over no processor. ``--model 8b`` is a random Llama of 8B's shape, bfloat16, with a made-up vocabulary of 128256.
Goals: timer ratio with prefetch at most 0.5; on one H200, at most 250 us with prefetch at batch 32.
"""

import argparse
import os
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LogitsProcessor, StoppingCriteria
from xgrammar.contrib.hf import LogitsProcessor as TheirProcessor

from constrain import ConstrainedLogitsProcessor, Vocabulary, json_schema, make_backend
from constrain.hf import load_packaged_model

SCHEMA = {
    "type": "array",
    "minItems": 40,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": {"enum": ["book", "film", "song"]},
            "year": {"type": "integer"},
        },
        "required": ["name", "kind", "year"],
        "additionalProperties": False,
    },
}
WIDTH_8B = 128256


class Timed(LogitsProcessor, StoppingCriteria):  # type: ignore[misc]
    """Calls ``inner``, and keeps how long it took."""

    def __init__(self, inner: Callable[..., Any], seconds: list[float], device: str) -> None:
        self.inner, self.seconds, self.is_cuda = inner, seconds, device == "cuda"

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if self.is_cuda:
            torch.cuda.synchronize()
        started = time.perf_counter()
        result: torch.Tensor = self.inner(input_ids, scores)
        if self.is_cuda:
            torch.cuda.synchronize()
        self.seconds.append(time.perf_counter() - started)
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--model", default="smollm2", choices=["smollm2", "8b"])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, vocabulary = load(options.model, options.device)
    compiled: Any = make_backend("xgrammar", vocabulary).compile(json_schema(SCHEMA))
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU, one thread"
    print(f"{options.model}, V = {vocabulary.logits_width}, {machine}, torch {torch.__version__}; us a step, p50")
    print("batch  mode                timer     p99  ratio to xgrammar's      step   added")
    for batch in options.batch:
        report(batch, measure(model, compiled, batch, options))


def load(name: str, device: str) -> tuple[Any, Vocabulary]:
    if name == "smollm2":
        model, tokenizer = load_packaged_model()
        return model.to(device), Vocabulary.from_tokenizer(tokenizer, model=model)
    config = LlamaConfig(
        vocab_size=WIDTH_8B, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
        num_key_value_heads=8, max_position_embeddings=8192, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config).eval()
    torch.set_default_dtype(torch.float32)
    return model, made_up_vocabulary()


def made_up_vocabulary() -> Vocabulary:
    """A stop token, all bytes, and random words, some with a blank in front: as many as a large tokenizer has."""
    rng, letters = random.Random(0), "etaoinshrdlucmfwypvbgkjqxz"
    tokens = dict.fromkeys(bytes([byte]) for byte in range(256))
    for text in ('{"', '":', '", "', '"}', "}, {", "[{", ' "', '": "'):
        tokens[text.encode()] = None
    while len(tokens) < WIDTH_8B - 257:
        word = "".join(rng.choices(letters, range(26, 0, -1), k=rng.randrange(2, 9)))
        tokens[(rng.choice(["", " "]) + word).encode()] = None
    return Vocabulary([b"", *tokens], stop_token_ids=[0], logits_width=WIDTH_8B)


def measure(model: Any, compiled: Any, batch: int, options: Any) -> dict[str, tuple[list[float], list[float]]]:
    """For each mode: seconds of each timed step, and seconds a step of each untimed run."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(1, 20000, (batch, options.prompt), generator=generator).to(model.device)
    ours = ConstrainedLogitsProcessor(compiled)
    modes: dict[str, Callable[[], tuple[list[Any], list[Any]]]] = {
        "none": lambda: ([], []),
        "ours": lambda: ([ours], []),
        "ours + prefetch": lambda: ([ours], [ours.prefetch]),
        "xgrammar's": lambda: ([TheirProcessor(compiled._compiled)], []),
    }
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in modes}
    held: set[bytes] = set()
    for round_ in range(options.rounds + 1):  # the first warms up
        for name, make in modes.items():
            for is_timed in (False, True):
                processors, criteria = make()
                seconds: list[list[float]] = [[] for _ in (*processors, *criteria)]
                if is_timed:
                    wrapped = [
                        Timed(each, kept, options.device)
                        for each, kept in zip((*processors, *criteria), seconds, strict=True)
                    ]
                    processors, criteria = wrapped[: len(processors)], wrapped[len(processors) :]
                output, elapsed = run(model, ids, processors, criteria, options.tokens)
                if name != "none":
                    held.add(output.cpu().numpy().tobytes())
                if round_ and is_timed:
                    found[name][0].extend(map(sum, zip(*seconds, strict=True)))
                elif round_:
                    found[name][1].append(elapsed / options.tokens)
    assert len(held) == 1, "the processors gave different tokens"
    return found


def run(model: Any, ids: torch.Tensor, processors: list[Any], criteria: list[Any], tokens: int) -> tuple[Any, float]:
    if ids.is_cuda:
        torch.cuda.synchronize()
    started = time.perf_counter()
    output = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=tokens, min_new_tokens=tokens,
        pad_token_id=0, logits_processor=processors, stopping_criteria=criteria,
    )  # fmt: skip
    if ids.is_cuda:
        torch.cuda.synchronize()
    return output, time.perf_counter() - started


def report(batch: int, found: dict[str, tuple[list[float], list[float]]]) -> None:
    theirs = statistics.median(found["xgrammar's"][0])
    free = statistics.median(found["none"][1])
    for name, (timed, steps) in found.items():
        step = statistics.median(steps)
        row = f"{batch:>5}  {name:<16}"
        if timed:
            timer, worst = statistics.median(timed), statistics.quantiles(timed, n=100)[98]
            row += f"{1e6 * timer:>8.0f}{1e6 * worst:>8.0f}{timer / theirs:>21.2f}"
        else:
            row += f"{'':>8}{'':>8}{'':>21}"
        print(f"{row}{1e6 * step:>10.0f}{1e6 * (step - free):>8.0f}", flush=True)


if __name__ == "__main__":
    main()
