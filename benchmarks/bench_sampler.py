"""The fused sampler beside other ways from logits to a token, on a GPU or on the CPU.

    python benchmarks/bench_sampler.py [--batch 1 8 32 64 128 256] [--vocab 128256 151936] [--dtype float32]

Microseconds a call, and in brackets the ratio to reading the logits once ("floor"; left out where that takes under 3).
On a GPU: medians of the replays of a CUDA graph that holds one call for each of many inputs, 160 MB or more in all, so
that the logits come from memory. Anchors run in the same process: torch's topk, sort and argmax, and FlashInfer and
xgrammar where they are installed. On the CPU, on one thread: medians, and the ratio to a path of ``torch.topk`` and to
one that sorts.

Logits are "peaked" (normal, deviation 2, and 40 tokens falling from 22; 4 or 5 tokens hold 0.9) unless a row says
"wide" (normal, deviation 4; hundreds of tokens do), "wider" (3; thousands) or "flat" (0.5; three in four do). Masks
allow 95 % of the tokens; penalties touch 256 tokens a row.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from constrain.sampling.ops.adjust import Adjustments
from constrain.sampling.ops.bitmask import apply_bitmask_
from constrain.sampling.ops.fused import sample_rows
from constrain.sampling.ops.pages import PAGE, Pages
from constrain.sampling.rows import DeviceRows, Rows
from constrain.sampling.table import Features, SlotTable

READ_RATE = 4.46e12
"""Bytes a second that an H200 reads at best, for the floor."""


@dataclass
class Inputs:
    """One set of inputs; a benchmark rotates over several."""

    logits: torch.Tensor
    bitmask: torch.Tensor
    table: SlotTable
    rows: DeviceRows
    adjustments: Adjustments


def make_logits(rows: int, vocab: int, dtype: torch.dtype, device: str, deviation: float = 0.0) -> torch.Tensor:
    """Normal with this deviation; peaked where it is 0."""
    if deviation:
        return (torch.randn(rows, vocab, device=device) * deviation).to(dtype)
    logits = torch.randn(rows, vocab, device=device) * 2
    places = torch.randint(0, vocab, (rows, 40), device=device)
    heights = 22 - 0.6 * torch.arange(40.0, device=device) + 0.5 * torch.randn(rows, 40, device=device)
    return logits.scatter_(1, places, heights).to(dtype)


def make_bitmask(rows: int, vocab: int, device: str, allowed: float = 0.95) -> torch.Tensor:
    words = torch.zeros(rows, (vocab + 31) // 32, dtype=torch.int64, device=device)
    for bit in range(32):
        words |= (torch.rand(words.shape, device=device) < allowed).long() << bit
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def make_adjustments(rows: int, vocab: int, device: str, touched: int = 256) -> Adjustments:
    """Penalties over ``touched`` tokens a slot, each on a page of its own."""
    num_pages = (vocab + PAGE - 1) // PAGE
    table = torch.zeros(rows, num_pages, dtype=torch.int16)
    numbers = torch.zeros(rows * touched, dtype=torch.int32)
    cells = torch.zeros(rows * touched, PAGE, dtype=torch.int32)
    for row in range(rows):
        pages = torch.randperm(num_pages)[:touched]
        table[row, pages] = torch.arange(1, touched + 1, dtype=torch.int16)
        numbers[row * touched : (row + 1) * touched] = pages.int()
    cells[torch.arange(len(cells)), torch.randint(0, PAGE, (len(cells),))] = 2
    counts = Pages(
        table.to(device),
        torch.arange(0, rows * touched, touched, dtype=torch.int32, device=device),
        torch.full((rows,), touched, dtype=torch.int32, device=device),
        numbers.to(device),
        cells.to(device),
    )
    columns = (torch.full((rows,), value, device=device) for value in (1.1, 0.2, 0.3))
    return Adjustments(None, counts, *columns)


def make_inputs(
    rows: int, vocab: int, dtype: torch.dtype, device: str, sets: int, *, deviation: float = 0.0, greedy: bool = False,
    top_k: int = 0, top_p: float = 1.0, temperature: float = 0.8,
) -> list[Inputs]:  # fmt: skip
    table = SlotTable.empty(rows, device)
    table.temperature.fill_(0.0 if greedy else temperature)
    table.top_k.fill_(top_k)
    table.top_p.fill_(top_p)
    table.seed.copy_(torch.arange(rows, device=device) + 12345)
    adjustments = make_adjustments(rows, vocab, device)
    return [
        Inputs(
            make_logits(rows, vocab, dtype, device, deviation),
            make_bitmask(rows, vocab, device),
            table,
            Rows.without_drafts(range(rows), [index] * rows).to(torch.device(device)),
            adjustments,
        )
        for index in range(sets)
    ]


def sets_of(rows: int, vocab: int, dtype: torch.dtype) -> int:
    return int(min(160, max(3, -(-160e6 // (rows * vocab * dtype.itemsize)))))


def graph_microseconds(call: Callable[[Inputs], Any], inputs: list[Inputs], replays: int = 9) -> float:
    """Median GPU time of a call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for each in inputs[:2]:
            call(each)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for each in inputs:
            call(each)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    times = []
    for _ in range(replays):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / len(inputs))
    return statistics.median(times)


def host_microseconds(call: Callable[[Inputs], Any], inputs: list[Inputs], repeats: int = 9) -> float:
    """Median wall time of a call on the CPU."""
    call(inputs[0])
    times = []
    for repeat in range(repeats):
        begun = time.perf_counter()
        call(inputs[repeat % len(inputs)])
        times.append(1e6 * (time.perf_counter() - begun))
    return statistics.median(times)


def fused(features: Features, *, mask: bool = False, penalties: bool = False) -> Callable[[Inputs], Any]:
    def call(each: Inputs) -> Any:
        return sample_rows(
            each.logits,
            each.table,
            each.rows,
            features,
            bitmask=each.bitmask if mask else None,
            adjustments=each.adjustments if penalties else None,
        )

    return call


def topk_path(each: Inputs, top_k: int = 50, top_p: float = 0.9, temperature: float = 0.8) -> torch.Tensor:
    """Top-k by ``torch.topk``, then top-p over the k, then a draw."""
    values, tokens = (each.logits.float() / temperature).topk(top_k, dim=1)
    probabilities = values.softmax(dim=1)
    before = probabilities.cumsum(dim=1) - probabilities
    probabilities = probabilities.masked_fill(before >= top_p, 0)
    return tokens.gather(1, torch.argmax(probabilities / torch.empty_like(probabilities).exponential_(), 1, True))


def sort_path(each: Inputs, top_p: float = 0.9, temperature: float = 0.8) -> torch.Tensor:
    """Top-p by sorting the vocabulary, then a draw."""
    values, tokens = (each.logits.float() / temperature).sort(dim=1, descending=True)
    probabilities = values.softmax(dim=1)
    before = probabilities.cumsum(dim=1) - probabilities
    probabilities = probabilities.masked_fill(before >= top_p, 0)
    return tokens.gather(1, torch.argmax(probabilities / torch.empty_like(probabilities).exponential_(), 1, True))


def other_libraries(device: str) -> dict[str, Callable[[Inputs], Any]]:
    """FlashInfer's and xgrammar's kernels, where they are installed."""
    found: dict[str, Callable[[Inputs], Any]] = {}
    if device != "cuda":
        return found
    try:
        import flashinfer

        sampling = flashinfer.sampling
        found["flashinfer softmax + top_p_sampling_from_probs"] = lambda each: sampling.top_p_sampling_from_probs(
            sampling.softmax(each.logits.float(), each.table.temperature), 0.9
        )
        found["flashinfer top_k_top_p_sampling_from_logits"] = lambda each: sampling.top_k_top_p_sampling_from_logits(
            each.logits.float(), 50, 0.9
        )
    except ImportError:
        print("flashinfer is not installed")
    try:
        from xgrammar.kernels.apply_token_bitmask_inplace_triton import apply_token_bitmask_inplace_triton

        found["xgrammar bitmask (triton)"] = lambda each: apply_token_bitmask_inplace_triton(each.logits, each.bitmask)
    except ImportError:
        print("xgrammar is not installed")
    return found


BOTH = Features(drawn=True, max_top_k=50, all_top_k=True, top_p=True, inverse=True)
MASS = Features(drawn=True, top_p=True, inverse=True)
PLAIN = Features(drawn=True, inverse=True)
Row = tuple[str, Callable[[Inputs], Any], dict[str, Any]]
OURS: list[Row] = [
    ("mask + penalties + T + k=50 + p=.9", fused(BOTH, mask=True, penalties=True), {"top_k": 50, "top_p": 0.9}),
    ("mask + T + k=50 + p=.9", fused(BOTH, mask=True), {"top_k": 50, "top_p": 0.9}),
    ("T + k=50 + p=.9", fused(BOTH), {"top_k": 50, "top_p": 0.9}),
    ("T + p=.9", fused(MASS), {"top_p": 0.9}),
    ("T + p=.9, wide", fused(MASS), {"top_p": 0.9, "temperature": 1.0, "deviation": 4.0}),
    ("T + p=.9, wider", fused(MASS), {"top_p": 0.9, "temperature": 1.0, "deviation": 3.0}),
    ("T + p=.9, flat", fused(MASS), {"top_p": 0.9, "temperature": 1.0, "deviation": 0.5}),
    ("T alone", fused(PLAIN), {}),
    ("greedy + mask", fused(Features(), mask=True), {"greedy": True}),
]
ANCHORS: list[Row] = [
    ("torch.topk path, k=50 + p=.9", topk_path, {}),
    ("sort path, p=.9", sort_path, {}),
    ("torch.argmax", lambda each: each.logits.argmax(dim=1), {}),
    ("bitmask in place", lambda each: apply_bitmask_(each.logits, each.bitmask), {}),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    on_gpu = device == "cuda"
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32, 64, 128, 256] if on_gpu else [1, 8])
    parser.add_argument("--vocab", type=int, nargs="+", default=[128256, 151936])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--only-ours", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dtype = getattr(torch, arguments.dtype)
    name = torch.cuda.get_device_name() if on_gpu else "CPU, one thread"
    print(f"{name}, torch {torch.__version__}, {arguments.dtype}; microseconds (x floor)")
    rows = list(OURS)
    if not arguments.only_ours:
        rows += ANCHORS + [(name, call, {}) for name, call in other_libraries(device).items()]
    for vocab in arguments.vocab:
        print(f"V = {vocab:<44}" + "".join(f"{f'B={batch}':>15}" for batch in arguments.batch))
        floors = [batch * vocab * dtype.itemsize / READ_RATE * 1e6 for batch in arguments.batch]
        results: dict[str, list[float]] = {}
        for name, call, options in rows:
            times = []
            for batch in arguments.batch:
                sets = sets_of(batch, vocab, dtype) if on_gpu else 3
                inputs = make_inputs(batch, vocab, dtype, device, sets, **options)
                times.append((graph_microseconds if on_gpu else host_microseconds)(call, inputs))
            results[name] = times
            cells = (
                f"{value:.1f} ({value / floor:.2f})" if on_gpu and floor >= 3 else f"{value:.1f}"
                for value, floor in zip(times, floors, strict=True)
            )
            print(f"{name:<48}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
        if not on_gpu:
            for ours, other in (("T + k=50 + p=.9", ANCHORS[0][0]), ("T + p=.9", ANCHORS[1][0])):
                ratios = (a / b for a, b in zip(results[ours], results.get(other, []), strict=False))
                print(f"{ours} / {other}: " + " ".join(f"{ratio:.2f}" for ratio in ratios))


if __name__ == "__main__":
    main()
