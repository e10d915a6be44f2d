"""Penalties and logprobs on a GPU against what torch does: median microseconds of a call inside a CUDA graph.

    python benchmarks/bench_penalties.py [--batch 1 8 32 64 128 256] [--width 128256]

Every slot has a prompt and an output of 128 tokens each, all different, and all three penalties. Each graph holds one
call on each of several logits (160 MB in all, so that none stays in the L2 cache); in place, so they drift, which costs
nothing. "ratio" is torch over ours, in the same run; the spread is (max - min) / median over the replays.

- "penalise": ``adjust_``; torch gathers and scatters on dense counts [B, V], which somebody has to keep;
- "counts": ``commit`` of one token a slot, on the device alone; torch adds to dense counts with ``scatter_add_``;
- "top 5", "top 20": ``row_logprobs``; torch takes ``log_softmax``, ``topk``, ``gather`` and a comparison for the rank.
"""

import argparse
import random
import statistics
from collections.abc import Callable
from functools import partial

import torch

from constrain.sampling.ops.adjust import adjust_
from constrain.sampling.ops.logprobs import row_logprobs
from constrain.sampling.ops.pages import add_
from constrain.sampling.penalties import PenaltyState
from constrain.sampling.rows import Rows

TOUCHED = 256
DEVICE = torch.device("cuda")


def graph_time(calls: list[Callable[[], object]], replays: int = 30) -> tuple[float, float]:
    """(median microseconds of one call, spread)."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls[:2] * 2:  # compiles
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for call in calls:
                call()
        times = []
        for _ in range(replays + 3):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1000 / len(calls))
    times = times[3:]
    median = statistics.median(times)
    return median, (max(times) - min(times)) / median


def dense_penalties_(logits: torch.Tensor, ids: torch.Tensor, counts: torch.Tensor, prompt: torch.Tensor) -> None:
    values = logits.gather(1, ids)
    count = counts.gather(1, ids)
    repeated = torch.where(values > 0, values / 1.3, values * 1.3)
    values = torch.where((count > 0) | prompt.gather(1, ids), repeated, values) - 0.2 * count - 0.1 * (count > 0)
    logits.scatter_(1, ids, values)


def torch_logprobs(logits: torch.Tensor, tokens: torch.Tensor, top_n: int) -> tuple[torch.Tensor, ...]:
    logprobs = logits.log_softmax(dim=1, dtype=torch.float32)
    own = logprobs.gather(1, tokens[:, None])
    return own, (logprobs >= own).sum(dim=1), *logprobs.topk(top_n, dim=1)


def report(name: str, batch: int, ours: tuple[float, float], theirs: tuple[float, float]) -> None:
    print(
        f"{name:10} B={batch:4d}  ours {ours[0]:8.2f} us (spread {ours[1]:4.0%})  torch {theirs[0]:8.2f} us "
        f"(spread {theirs[1]:4.0%})  ratio {theirs[0] / ours[0]:6.2f}",
        flush=True,
    )


def measure(batch: int, width: int) -> None:
    rng = random.Random(batch)
    state = PenaltyState(batch, width, DEVICE)
    touched = [rng.sample(range(width), TOUCHED) for _ in range(batch)]
    half = TOUCHED // 2
    for slot, ids in enumerate(touched):
        state.add(slot, prompt_ids=ids[:half], output_ids=ids[half:], repetition=1.3, presence=0.1, frequency=0.2)
    adjustments = state.adjustments
    assert adjustments is not None and adjustments.counts is not None
    pages, rows = adjustments.counts, Rows.without_drafts(range(batch), [0] * batch).to(DEVICE)
    all_ids = torch.tensor(touched, device=DEVICE)
    counts = torch.zeros(batch, width, dtype=torch.int32, device=DEVICE).scatter_(1, all_ids[:, half:], 1)
    prompt = torch.zeros(batch, width, dtype=torch.bool, device=DEVICE).scatter_(1, all_ids[:, :half], True)
    copies = max(3, min(80, 160_000_000 // (4 * batch * width)))
    logits = [torch.randn(batch, width, device=DEVICE) for _ in range(copies)]

    def each(call: Callable[[torch.Tensor], object]) -> tuple[float, float]:
        return graph_time([partial(call, one) for one in logits])

    theirs = each(lambda one: dense_penalties_(one, all_ids, counts, prompt))
    report("penalise", batch, each(lambda one: adjust_(one, adjustments, rows)), theirs)

    updates = torch.tensor([[slot, ids[-1]] for slot, ids in enumerate(touched)], dtype=torch.int32, device=DEVICE)
    new, ones = updates[:, 1:].long(), torch.ones(batch, 1, dtype=torch.int32, device=DEVICE)
    theirs = each(lambda _: counts.scatter_add_(1, new, ones))
    report("counts", batch, each(lambda _: add_(pages, updates, 2)), theirs)

    tokens = torch.randint(width, (batch,), device=DEVICE)
    for top_n in (5, 20):
        ours = each(partial(row_logprobs, token_ids=tokens, top_n=top_n))
        report(f"top {top_n}", batch, ours, each(partial(torch_logprobs, tokens=tokens, top_n=top_n)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 64, 128, 256])
    parser.add_argument("--width", type=int, default=128256)
    arguments = parser.parse_args()
    name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, V = {arguments.width}, {TOUCHED} tokens touched a slot")
    for batch in arguments.batch:
        measure(batch, arguments.width)


if __name__ == "__main__":
    main()
