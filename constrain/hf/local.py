"""Checkpoints in a folder: a model to run, or no more than its vocabulary. Nothing is downloaded."""

import os
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
from transformers.utils import logging

from constrain.errors import InvalidInputError
from constrain.hf.tokenizer import load_tokenizer_from
from constrain.vocabulary import Vocabulary


def load_model_from(folder: str | os.PathLike[str], device: str | torch.device = "cpu") -> tuple[Any, Any]:
    """(model, tokenizer) saved in ``folder``, in the dtype of the checkpoint and in evaluation mode.

    Raises ``InvalidInputError`` where there is none that can be loaded.
    """
    tokenizer = load_tokenizer_from(folder)
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype="auto")
        return model.to(device).eval(), tokenizer
    except Exception as exc:  # readers of weights have exceptions of their own, and devices too
        raise InvalidInputError(f"cannot load a model from {os.fspath(folder)!r}: {exc}") from exc


def load_vocabulary_from(folder: str | os.PathLike[str]) -> Vocabulary:
    """The vocabulary that the model in ``folder`` has, without reading its weights; of the tokenizer if it is alone."""
    tokenizer = load_tokenizer_from(folder)
    alone = not (Path(folder) / "config.json").exists()
    return Vocabulary.from_tokenizer(tokenizer, model=None if alone else _WithoutWeights(folder))


def disable_progress_bars() -> None:
    """Have transformers show none while it loads."""
    logging.disable_progress_bar()


class _WithoutWeights:
    """As much of a model as ``Vocabulary.from_tokenizer`` looks at."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            self.config = AutoConfig.from_pretrained(folder, local_files_only=True)
            self.generation_config = None
            if (Path(folder) / "generation_config.json").exists():
                self.generation_config = GenerationConfig.from_pretrained(folder, local_files_only=True)
        except (OSError, ValueError) as exc:
            raise InvalidInputError(f"the configuration in {os.fspath(folder)!r} cannot be read: {exc}") from exc

    def get_output_embeddings(self) -> None:
        return None
