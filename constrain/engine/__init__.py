"""Many requests on one logits source: admission, the step, the end of each request."""

from constrain.engine.engine import Engine

__all__ = ["Engine"]
