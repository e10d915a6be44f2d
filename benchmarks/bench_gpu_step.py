"""What a constraint adds to a step of the engine on a GPU, and how long the GPU idles between forward and sampling.

    python benchmarks/bench_gpu_step.py [--batch 1 8 32] [--tokens 120] [--layers 32]

The source is a random decoder of Llama-3-8B's shape in bfloat16 (32 layers, width 4096, grouped attention over 512
cached positions, 128256 logits), its step captured in a CUDA graph: launching it costs microseconds, as in an engine
that captures its model. Its logits are random and do not depend on the tokens, so free rows, constrained rows and the
source alone run the same forward pass. In turn and in one run, medians over steps:

- "source": the graph, an argmax and one copy to the host: the least that a step can be;
- "free" and "held": steps of ``Engine`` without and with a constraint, greedy; "added" is held over free;
- "gap": device time from the end of the forward pass to the start of sampling, by CUDA events, in held steps.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from constrain import Engine, LogitsSource, Request, SamplingParams, SequenceView, Vocabulary, json_schema
from constrain.sampling import sampler

WIDTH, HEADS, KV_HEADS, HEAD, INNER, VOCAB, CACHED = 4096, 32, 8, 128, 14336, 128256, 512
SCHEMA = {
    "type": "array",
    "minItems": 200,
    "items": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kind": {"enum": ["book", "film"]}, "year": {"type": "integer"}},
        "required": ["name", "kind", "year"],
        "additionalProperties": False,
    },
}


class GraphSource(LogitsSource):
    """The decode step of an 8B-shaped model for a fixed number of rows."""

    logits_width = VOCAB
    device = torch.device("cuda")

    def __init__(self, rows: int, layers: int) -> None:
        def weight(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * shape[-1] ** -0.5

        qkv = WIDTH + 2 * KV_HEADS * HEAD
        self._layers = [
            (weight(qkv, WIDTH), weight(WIDTH, WIDTH), weight(2 * INNER, WIDTH), weight(WIDTH, INNER))
            for _ in range(layers)
        ]
        cached = (layers, 2, rows, KV_HEADS, CACHED, HEAD)
        self._cache = torch.randn(cached, device="cuda", dtype=torch.bfloat16)
        self._head = weight(VOCAB, WIDTH)
        self._hidden = weight(rows, WIDTH)
        self.done = torch.cuda.Event(enable_timing=True)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            self._forward()
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._logits = self._forward()

    def _forward(self) -> torch.Tensor:
        hidden = self._hidden
        for (qkv, out, up, down), (keys, values) in zip(self._layers, self._cache, strict=True):
            query = (rms_norm(hidden, (WIDTH,)) @ qkv.T)[:, :WIDTH].view(-1, HEADS, 1, HEAD)
            read = scaled_dot_product_attention(query, keys, values, enable_gqa=True)
            hidden = hidden + read.reshape(-1, WIDTH) @ out.T
            gate, value = (rms_norm(hidden, (WIDTH,)) @ up.T).chunk(2, dim=1)
            hidden = hidden + (silu(gate) * value) @ down.T
        return (rms_norm(hidden, (WIDTH,)) @ self._head.T).float()

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        self._graph.replay()
        self.done.record()
        return self._logits[: len(views)]


def make_vocabulary() -> Vocabulary:
    """Bytes, and made-up words of letters: as many tokens as Llama 3 has."""
    letters = [bytes([byte]) for byte in b"abcdefghijklmnopqrstuvwxyz"]
    words = [first + second + third for first in letters for second in letters for third in letters]
    words += [b" " + word for word in words] + [word + b'"' for word in words] + [b'"' + word for word in words]
    words += [word + word for word in words]
    tokens = [b"", *(bytes([byte]) for byte in range(256)), *words]
    return Vocabulary(tokens[:VOCAB], stop_token_ids=[0], logits_width=VOCAB)


def measure(engine: Engine, source: GraphSource, request: Request, rows: int, tokens: int) -> tuple[float, list[float]]:
    """Median microseconds a step, and the gaps of all steps."""
    started = torch.cuda.Event(enable_timing=True)
    sample_rows = sampler.sample_rows

    def timed(*arguments: Any, **options: Any) -> Any:
        started.record()
        return sample_rows(*arguments, **options)

    sampler.sample_rows = timed
    ids = [engine.add(request) for _ in range(rows)]
    times, gaps = [], []
    engine.step()
    for index in range(tokens):
        begun = time.perf_counter()
        finished = engine.step()
        times.append(1e6 * (time.perf_counter() - begun))
        assert not finished, finished
        if request.constraint is not None and index > 5:
            started.synchronize()
            gaps.append(1e3 * source.done.elapsed_time(started))
    for request_id in ids:
        engine.cancel(request_id)
    engine.step()
    sampler.sample_rows = sample_rows
    return statistics.median(times), gaps


def alone(source: GraphSource, rows: int, tokens: int) -> float:
    views = [SequenceView(row, (1,)) for row in range(rows)]
    times = []
    for _ in range(tokens):
        begun = time.perf_counter()
        source(views).argmax(dim=1).tolist()
        times.append(1e6 * (time.perf_counter() - begun))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--layers", type=int, default=32)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    vocabulary = make_vocabulary()
    params = SamplingParams(temperature=0.0, max_tokens=100_000)
    free = Request(prompt_ids=[5, 6], params=params)
    held = Request(prompt_ids=[5, 6], params=params, constraint=json_schema(SCHEMA))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}; microseconds a step, medians")
    print("batch   source     free     held    added   gap p50      p99")
    for rows in arguments.batch:
        source = GraphSource(rows, arguments.layers)
        with Engine(source, vocabulary, max_batch_size=rows) as engine, torch.inference_mode():
            measure(engine, source, held, rows, 20)
            rounds = [
                (
                    alone(source, rows, arguments.tokens),
                    measure(engine, source, free, rows, arguments.tokens)[0],
                    *measure(engine, source, held, rows, arguments.tokens),
                )
                for _ in range(3)
            ]
        columns = [statistics.median(each[column] for each in rounds) for column in range(3)]
        gaps = sorted(gap for each in rounds for gap in each[3])
        print(
            f"{rows:>5} {columns[0]:>8.0f} {columns[1]:>8.0f} {columns[2]:>8.0f} {columns[2] - columns[1]:>8.0f} "
            f"{statistics.median(gaps):>9.1f} {gaps[int(len(gaps) * 0.99)]:>8.1f}"
        )


if __name__ == "__main__":
    main()
