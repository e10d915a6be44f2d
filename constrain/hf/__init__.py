"""transformers models as logits sources: the only place that imports transformers."""

from constrain.hf.packaged import load_packaged_model
from constrain.hf.source import TransformersSource
from constrain.hf.tokenizer import load_tokenizer

__all__ = ["TransformersSource", "load_packaged_model", "load_tokenizer"]
