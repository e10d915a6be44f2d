"""What verifying drafts costs on a GPU: our kernels beside the same rule in plain torch.

    python benchmarks/bench_verify.py [--vocab 128256] [--batch 32 128] [--drafts 3 7] [--check]

Each cell is a median over replays of a CUDA graph that holds one call for each of several input sets, more than the L2
cache holds. "x read" is the time over that of one read of what is given: the target's rows, and the draft's where it
has a distribution, in float32 at 4.46 TB/s (the best read measured on an H200). Acceptance decides how many rows need
to be read at all: ``none`` are drafts that the target never takes, ``some`` drafts near the target, ``all`` drafts that
are always accepted. With --check the tokens are first compared with the torch twin's, which is also timed.
"""

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops import block, compare, rejection
from constrain.spec.ops.row_stats import num_counters

BYTES_PER_US = 4.46e6
Call = Callable[[], tuple[torch.Tensor, torch.Tensor]]


@dataclass
class Inputs:
    logits: torch.Tensor
    draft: torch.Tensor | None
    is_logits: bool
    metadata: SpecDecodeMetadata
    seeds: torch.Tensor
    indices: torch.Tensor


def make_inputs(batch: int, drafts: int, vocab: int, kind: str, acceptance: str, seed: int) -> Inputs:
    generator = torch.Generator("cuda").manual_seed(seed)

    def noise(rows: int, scale: float) -> torch.Tensor:
        return torch.randn(rows, vocab, device="cuda", generator=generator) * scale

    num_rows, num_drafts = batch * (drafts + 1), batch * drafts
    shape = SpecDecodeMetadata.make([drafts] * batch, [0] * num_drafts, device="cuda")
    logits = noise(num_rows, 2.0)
    peaks = torch.randint(0, vocab, (num_rows, 40), device="cuda", generator=generator)
    logits.scatter_(1, peaks, (22 - 0.6 * torch.arange(40.0, device="cuda")).expand(num_rows, -1))
    target = logits[shape.target_logits_indices]
    if kind == "certain":
        best = target.argmax(dim=1)
        if acceptance == "all":
            logits[shape.target_logits_indices, best] += 60
        ids = (best + 1) % vocab if acceptance == "none" else best
        draft = None
    else:
        draft = noise(num_drafts, 4.0) if acceptance == "none" else target
        if acceptance == "some":
            draft = draft + noise(num_drafts, 0.5)
        probabilities = torch.softmax(draft, dim=1)
        ids = torch.multinomial(probabilities, 1, generator=generator).squeeze(1)
        draft = probabilities if kind == "probabilities" else draft
    metadata = SpecDecodeMetadata.make([drafts] * batch, ids.tolist(), device="cuda")
    seeds = torch.randint(0, 2**62, (batch,), device="cuda", generator=generator)
    return Inputs(logits, draft, kind == "logits", metadata, seeds, torch.zeros_like(seeds))


def time_us(calls: list[Call], repeats: int = 7) -> float:
    """Median GPU time of one call, all of them replayed in one graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        calls[0]()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(repeats + 1):
        start.record()
        for _ in range(5):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / 5 / len(calls))
    return statistics.median(times[1:])


def call_of(module: Any, each: Inputs, *, plain: bool = False) -> Call:
    """A call of the kernels of ``module``, or of its torch twin."""
    inputs = (each.logits, each.draft, each.metadata, each.seeds, each.indices, each.is_logits)
    if plain:
        return lambda: module._verify_torch(*inputs)
    counters = torch.zeros(num_counters(each.metadata), dtype=torch.int32, device="cuda")
    return lambda: module._verify_triton(*inputs, counters)


def input_sets(batch: int, drafts: int, vocab: int, kind: str, acceptance: str) -> list[Inputs]:
    size = batch * (drafts + 1) * vocab * 4
    return [
        make_inputs(batch, drafts, vocab, kind, acceptance, seed) for seed in range(max(2, -(-250_000_000 // size)))
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocab", type=int, default=128256)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128])
    parser.add_argument("--drafts", type=int, nargs="+", default=[3, 7])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, V = {options.vocab}, float32; us a call")
    print("rule       draft           B  K  acceptance  accepted     ours  x read    torch")
    for rule, module in {"rejection": rejection, "block": block}.items():
        for kind in ("certain", "probabilities", "logits"):
            for batch in options.batch:
                for drafts in options.drafts:
                    for acceptance in ("none", "some", "all"):
                        sets = input_sets(batch, drafts, options.vocab, kind, acceptance)
                        report(rule, module, kind, batch, drafts, acceptance, sets, options)
    for batch in options.batch:
        for drafts in options.drafts:
            metadata = SpecDecodeMetadata.make([drafts] * batch, [7] * batch * drafts, device="cuda")
            drawn = torch.full((metadata.num_rows,), 7, device="cuda")
            ours = time_us([lambda d=drawn, m=metadata: compare.verify_by_drawing(d, m)] * 20)  # type: ignore[misc]
            plain = time_us([lambda d=drawn, m=metadata: compare._verify_torch(d, m)] * 20)  # type: ignore[misc]
            print(
                f"draw       (tokens)      {batch:3} {drafts:2}                       {ours:8.1f}         {plain:8.1f}"
            )


def report(
    rule: str, module: Any, kind: str, batch: int, drafts: int, acceptance: str, sets: list[Inputs], options: Any
) -> None:
    tokens, accepted = call_of(module, sets[0])()
    ours = time_us([call_of(module, each) for each in sets])
    plain = float("nan")
    if options.check and acceptance == "some":
        plain_tokens, plain_accepted = call_of(module, sets[0], plain=True)()
        num_other = int((plain_accepted != accepted).sum()), int((plain_tokens != tokens).any(dim=1).sum())
        if num_other[1]:
            print(f"of {batch} requests, {num_other[1]} got other tokens, {num_other[0]} by another acceptance")
        plain = time_us([call_of(module, sets[0], plain=True)], repeats=2)
    floor = 4 * options.vocab * batch * (drafts + 1 + (drafts if kind != "certain" else 0))
    print(
        f"{rule:10} {kind:13} {batch:3} {drafts:2}  {acceptance:10} {float(accepted.float().mean()):9.2f} "
        f"{ours:8.1f} {ours * BYTES_PER_US / floor:7.2f} {plain:8.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
