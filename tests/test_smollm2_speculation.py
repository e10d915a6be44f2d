"""Speculation on a real model, whose logits of many positions differ in their last bits from those of one."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from constrain import Engine, TransformersSource, Vocabulary

pytestmark = [pytest.mark.model, pytest.mark.slow]


@pytest.mark.parametrize("proposer", ["forced", "ngram", "forced+ngram"])
def test_outputs_are_the_same_up_to_ties_in_half_the_passes(
    smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary, proposer: str
) -> None:
    path = Path(__file__).parent.parent / "benchmarks" / "bench_speculation.py"
    spec = importlib.util.spec_from_file_location("bench_speculation", path)
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    model, tokenizer = smollm2
    requests = bench.make_requests(tokenizer, 9)
    passes, outputs = [], []
    for options in ({}, {"proposer": proposer, "draft_length": 8}):
        source = bench.Counting(TransformersSource(model))
        with Engine(source, smollm2_vocabulary, max_batch_size=1, **options) as engine:
            for request in requests:
                engine.add(request)
            results = engine.run()
        assert all(result.ok for result in results)
        passes.append(source.num_passes)
        outputs.append([result.token_ids for result in results])
    gaps = [bench.first_gap(model, *each) for each in zip(requests, *outputs, strict=True)]
    parted = [gap for gap in gaps if gap is not None]
    assert all(gap < 1e-3 for gap in parted), "outputs part only where two tokens are as good as each other"
    assert len(parted) <= 2
    assert passes[1] < (0.6 if proposer == "forced+ngram" else 0.9) * passes[0], passes
