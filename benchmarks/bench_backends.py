"""What the adapters cost: mask + accept through constrain ÷ the library's own documented calls, token by token.

    python benchmarks/bench_backends.py --schemas DIR [--tokenizer DIR]

``DIR`` of schemas (or CONSTRAIN_SCHEMABENCH) holds JSON lines with name, schema and tests; valid instances are
tokenised (by SmolLM2's tokenizer, unless another is given) and walked. The direct calls run on a matcher of the same
compiled grammar, in turn with ours in one run.
Goal: a ratio of at most 1.1 at the median.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from constrain.backends import make_backend
from constrain.errors import ConstrainError
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.hf import load_packaged_model
from constrain.vocabulary import Vocabulary

Step = Callable[[int], None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schemas", default=os.environ.get("CONSTRAIN_SCHEMABENCH", ""), help="folder of *.jsonl")
    parser.add_argument("--tokenizer", help="folder of a tokenizer; that of the packaged model without it")
    parser.add_argument("--per-file", type=int, default=12, help="schemas of each file")
    parser.add_argument("--rounds", type=int, default=3, help="walks of each instance, the best of each token counts")
    options = parser.parse_args()
    if not options.schemas:
        print("skipped: no schemas; give --schemas or set CONSTRAIN_SCHEMABENCH")
        return
    torch.set_num_threads(1)
    vocabulary = read_vocabulary(options.tokenizer)
    cases = list(read_cases(Path(options.schemas), options.per_file))
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    print(f"V = {vocabulary.size}, {len(cases)} schemas, {machine}; microseconds a token")
    print("library      schemas  tokens  direct p50      p99  ours p50      p99  ratio p50  of sums")
    for name, direct in (("llguidance", direct_llguidance), ("xgrammar", direct_xgrammar)):
        report(name, *measure(name, direct, vocabulary, cases, options.rounds))


def read_vocabulary(folder: str | None) -> Vocabulary:
    if folder is None:
        return Vocabulary.from_tokenizer(load_packaged_model()[1])
    return Vocabulary.from_tokenizer(AutoTokenizer.from_pretrained(folder))


def read_cases(folder: Path, per_file: int) -> Iterator[tuple[Any, list[Any]]]:
    for path in sorted(folder.glob("*.jsonl")):
        found = 0
        for line in path.read_text().splitlines():
            case = json.loads(line)
            valid = [test["data"] for test in case["tests"] if test["valid"]]
            if valid and found < per_file:
                found += 1
                yield case["schema"], valid


def measure(
    name: str,
    direct: Callable[[Any, torch.Tensor], Step],
    vocabulary: Vocabulary,
    cases: list[tuple[Any, list[Any]]],
    rounds: int,
) -> tuple[int, list[float], list[float]]:
    backend = make_backend(name, vocabulary)
    bitmask = torch.zeros(1, vocabulary.num_mask_words, dtype=torch.int32)
    schemas, theirs, ours = 0, list[float](), list[float]()
    for schema, instances in cases:
        try:
            # An open object is not on xgrammar's list of what it enforces; closing it costs nothing here.
            spec = GrammarSpec(
                "json_schema", json.dumps(schema if name == "llguidance" else closed(schema)), JsonForm()
            )
            compiled = backend.compile(spec)
        except ConstrainError:
            continue
        schemas += 1
        for instance in instances:
            tokens = vocabulary.encode(json.dumps(instance, ensure_ascii=False))
            tokens = tokens[: compiled.start().validate(tokens)]
            walks: list[tuple[list[float], list[float]]] = []
            for number in range(rounds):
                grammar: Any = compiled.start()

                def our_step(token: int, grammar: Any = grammar) -> None:
                    grammar.fill_bitmask(bitmask, 0)
                    grammar.accept([token])

                matcher = compiled.start()._matcher  # type: ignore[attr-defined]
                steps = [direct(matcher, bitmask), our_step]
                timed = [time_walk(step, tokens) for step in (steps if number % 2 == 0 else steps[::-1])]
                walks.append((timed[0], timed[1]) if number % 2 == 0 else (timed[1], timed[0]))
            theirs += [min(times) for times in zip(*(walk[0] for walk in walks), strict=True)]
            ours += [min(times) for times in zip(*(walk[1] for walk in walks), strict=True)]
    return schemas, theirs, ours


def time_walk(step: Step, tokens: list[int]) -> list[float]:
    times = []
    for token in tokens:
        begin = time.perf_counter()
        step(token)
        times.append(time.perf_counter() - begin)
    return times


def direct_llguidance(matcher: Any, bitmask: torch.Tensor) -> Step:
    from llguidance.torch import fill_next_token_bitmask

    def step(token: int) -> None:
        fill_next_token_bitmask(matcher, bitmask, 0)
        matcher.consume_token(token)

    return step


def direct_xgrammar(matcher: Any, bitmask: torch.Tensor) -> Step:
    def step(token: int) -> None:
        matcher.fill_next_token_bitmask(bitmask, 0)
        matcher.accept_token(token)

    return step


def closed(schema: Any) -> Any:
    """``schema`` with its objects closed."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    mended = {key: closed(item) for key, item in schema.items()}
    return mended | {"additionalProperties": False} if mended.get("type") == "object" else mended


def report(name: str, schemas: int, theirs: list[float], ours: list[float]) -> None:
    if not ours:
        print(f"{name:12} {schemas:7}  no tokens")
        return
    ratio = statistics.median(mine / yours for mine, yours in zip(ours, theirs, strict=True))
    numbers = [quantile(theirs, 50), quantile(theirs, 99), quantile(ours, 50), quantile(ours, 99)]
    cells = f"{numbers[0]:11.2f} {numbers[1]:8.1f} {numbers[2]:9.2f} {numbers[3]:8.1f}"
    print(f"{name:12} {schemas:7} {len(ours):7} {cells} {ratio:10.3f} {sum(ours) / sum(theirs):8.3f}")


def quantile(times: list[float], percent: int) -> float:
    ordered = sorted(times)
    return 1e6 * ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


if __name__ == "__main__":
    main()
