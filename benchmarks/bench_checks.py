"""What the checks of a schema cost a step: mask + accept of a checked grammar, less those of its guide alone.

    python benchmarks/bench_checks.py --schemas DIR [--ranks FILE]

``DIR`` (or CONSTRAIN_SCHEMABENCH) holds JSON lines with name, schema and tests; valid instances of the schemas that
need checks are tokenised greedily and walked. ``FILE`` has the ranks of a tiktoken-style tokenizer; without it, it is
SmolLM2's. A step is *gated off* where no token is tried for its mask. CPU time of the thread, in microseconds.
Goals: gated off at most 10 us; else 0.3 ms at the median and 1.5 ms at p99 for 49,152 tokens, 1 ms and 5 ms for
151,936.
"""

import argparse
import base64
import json
import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import constrain.schema.refusals as refusals
import constrain.schema.trials as trials
from constrain.backends.auto import AutoBackend
from constrain.errors import ConstrainError
from constrain.grammar import Grammar
from constrain.grammar_spec import json_schema
from constrain.vocabulary import Vocabulary

_TRIED = [0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schemas", default=os.environ.get("CONSTRAIN_SCHEMABENCH", ""), help="folder of *.jsonl")
    parser.add_argument("--ranks", help="a file of ranks in base64, as tiktoken has them")
    parser.add_argument("--per-file", type=int, default=40, help="schemas of each file")
    parser.add_argument("--profile", choices=("default", "wide"), default="default")
    options = parser.parse_args()
    if not options.schemas:
        print("skipped: no schemas; give --schemas or set CONSTRAIN_SCHEMABENCH")
        return
    torch.set_num_threads(1)
    vocabulary = read_vocabulary(options.ranks)
    _count_trials()
    off, active, tried, num_schemas = [], [], [], 0
    for compiled, texts in compiled_cases(AutoBackend(vocabulary), options):
        num_schemas += 1
        for text in texts:
            for count, seconds in steps(compiled, vocabulary, text):
                (active if count else off).append(1e6 * seconds)
                tried += [count] if count else []
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"V = {vocabulary.size}, {num_schemas} schemas with checks, profile {options.profile}, {machine}")
    for name, found in (("gated off", off), ("active", active)):
        p50, p90, p99 = np.percentile(found, (50, 90, 99))
        print(f"{name:10} {len(found):7} steps  p50 {p50:8.1f}  p90 {p90:8.1f}  p99 {p99:8.1f} us")
    print(f"tokens tried in an active step: p50 {np.percentile(tried, 50):.0f}, p99 {np.percentile(tried, 99):.0f}")


def read_vocabulary(ranks: str | None) -> Vocabulary:
    if ranks is None:
        from constrain.hf import load_packaged_model

        return Vocabulary.from_tokenizer(load_packaged_model()[1])
    lines = [line.split() for line in Path(ranks).read_bytes().splitlines() if line]
    tokens = {base64.b64decode(token): int(rank) for token, rank in lines}
    return Vocabulary.from_ranks(tokens, special_tokens={"<|im_end|>": len(tokens)}, stop_token_ids=[len(tokens)])


def _count_trials() -> None:
    plain = trials.refused_of

    def counted(evaluator: Any, table: Any, places: Any, **kinds: Any) -> Any:
        _TRIED[0] += len(places)
        return plain(evaluator, table, places, **kinds)

    trials.refused_of = refusals.refused_of = counted  # type: ignore[attr-defined]


def compiled_cases(backend: AutoBackend, options: argparse.Namespace) -> Iterator[tuple[Any, list[str]]]:
    for path in sorted(Path(options.schemas).glob("*.jsonl")):
        left = options.per_file
        for line in path.read_text("utf-8").split("\n"):
            if not line.strip() or not left:
                continue
            case = json.loads(line)
            try:
                spec = json_schema(case["schema"], profile=options.profile, assert_formats=True)
                needed = backend.library("llguidance").unsupported(spec)
                found = backend.checks(spec) if needed else None
            except ConstrainError:
                continue
            if found is not None:
                left -= 1
                yield found.compiled, [json.dumps(test["data"]) for test in case["tests"] if test["valid"]][:2]


def steps(compiled: Any, vocabulary: Vocabulary, text: str) -> Iterator[tuple[int, float]]:
    """(tokens tried, seconds of the checks) of each step."""
    grammar, base = compiled.start(), compiled._base.start()
    row = torch.zeros((1, vocabulary.num_mask_words), dtype=torch.int32)
    for token_id in vocabulary.encode(text)[:400]:
        _TRIED[0] = 0
        alone = _step(base, row, token_id)
        both = _step(grammar, row, token_id)
        if alone is None or both is None:
            return
        yield _TRIED[0], both - alone


def _step(grammar: Grammar, row: torch.Tensor, token_id: int) -> float | None:
    started = time.thread_time()  # on a busy machine, too
    grammar.fill_bitmask(row, 0)
    count = grammar.accept([token_id])
    return time.thread_time() - started if count else None


if __name__ == "__main__":
    main()
