"""Models whose cache cannot be rolled back are refused, each for its own reason."""

from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM

from constrain import InvalidInputError, SequenceView, TransformersSource, UnsupportedModelError
from tests.hf.models import SIZES, tiny_model

SMALL = {name: value for name, value in SIZES.items() if name != "max_position_embeddings"}


def build(name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(getattr(transformers, name)(**options)).eval()


def t5() -> Any:
    config = transformers.T5Config(vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    return transformers.AutoModelForSeq2SeqLM.from_config(config)


UNFIT: dict[str, tuple[Any, str]] = {
    "t5": (t5, "encoder-decoder"),
    "rwkv": (
        lambda: build("RwkvConfig", vocab_size=30, hidden_size=16, attention_hidden_size=16, num_hidden_layers=2),
        "recurrent",
    ),
    "mamba": (lambda: build("MambaConfig", vocab_size=30, hidden_size=16, num_hidden_layers=1), "recurrent"),
    "minimax": (
        lambda: build(
            "MiniMaxConfig",
            **SMALL,
            num_local_experts=2,
            layer_types=["full_attention", "linear_attention", "full_attention"],
        ),
        "cannot be rolled back|no cache",
    ),
    "bloom": (
        lambda: build("BloomConfig", vocab_size=30, hidden_size=16, n_layer=2, n_head=4),
        "BloomForCausalLM",
    ),
}


@pytest.mark.parametrize("name", sorted(UNFIT))
def test_unfit_models_are_refused(name: str) -> None:
    make, message = UNFIT[name]
    with pytest.raises(UnsupportedModelError, match=message):
        TransformersSource(make())


def test_attention_that_takes_no_mask_is_refused() -> None:
    model = tiny_model("llama")
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(UnsupportedModelError, match="flex_attention"):
        TransformersSource(model)


def test_unknown_layers_are_refused() -> None:
    model = tiny_model("qwen3")
    model.config.layer_types = ["full_attention", "linear_attention", "full_attention"]
    with pytest.raises(UnsupportedModelError, match="rolled back"):
        TransformersSource(model)


def test_a_model_that_counts_positions_itself_is_caught_by_the_trial_only() -> None:
    model = tiny_model("llama")
    forward = model.model.rotary_emb.forward
    model.model.rotary_emb.forward = lambda x, position_ids: forward(x, torch.arange(x.shape[1])[None])
    with pytest.raises(UnsupportedModelError, match="other logits"):
        TransformersSource(model)
    TransformersSource(model, probe=False)


def test_the_trial_runs_once_a_model_and_leaves_nothing() -> None:
    model = tiny_model("mistral")
    passes = []
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    sources = [TransformersSource(model) for _ in range(3)]
    assert len(passes) == 4
    sources[0]([SequenceView(5, [1])])
    assert sources[0]._cache.num_rows == 1
    assert issubclass(UnsupportedModelError, InvalidInputError)


def test_a_model_in_half_precision_passes_the_trial() -> None:
    TransformersSource(tiny_model("gemma3").to(torch.bfloat16))
