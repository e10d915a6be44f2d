"""From logits to tokens. Knows tensors and numbers; nothing of grammars, requests or models."""

from constrain.sampling.params import SamplingFields, SamplingParams

__all__ = ["SamplingFields", "SamplingParams"]
