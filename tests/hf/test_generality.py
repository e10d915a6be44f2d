"""Every causal model type of the installed transformers that a small config can build: served exactly, or refused."""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, logging
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from constrain import UnsupportedModelError
from tests.hf.models import SIZES, scenario

pytestmark = pytest.mark.slow

# The many names that configs give to a few sizes.
LAYERS = {name: 3 for name in ("n_layer", "n_layers", "num_layers", "decoder_layers")}
HEADS = {name: 4 for name in ("n_head", "n_heads", "num_heads", "decoder_attention_heads")}
WIDTHS = {name: 32 for name in ("n_embd", "d_model", "word_embed_proj_dim")}
INNER = {
    name: 48 for name in ("n_inner", "ffn_dim", "decoder_ffn_dim", "ffn_hidden_size", "d_ff", "intermediate_size_mlp")
}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1}
MORE_EXPERTS = {"topk_group": 1, "moe_intermediate_size": 16, "n_shared_experts": 1, "first_k_dense_replace": 1}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
OTHER = {"n_positions": 256, "max_seq_len": 256, "rotary_dim": 8, "d_kv": 8, "d_head": 8, "bos_token_id": 1}
WINDOWS = {"sliding_window": 6, "attention_chunk_size": 8}
SMALL = SIZES | LAYERS | HEADS | WIDTHS | INNER | EXPERTS | MORE_EXPERTS | LATENT | OTHER
SMALL |= {"pad_token_id": 0, "eos_token_id": 2}
MOST_PARAMETERS = 3_000_000


@contextmanager
def quiet() -> Iterator[None]:
    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.set_verbosity_warning()


def build(model_type: str) -> Any:
    """A tiny model of this type; None where a small config does not make one, or it is no text model."""
    config_class = CONFIG_MAPPING[model_type]
    if "text_config" in getattr(config_class, "sub_configs", {}):
        return None
    variants: list[dict[str, Any]] = [SMALL | {"head_dim": 8}, SMALL, SMALL | {"num_key_value_heads": 4}]
    for sizes in variants:  # some derive the size of a head, some need it, some share no keys
        try:
            default = config_class()
            wanted = {name: size for name, size in sizes.items() if hasattr(default, name)}
            wanted |= {name: size for name, size in WINDOWS.items() if getattr(default, name, None) is not None}
            config = config_class(**wanted)
            with torch.device("meta"):
                size = sum(each.numel() for each in AutoModelForCausalLM.from_config(config).parameters())
            if size > MOST_PARAMETERS:
                return None
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config).eval()
            model(input_ids=torch.tensor([[3, 4, 5]]), use_cache=False)
            return model
        except Exception:  # whatever a config class makes of sizes that it does not know
            continue
    return None


def verdict(model: Any) -> str:
    try:
        for seed in range(2):
            scenario(model, random.Random(seed), steps=5, atol=2e-2)
    except UnsupportedModelError:
        return "refused"
    return "exact"


def test_every_model_type_is_served_exactly_or_refused() -> None:
    verdicts: dict[str, list[str]] = {"exact": [], "refused": [], "not built": []}
    with quiet():
        for model_type in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
            model = build(model_type)
            verdicts["not built" if model is None else verdict(model)].append(model_type)
    print({name: len(types) for name, types in verdicts.items()}, verdicts)
    common = {"llama", "qwen2", "qwen3", "qwen3_moe", "mistral", "mixtral", "gemma2", "gemma3_text", "phi3", "gpt_oss"}
    common |= {"gpt2", "gpt_neox", "opt", "olmo2", "cohere2", "granite", "glm4", "smollm3", "starcoder2", "deepseek_v3"}
    assert common <= set(verdicts["exact"]), common - set(verdicts["exact"])
    assert {"mamba", "rwkv", "bloom", "jamba", "qwen3_next"} <= set(verdicts["refused"])
    assert len(verdicts["exact"]) >= 60
