"""From a request that has ended to its result."""

import time
from collections.abc import Callable, Sequence

from constrain.engine.active import ActiveRequest
from constrain.errors import ConstrainError, InvalidValueError
from constrain.grammar import CompiledGrammar
from constrain.request import Request
from constrain.result import FinishReason, GenerationResult
from constrain.vocabulary import Vocabulary


def make_result(
    sequence: ActiveRequest, vocabulary: Vocabulary, reason: FinishReason, error: ConstrainError | None
) -> GenerationResult:
    """The result of ``sequence``: decoded and validated where it stopped by itself."""
    reasoning, text, content_start = _parts(sequence, vocabulary)
    value: object = None
    if reason == "stop":
        content_ids = sequence.output_ids[content_start or 0 :]
        value, error = decoded(_decoder(sequence), text, content_ids, vocabulary)
        reason = "stop" if error is None else "error"
    sequence.timings.total_s = time.perf_counter() - sequence.added_at
    params = sequence.request.params
    return GenerationResult(
        request_id=sequence.request_id,
        finish_reason=reason,
        value=value,
        text=text,
        reasoning=reasoning,
        content_start=content_start,
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


def _parts(sequence: ActiveRequest, vocabulary: Vocabulary) -> tuple[str | None, str, int | None]:
    """Thinking, text, and where among the tokens the text begins; without the stop string or the token of
    ``stop_token_ids`` that ended the output."""
    ids = sequence.output_ids[:-1] if isinstance(sequence.stop_reason, int) else sequence.output_ids
    if sequence.thinking is None:
        return None, _text(vocabulary.decode(ids), sequence), 0
    split = sequence.thinking.split(ids)
    return split.reasoning, _text(split.text.encode(), sequence), split.end_index


def _text(written: bytes, sequence: ActiveRequest) -> str:
    return written[: sequence.stopped_at].decode("utf-8", errors="replace")


def decoded(
    decode: Callable[[str], object], text: str, token_ids: Sequence[int], vocabulary: Vocabulary
) -> tuple[object, ConstrainError | None]:
    """The value of a complete output, or why it has none. ``token_ids`` are those of ``text``, for decoders that need
    them: special tokens are no part of a text."""
    decode_tokens = getattr(decode, "decode_tokens", None)  # of constrain.schema.Constraint
    try:
        return (decode(text) if decode_tokens is None else decode_tokens(token_ids, vocabulary)), None
    except InvalidValueError as exc:
        return None, exc
    except Exception as exc:
        error = InvalidValueError(f"decoding the output raised {type(exc).__name__}: {exc}")
        error.__cause__ = exc
        return None, error


def _decoder(sequence: ActiveRequest) -> Callable[[str], object]:
    decode = _asked_decoder(sequence.request)
    enforcing = getattr(decode, "enforcing", None)  # of constrain.schema.decoders.SpecDecoder
    return decode if enforcing is None or sequence.enforced is None else enforcing(sequence.enforced)


def _asked_decoder(request: Request) -> Callable[[str], object]:
    if request.decode is not None:
        return request.decode
    if request.constraint is None:
        return str
    from constrain.schema import as_constraint

    constraint = request.constraint
    grammar_spec = constraint.grammar_spec if isinstance(constraint, CompiledGrammar) else constraint
    return as_constraint(grammar_spec).decode
