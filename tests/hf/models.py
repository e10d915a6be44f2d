"""Tiny random models of many kinds, and what a plain forward pass says."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, MistralConfig, Qwen3Config
from transformers.models.gemma3 import Gemma3TextConfig

from constrain import SequenceView, TransformersSource

VOCAB_SIZE = 97
SIZES = {
    "vocab_size": VOCAB_SIZE,
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
    """The logits of a view by a forward pass of its row alone, without a cache."""
    ids = torch.tensor([list(view.token_ids)], device=model.device)
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0]
    return logits[-view.num_logits :]


def assert_plain(model: Any, views: Sequence[SequenceView], logits: torch.Tensor, atol: float = 1e-4) -> None:
    expected = torch.cat([plain(model, view) for view in views])
    torch.testing.assert_close(logits, expected, atol=atol, rtol=1e-4)


def scenario(model: Any, rng: random.Random, steps: int, atol: float = 1e-4, **options: Any) -> None:
    """Rows join, leave, wait, take drafts and drop them, and have earlier tokens replaced."""
    source = TransformersSource(model, chunk_size=rng.choice([3, 16, 256]), **options)
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
                rows[slot][rng.randrange(len(rows[slot]))] = rng.randrange(VOCAB_SIZE)
        while len(rows) < 5 and (not rows or rng.random() < 0.5):
            slot = next(i for i in range(10) if i not in rows)
            rows[slot] = [rng.randrange(VOCAB_SIZE) for _ in range(rng.randrange(1, 40))]
        called = [slot for slot in rows if rng.random() < 0.8] or list(rows)[:1]
        rng.shuffle(called)
        views = []
        for slot in called:
            draft = [rng.randrange(VOCAB_SIZE) for _ in range(rng.randrange(1, 5))]
            rows[slot] += draft
            views.append(SequenceView(slot, rows[slot], rng.randrange(1, min(len(rows[slot]), len(draft) + 1) + 1)))
        assert_plain(model, views, source(views), atol)
