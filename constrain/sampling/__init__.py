"""From logits to tokens. Knows tensors and numbers; nothing of grammars, requests or models."""

from constrain.sampling.adapters import FunctionProcessor
from constrain.sampling.loading import load_processors
from constrain.sampling.params import SamplingFields, SamplingParams
from constrain.sampling.processors import LogitsProcessor, RowProcessor, RowView
from constrain.sampling.rows import Rows
from constrain.sampling.sampler import Sampler

__all__ = [
    "FunctionProcessor",
    "LogitsProcessor",
    "RowProcessor",
    "RowView",
    "Rows",
    "Sampler",
    "SamplingFields",
    "SamplingParams",
    "load_processors",
]
