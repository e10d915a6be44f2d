"""The cached source against plain forward passes of one row without a cache."""

import random
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen3Config, T5Config
from transformers.models.gemma3 import Gemma3TextConfig

from constrain import InvalidInputError, SequenceView, TransformersSource
from constrain.hf.source import _common_prefix, _grouped, _Work

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,  # large, so that a wrong key or value shows in the logits
}
CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**SIZES),
    "qwen3": lambda: Qwen3Config(**SIZES, head_dim=8),
    "gemma3": lambda: Gemma3TextConfig(
        **SIZES, head_dim=8, sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
    ),
    "mistral": lambda: MistralConfig(**SIZES, head_dim=8, sliding_window=6),
}


def tiny_model(name: str, attention: str = "sdpa") -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(CONFIGS[name](), attn_implementation=attention).eval()


def plain(model: Any, view: SequenceView) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(torch.tensor([list(view.token_ids)]), use_cache=False).logits[0]
    return logits[-view.num_logits :]


def scenario(model: Any, rng: random.Random, steps: int) -> None:
    """Rows join, leave, wait, take drafts and drop them, and have earlier tokens replaced."""
    source = TransformersSource(model, chunk_size=rng.choice([3, 16, 256]))
    rows: dict[int, list[int]] = {}
    for _ in range(steps):
        for slot in list(rows):
            action = rng.random()
            if action < 0.12:
                source.release(slot)
                del rows[slot]
            elif action < 0.3:
                del rows[slot][rng.randrange(1, len(rows[slot]) + 1) :]
            elif action < 0.36:
                rows[slot][rng.randrange(len(rows[slot]))] = rng.randrange(97)
        while len(rows) < 5 and (not rows or rng.random() < 0.5):
            slot = next(i for i in range(10) if i not in rows)
            rows[slot] = [rng.randrange(97) for _ in range(rng.randrange(1, 40))]
        called = [slot for slot in rows if rng.random() < 0.8] or list(rows)[:1]
        rng.shuffle(called)
        views = []
        for slot in called:
            draft = [rng.randrange(97) for _ in range(rng.randrange(1, 5))]
            rows[slot] += draft
            views.append(SequenceView(slot, rows[slot], rng.randrange(1, min(len(rows[slot]), len(draft) + 1) + 1)))
        logits = source(views)
        torch.testing.assert_close(logits, torch.cat([plain(model, view) for view in views]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_cache_changes_no_logits(name: str) -> None:
    model = tiny_model(name)
    for seed in range(12):
        scenario(model, random.Random(seed), steps=8)


def test_eager_attention_takes_the_masks_too() -> None:
    scenario(tiny_model("gemma3", "eager"), random.Random(1), steps=8)


def test_a_repeated_prefix_is_not_computed_again() -> None:
    model = tiny_model("llama")
    lengths: list[int] = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: lengths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    source = TransformersSource(model)
    ids = list(range(20))
    for new in ([21], [22, 23], [24]):
        source([SequenceView(0, ids)])
        ids += new
    source([SequenceView(0, (*ids[:10], 50))])
    assert lengths == [20, 1, 2, 1]


def test_a_forward_pass_that_raises_leaves_nothing_behind() -> None:
    model = tiny_model("llama")
    source = TransformersSource(model, chunk_size=4)
    source([SequenceView(0, [1, 2, 3])])
    failing = model.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
    with pytest.raises(RuntimeError):
        source([SequenceView(0, [1, 9, 9, 9, 9, 9, 9]), SequenceView(1, [5])])
    failing.remove()
    views = [SequenceView(1, [5, 6]), SequenceView(0, [1, 2, 3, 4])]
    torch.testing.assert_close(source(views), torch.cat([plain(model, view) for view in views]), atol=1e-4, rtol=1e-4)


def test_unfit_models_are_refused() -> None:
    from transformers import AutoModelForSeq2SeqLM

    t5 = AutoModelForSeq2SeqLM.from_config(
        T5Config(vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    )
    with pytest.raises(InvalidInputError, match="encoder-decoder"):
        TransformersSource(t5)
    with pytest.raises(InvalidInputError, match="chunk_size"):
        TransformersSource(tiny_model("llama"), chunk_size=0)


def test_width_and_context_come_from_the_model() -> None:
    source = TransformersSource(tiny_model("llama"))
    assert (source.logits_width, source.max_length, source.device.type) == (97, 256, "cpu")


def test_groups_bound_the_padding() -> None:
    work = [_Work(i, SequenceView(i, [0] * n), i, 0) for i, n in enumerate([1, 100, 1, 90, 5, 200, 1])]
    groups = [[each.num_new for each in group] for group in _grouped(work)]
    assert groups == [[100, 200], [90], [1, 1, 5, 1]]  # 3 x 200 would be more than 1.5 x 390


@pytest.mark.parametrize(("left", "right", "length"), [([], [1], 0), ([1, 2], (1, 2, 3), 2), ([1, 2, 3], [1, 5, 3], 1)])
def test_common_prefix(left: list[int], right: list[int], length: int) -> None:
    assert _common_prefix(left, right) == length
