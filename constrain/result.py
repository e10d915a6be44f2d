"""What an engine gives back."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from constrain.errors import ConstrainError
from constrain.sampling.logprobs import TokenLogprobs
from constrain.spec.statistics import SpecStatistics

FinishReason = Literal["stop", "length", "dead_end", "cancelled", "deadline", "error"]


@dataclass(slots=True)
class Timings:
    """Seconds that one request took. Steps are shared by a batch, and count in full for each of its requests."""

    queued_s: float = 0.0
    """From ``add`` to the first step: waiting for the compile and for a place."""
    forward_s: float = 0.0
    """In the logits source."""
    mask_s: float = 0.0
    """Filling masks, beside the forward pass."""
    mask_wait_s: float = 0.0
    """The part of ``mask_s`` that the forward pass did not hide."""
    total_s: float = 0.0
    """From ``add`` to the end."""


@dataclass(frozen=True, slots=True)
class NewTokens:
    """Growth of an output: from index ``start`` on it is now ``token_ids``.

    ``start`` is how many tokens were handed out before, or less: then a dead end took back those from ``start`` on.
    """

    start: int
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """How one request ended.

    request_id:
        What ``Engine.add`` returned; from ``generate``, the index of the prompt.
    finish_reason:
        ``stop``: a stop token, the text is complete. ``length``: ``max_tokens`` or the context ran out. ``dead_end``:
        no legal token was left. ``cancelled``, ``deadline``: from outside. ``error``: see ``error``.
    value:
        The validated value; None unless the finish reason is ``stop``.
    text:
        The text so far, whatever the end. Special tokens add nothing to it.
    token_ids:
        Every generated token, the stop token included.
    reasoning:
        The thinking, without its markers; None where the request has no ``reasoning``.
    content_start:
        How many of ``token_ids`` come before ``text``, thinking and its markers; None where thinking is not over.
    error:
        Why there is no value, for ``dead_end`` and ``error``.
    backend:
        The backend that enforced the constraint; None for free text, or where compiling failed.
    backend_reason:
        Why that backend, and which keywords it was told to ignore.
    seed:
        The seed that was used.
    stop_reason:
        The stop string, or the id of ``stop_token_ids``, that ended the output; neither is part of ``text``. In
        thinking stop strings do not count. None where a stop token of the vocabulary ended it.
    logprobs:
        One for each output token, where ``logprobs`` or ``logprob_token_ids`` asked for them.
    prompt_logprobs:
        One for each token of the prompt, where asked for; None for the first, which nothing stands before.
    min_tokens_yielded:
        Whether the output is shorter than ``min_tokens`` since the constraint left nothing but its end.
    num_backtracks:
        How often a dead end took tokens back.
    speculation:
        What became of drafts; None where there were none.
    """

    request_id: int
    finish_reason: FinishReason
    text: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    value: Any = None
    error: ConstrainError | None = None
    backend: str | None = None
    backend_reason: str | None = None
    seed: int | None = None
    timings: Timings = field(default_factory=Timings)
    reasoning: str | None = None
    content_start: int | None = 0
    stop_reason: int | str | None = None
    logprobs: tuple[TokenLogprobs, ...] | None = None
    prompt_logprobs: tuple[TokenLogprobs | None, ...] | None = None
    min_tokens_yielded: bool = False
    num_backtracks: int = 0
    speculation: SpecStatistics | None = None

    @property
    def ok(self) -> bool:
        """Whether the output is complete and ``value`` is the validated value."""
        return self.finish_reason == "stop" and self.error is None

    @property
    def num_output_tokens(self) -> int:
        """How many tokens were generated, the stop token included."""
        return len(self.token_ids)

    def unwrap(self) -> Any:
        """``value``, or the reason why there is none as an exception."""
        if self.ok:
            return self.value
        hint = ": raise max_tokens, or shorten the prompt" if self.finish_reason == "length" else ""
        raise self.error or ConstrainError(f"no value: the output ended with {self.finish_reason!r}{hint}")

    def with_request_id(self, request_id: int) -> "GenerationResult":
        """The same result under another id."""
        return replace(self, request_id=request_id)
