"""Forward passes and time with drafts over those without, on SmolLM2-135M-Instruct: JSON out of 30 notes.

Both answer the same prompts greedily, one at a time; outputs must be equal, up to ties. With ``--batch`` instead: where
speculation stops to pay, on a source whose cost is a formula (a pass takes as long as reading the weights, or as its
rows, whatever is more) with drafts accepted at a given rate; the engine's own time on this machine is added.

    python benchmarks/bench_speculation.py [--prompts 30] [--length 8] [--rounds 1]
    python benchmarks/bench_speculation.py --batch 1 4 16 32 64 128 [--rate 0.7] [--rows 128]
"""

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch

from constrain import Engine, LogitsSource, Request, SamplingParams, SequenceView, Vocabulary, as_constraint
from constrain.spec import AdaptiveLength, ConstantLength, Draft, DraftLength, LengthByBatch, Proposer, RejectionSampler

PEOPLE = ["Maria Lopez", "John Smith", "Aiko Tanaka", "Omar Haddad", "Ines Costa"]
PEOPLE += ["Peter Novak", "Lena Fischer", "Sam Okoro", "Eva Lund", "Raj Patel"]
CITIES = ["Lisbon", "Leeds", "Osaka", "Amman", "Porto", "Prague", "Bonn", "Lagos", "Oslo", "Pune"]
ITEMS = ["green tea", "desk lamp", "blue pen", "coffee mug", "rain coat"]
ITEMS += ["steel chair", "wall clock", "tea pot", "hand bag", "note book"]


def text(longest: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": longest}


def record(**properties: Any) -> dict[str, Any]:
    names = list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


SCHEMAS = [
    record(
        employee_name=text(30),
        employee_age={"type": "integer", "minimum": 0, "maximum": 130},
        home_city=text(20),
        seniority_level={"enum": ["junior", "senior", "lead"]},
    ),
    record(
        customer_name=text(30),
        delivery_address=record(city_name=text(20), country_code={"type": "string", "pattern": "^[A-Z]{2}$"}),
        ordered_item=text(20),
        number_of_items={"type": "integer", "minimum": 1, "maximum": 99},
        is_gift={"type": "boolean"},
    ),
    record(
        meeting_title=text(30),
        meeting_location=text(20),
        start_hour={"type": "integer", "minimum": 0, "maximum": 23},
        attendees={"type": "array", "items": record(full_name=text(30)), "minItems": 2, "maxItems": 2},
    ),
]


def notes(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Notes with the schema of what is to be read out of each."""
    found = []
    for index in range(count):
        i = index // 3 % 10
        person, other, city, item = PEOPLE[i], PEOPLE[(i + 3) % 10], CITIES[i], ITEMS[i]
        note = [
            f"{person}, {25 + i} years old, lives in {city} and joined us as a senior engineer.",
            f"{person} from {city} ordered {i + 2} pieces of {item}, wrapped as a gift.",
            f"{person} and {other} meet in {city} at {8 + i} o'clock to talk about the {item}.",
        ][index % 3]
        found.append((note, SCHEMAS[index % 3]))
    return found


def make_requests(tokenizer: Any, count: int) -> list[Request]:
    requests = []
    for note, schema in notes(count):
        names = ", ".join(schema["properties"])
        messages = [{"role": "user", "content": f"Extract the facts as JSON with the fields {names}.\n\n{note}"}]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        constraint = as_constraint(schema)
        params = SamplingParams(temperature=0.0, max_tokens=160)
        requests.append(
            Request(prompt_ids=ids, constraint=constraint.grammar_spec, decode=constraint.decode, params=params)
        )
    return requests


class Counting(LogitsSource):
    """Counts the passes of another source."""

    def __init__(self, source: LogitsSource) -> None:
        self._source = source
        self.num_passes = 0

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        self.num_passes += 1
        return self._source(views)

    def release(self, slot: int) -> None:
        self._source.release(slot)


def first_gap(model: Any, request: Request, one: Sequence[int], other: Sequence[int]) -> float | None:
    """How far apart the model's logits are where two outputs part, under the model's own pass over the whole text."""
    pairs = zip(one, other, strict=False)
    at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if at is None:
        return None
    with torch.inference_mode():
        logits = model(torch.tensor([[*request.prompt_ids, *one[:at]]]), use_cache=False).logits[0, -1]
    return abs(float(logits[one[at]] - logits[other[at]]))


def extract(arguments: argparse.Namespace) -> None:
    from constrain import TransformersSource
    from constrain.hf import load_packaged_model

    model, tokenizer = load_packaged_model()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
    requests = make_requests(tokenizer, arguments.prompts)
    print(f"SmolLM2-135M float32, CPU, one thread, torch {torch.__version__}; {len(requests)} prompts, one at a time")
    print("      proposer  K  passes  tokens   CPU s  passes ÷  time ÷  accepted")
    plain: list[Any] = []
    base = (0, 0.0)
    drafted = [(name, length) for name in ("grammar+ngram", "forced+ngram") for length in arguments.length]
    for name, length in [(None, 0), *drafted]:
        best = float("inf")
        for _ in range(arguments.rounds):
            source = Counting(TransformersSource(model))
            with Engine(source, vocabulary, max_batch_size=1, proposer=name, draft_length=length) as engine:
                for request in requests:  # compiling is not what is measured
                    engine.compiler.submit(request.constraint).result()  # type: ignore[arg-type]
                started = time.process_time()
                for request in requests:
                    engine.add(request)
                results = engine.run()
                best = min(best, time.process_time() - started)
        plain = plain or results
        base = base if base[0] else (source.num_passes, best)
        parted = [first_gap(model, *each) for each in zip(
            requests, (r.token_ids for r in plain), (r.token_ids for r in results), strict=True)]  # fmt: skip
        gaps = [gap for gap in parted if gap is not None]
        assert all(gap < 1e-3 for gap in gaps), gaps
        print(
            f"{name or 'none':>14} {length:>2} {source.num_passes:>7} {sum(r.num_output_tokens for r in results):>7} "
            f"{best:>7.1f} {source.num_passes / base[0]:>9.3f} {best / base[1]:>7.3f} "
            f"{engine.statistics.acceptance_rate:>9.3f}   {sum(r.ok for r in results)} valid, {len(gaps)} ties",
            flush=True,
        )


class Priced(LogitsSource):
    """Random logits, and a price: a pass costs 1, or its rows over ``rows`` where that is more."""

    def __init__(self, width: int, rows: int) -> None:
        self._table = torch.randn(64, width, generator=torch.Generator().manual_seed(0))
        self._rows = rows
        self.price = 0.0

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        count = sum(view.num_logits for view in views)
        self.price += max(1.0, count / self._rows)
        return self._table[torch.arange(count) % len(self._table)]


class Meaningless(Proposer):
    """Tokens of no meaning: the synthetic rule decides what is accepted."""

    def propose(self, views: Any, grammars: Any, lengths: Any, keys: Any) -> list[Draft]:
        return [Draft((2,) * length) for length in lengths]


def batches(arguments: argparse.Namespace) -> None:
    width, tokens, most = 4096, 48, 5
    vocabulary = Vocabulary([b"", *(str(i).encode() + b"," for i in range(1, width))], stop_token_ids=[0])
    lengths: dict[str, DraftLength] = {
        "none": ConstantLength(0),
        "K = 2": ConstantLength(2),
        "K = 5": ConstantLength(5),
        "adaptive": AdaptiveLength(5, min_length=0, token_cost=0.05),
        "by batch": LengthByBatch(
            [
                (1, arguments.rows // 6, 5),
                (arguments.rows // 6 + 1, arguments.rows // 3, 2),
                (arguments.rows // 3 + 1, 10**6, 0),
            ]
        ),
    }
    rates = [arguments.rate ** (place + 1) for place in range(most)]
    print(
        f"a pass costs 1 up to {arguments.rows} rows, then rows / {arguments.rows}; a draft token is accepted at "
        f"{arguments.rate} where those before it were; tokens for a price of 1, in brackets the engine's own "
        f"microseconds a token on this CPU (V = {width})"
    )
    print(f"{'batch':>5} " + " ".join(f"{name:>16}" for name in lengths))
    for batch in arguments.batch:
        cells = []
        for length in lengths.values():
            source = Priced(width, arguments.rows)
            with Engine(
                source,
                vocabulary,
                max_batch_size=batch,
                proposer=Meaningless(),
                draft_length=length,
                rule=RejectionSampler("synthetic", synthetic_rates=rates),
            ) as engine:
                for seed in range(batch):
                    params = SamplingParams(temperature=0.0, max_tokens=tokens, seed=seed, ignore_eos=True)
                    engine.add(Request(prompt_ids=[1], params=params))
                started = time.perf_counter()
                results = engine.run()
                own = time.perf_counter() - started
            count = sum(result.num_output_tokens for result in results)
            cells.append(f"{count / source.price:>8.2f} ({own / count * 1e6:>4.0f})")
        print(f"{batch:>5} " + " ".join(f"{cell:>16}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--length", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--batch", type=int, nargs="+")
    parser.add_argument("--rate", type=float, default=0.7)
    parser.add_argument("--rows", type=int, default=128)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.batch:
        batches(arguments)
    else:
        extract(arguments)


if __name__ == "__main__":
    main()
