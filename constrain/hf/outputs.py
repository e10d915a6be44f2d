"""Reading the sequences that transformers' ``generate`` returned."""

from collections.abc import Sequence

from constrain.errors import BackendError, ConstrainError, DeadEndError, InvalidInputError, InvalidValueError
from constrain.hf.aligned_rows import Ids
from constrain.hf.wanted import Wanted
from constrain.result import FinishReason, GenerationResult
from constrain.vocabulary import Vocabulary


def read_outputs(
    sequences: Ids,  # [N, L], N sequences for each prompt, prompts in order
    prompts: Ids,  # [R, P], padding included
    wanted: Sequence[Wanted],  # one for each row of prompts
    vocabulary: Vocabulary,
) -> list[GenerationResult]:
    """One result for each sequence. Raises ``InvalidInputError`` for sequences that do not begin with a prompt."""
    prompt_length = prompts.shape[1]
    known = {prompt.tobytes() for prompt in prompts}
    if sequences.ndim != 2 or any(row[:prompt_length].tobytes() not in known for row in sequences):
        raise InvalidInputError("these sequences do not begin with the prompts of this processor's last run")
    # Beams are more rows than sequences, and returned sequences may be fewer or more than prompts.
    if len(sequences) % len(wanted) and len(wanted) % len(sequences):
        raise InvalidInputError(f"{len(sequences)} sequences for {len(wanted)} rows")
    return [
        _result(index, row[prompt_length:].tolist(), prompt_length, _of_row(index, len(sequences), wanted), vocabulary)
        for index, row in enumerate(sequences)
    ]


def _of_row(index: int, num_sequences: int, wanted: Sequence[Wanted]) -> Wanted:
    return wanted[index * len(wanted) // num_sequences]


def _result(
    index: int, output_ids: list[int], prompt_length: int, wanted: Wanted, vocabulary: Vocabulary
) -> GenerationResult:
    token_ids, is_complete = _without_padding(output_ids, vocabulary)
    parts = wanted.reader.parts(token_ids)
    reason: FinishReason = "stop" if is_complete else "length"
    value: object = None
    error = _left_at(token_ids, wanted, vocabulary)
    if error is not None:
        reason = "dead_end" if isinstance(error, DeadEndError) else "error"
    elif is_complete:
        try:
            value = wanted.reader.value(parts.text, token_ids[parts.content_start or 0 :])
        except InvalidValueError as exc:
            reason, error = "error", exc
    return GenerationResult(
        request_id=index,
        finish_reason=reason,
        value=value,
        text=parts.text,
        reasoning=parts.reasoning,
        content_start=parts.content_start,
        token_ids=tuple(token_ids),
        num_prompt_tokens=prompt_length,
        error=error,
        backend=None if wanted.compiled is None else wanted.compiled.backend_name,
    )


def _without_padding(output_ids: list[int], vocabulary: Vocabulary) -> tuple[list[int], bool]:
    """The ids up to the first stop token, which is kept, and whether there is one; padding behind the rest goes."""
    stops = set(vocabulary.stop_token_ids)
    for position, token_id in enumerate(output_ids):
        if token_id in stops:
            return output_ids[: position + 1], True
    end = len(output_ids)
    while end and output_ids[end - 1] in vocabulary.special_token_ids:
        end -= 1
    return output_ids[:end], False


def _left_at(token_ids: list[int], wanted: Wanted, vocabulary: Vocabulary) -> ConstrainError | None:
    """Why the sequence is no beginning of a legal text; None if it is one."""
    if wanted.compiled is None:
        return None
    num_legal = wanted.compiled.start().accept(token_ids)
    if num_legal == len(token_ids):
        return None
    token_id = token_ids[num_legal]
    if token_id in vocabulary.stop_token_ids:
        return DeadEndError(f"stopped after {num_legal} output tokens, where the text is not complete")
    return BackendError(
        f"output {num_legal} is token {token_id}, which the constraint forbade: another logits processor allowed it, "
        "or fewer sequences were legal than were to be returned"
    )
