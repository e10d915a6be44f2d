"""From a request that has ended to its result."""

import time
from dataclasses import replace

from constrain.engine.active import ActiveRequest
from constrain.errors import ConstrainError, InvalidValueError
from constrain.output_reader import OutputParts
from constrain.result import FinishReason, GenerationResult


def make_result(sequence: ActiveRequest, reason: FinishReason, error: ConstrainError | None) -> GenerationResult:
    """The result of ``sequence``: decoded and validated where it stopped by itself."""
    parts = _parts(sequence)
    value: object = None
    if reason == "stop":
        try:
            value = sequence.reader.value(parts.text, sequence.output_ids[parts.content_start or 0 :])
        except InvalidValueError as exc:
            reason, error = "error", exc
    sequence.timings.total_s = time.perf_counter() - sequence.added_at
    params = sequence.request.params
    return GenerationResult(
        request_id=sequence.request_id,
        finish_reason=reason,
        value=value,
        text=parts.text,
        reasoning=parts.reasoning,
        content_start=parts.content_start,
        token_ids=tuple(sequence.output_ids),
        num_prompt_tokens=len(sequence.prompt_ids),
        error=error,
        backend=sequence.backend,
        backend_reason=sequence.backend_reason,
        seed=sequence.seed,
        timings=sequence.timings,
        stop_reason=sequence.stop_reason,
        logprobs=tuple(sequence.logprobs) if params.wants_logprobs else None,
        prompt_logprobs=None if sequence.prompt_logprobs is None else tuple(sequence.prompt_logprobs),
        min_tokens_yielded=sequence.min_tokens_yielded,
        num_backtracks=sequence.num_backtracks,
        speculation=sequence.statistics if sequence.statistics.num_drafts else None,
    )


def _parts(sequence: ActiveRequest) -> OutputParts:
    """The output without the stop string or the token of ``stop_token_ids`` that ended it."""
    ids = sequence.output_ids[:-1] if isinstance(sequence.stop_reason, int) else sequence.output_ids
    parts = sequence.reader.parts(ids)
    if sequence.stopped_at is None:
        return parts
    return replace(parts, text=parts.text.encode()[: sequence.stopped_at].decode())
