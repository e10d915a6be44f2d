"""transformers: models as logits sources, and constraints inside ``generate``. Nothing else imports transformers."""

from constrain.hf.hosted import hosted_generate
from constrain.hf.packaged import load_packaged_model
from constrain.hf.prefetch import MaskPrefetch
from constrain.hf.processor import ConstrainedLogitsProcessor
from constrain.hf.source import TransformersSource
from constrain.hf.tokenizer import load_tokenizer

__all__ = [
    "ConstrainedLogitsProcessor",
    "MaskPrefetch",
    "TransformersSource",
    "hosted_generate",
    "load_packaged_model",
    "load_tokenizer",
]
