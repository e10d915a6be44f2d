"""Whether a model's cache can be rolled back: what is known to be wrong, then a trial."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache

from constrain.errors import UnsupportedModelError
from constrain.hf.attention import attention_windows
from constrain.source import LogitsSource, SequenceView

# By name: transformers 5.17 does not have all of them. Shared layers ("dummy") keep nothing, which is fine.
_PLAIN_LAYERS = {"DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer"}


def refuse_unfit(model: Any) -> None:
    """Raise ``UnsupportedModelError`` for a model whose cache is more than the keys and values of each position."""
    name = type(model).__name__
    if model.config.is_encoder_decoder:
        raise UnsupportedModelError(f"{name} is an encoder-decoder model; TransformersSource takes decoder-only models")
    # RWKV says so here only: its cache looks like any other. MiniMax shows in its layers only.
    if getattr(model, "_is_stateful", False):
        raise UnsupportedModelError(f"{name} keeps a recurrent state, which cannot be rolled back")
    config = model.config.get_text_config(decoder=True)
    try:
        layers = {type(layer).__name__ for layer in DynamicCache(config=config).layers}
    except (KeyError, ValueError, TypeError, AttributeError) as exc:
        raise UnsupportedModelError(f"transformers makes no cache for {name}: {exc!r}") from exc
    if layers - _PLAIN_LAYERS:
        raise UnsupportedModelError(f"{name} caches {sorted(layers - _PLAIN_LAYERS)}, which cannot be rolled back")
    attention_windows(config)
    if config._attn_implementation not in ("sdpa", "eager"):
        raise UnsupportedModelError(
            f"{name} uses {config._attn_implementation} attention, which takes no ready mask; load it with "
            "attn_implementation='sdpa'"
        )


def probe(model: Any, source: LogitsSource) -> None:
    """Compare ``source`` with plain forward passes of ``model`` on a few tokens, joined, dropped and replaced.

    Raises ``UnsupportedModelError`` where they differ: some models (Bloom: ALiBi) make positions of their own. Takes
    four passes of at most eight tokens, and leaves no slot behind.
    """
    name = type(model).__name__
    views = [SequenceView(0, _some_ids(source, 7, 3), 2), SequenceView(1, _some_ids(source, 4, 5), 1)]
    try:
        source([SequenceView(0, [*views[0].token_ids[:4], 1, 2]), SequenceView(1, views[1].token_ids[:2])])
        ours = source(views)
        plain = torch.cat([_plain(model, view) for view in views])
    except Exception as exc:
        raise UnsupportedModelError(f"{name} does not run on a cache of slots: {type(exc).__name__}: {exc}") from exc
    finally:
        source.release(0)
        source.release(1)
    error, scale = (ours - plain).float().square().mean().sqrt(), plain.float().std()
    tolerance = 1e-3 if plain.dtype in (torch.float32, torch.float64) else 0.2
    if bool(error > tolerance * scale):  # False where the model itself gives NaN: nothing can be said then
        raise UnsupportedModelError(
            f"{name} gives other logits with a cache that was rolled back than without one (rms {float(error):.2g} at "
            f"a spread of {float(scale):.2g}); TransformersSource(model, probe=False) skips this test"
        )


def _some_ids(source: LogitsSource, count: int, step: int) -> Sequence[int]:
    width = source.logits_width or 32
    return [(step * (i + 1)) % width for i in range(count)]


def _plain(model: Any, view: SequenceView) -> torch.Tensor:
    """The logits of one view without a cache, [num_logits, V]."""
    with torch.inference_mode():
        ids = torch.tensor([list(view.token_ids)], device=model.device)
        logits: torch.Tensor = model(input_ids=ids, use_cache=False).logits[0, -view.num_logits :]
    return logits
