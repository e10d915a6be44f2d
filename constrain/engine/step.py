"""The middle of a step: logits and masks side by side, then tokens or an error for each request."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from constrain.engine.active import ActiveRequest
from constrain.engine.masks import MaskFiller, Masks
from constrain.engine.plan import StepPlan
from constrain.engine.verification import VerifiedStep, Verifier
from constrain.errors import ConstrainError, DeadEndError, NonFiniteLogitsError, SourceError
from constrain.grammar import RowState
from constrain.sampling.logprobs import TokenLogprobs
from constrain.sampling.sampler import HostSample, RowStatus, Sampler
from constrain.sampling.wanted_logprobs import prompt_logprobs
from constrain.source import LogitsSource, checked_logits
from constrain.vocabulary import Vocabulary


@dataclass(slots=True)
class Outcome:
    """What a step gave one request: tokens, and then perhaps why there is no more.

    The first ``num_accepted`` of ``tokens`` are its draft's, and the row of each is ``first_row`` and those behind it.
    ``num_committed`` of ``tokens`` have become output.
    """

    first_row: int
    tokens: list[int] = field(default_factory=list)
    num_accepted: int = 0
    num_committed: int = 0
    error: ConstrainError | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a step gave."""

    outcomes: Sequence[Outcome]  # B
    sampled: HostSample
    masks: Masks
    prompt_logprobs: Mapping[int, Sequence[TokenLogprobs]]
    """Of the tokens of a prompt behind its first, by the index of its request in the batch."""


class Stepper:
    """Takes tokens for each sequence of a batch. Owns the mask thread and the mask memory; ``close`` it."""

    def __init__(
        self, source: LogitsSource, vocabulary: Vocabulary, sampler: Sampler, verifier: Verifier, max_rows: int
    ) -> None:
        self._source = source
        self._vocabulary = vocabulary
        self._verifier = verifier
        self._masks = MaskFiller(vocabulary, sampler, max_rows, source.device)

    def run(self, plan: StepPlan) -> Step:
        """One token for each sequence, or several where a draft was right; no state has been advanced."""
        started = time.perf_counter()
        masks_of = self._masks.start(plan)
        try:
            logits, source_errors = self._forward(plan)
        finally:
            forward_done = time.perf_counter()
            masks = masks_of()  # waited for also if the source was interrupted: the buffer is in use until then
        masks_done = time.perf_counter()
        for sequence in plan.batch:
            sequence.timings.forward_s += forward_done - started
            sequence.timings.mask_s += masks.seconds
            sequence.timings.mask_wait_s += masks_done - forward_done
        verified = self._verifier(plan, self._rows(plan, logits), masks.bitmask)
        of_prompts = self._prompt_logprobs(plan, logits, source_errors)
        outcomes = [self._outcome(plan, index, masks, verified, source_errors) for index in range(len(plan.batch))]
        return Step(outcomes, verified.sample, masks, of_prompts)

    def close(self) -> None:
        """Stop the mask thread."""
        self._masks.close()

    def _forward(self, plan: StepPlan) -> tuple[torch.Tensor, dict[int, SourceError]]:
        """Logits of the views. A source that fails is asked for each request alone, so that one request's prompt cannot
        fail the others; rows of requests that fail alone are zeros, and those requests stand in the errors."""
        views, width = plan.views(), self._vocabulary.logits_width
        try:
            return self._on_device(checked_logits(self._source, views, width)), {}
        except SourceError as exc:
            if len(views) == 1:
                return torch.zeros(views[0].num_logits, width, device=self._source.device), {0: exc}
        rows: list[torch.Tensor] = []
        errors: dict[int, SourceError] = {}
        for index, view in enumerate(views):
            try:
                rows.append(self._on_device(checked_logits(self._source, [view], width)).float())
            except SourceError as exc:
                rows.append(torch.zeros(view.num_logits, width, device=self._source.device))
                errors[index] = exc
        return torch.cat(rows), errors

    def _on_device(self, logits: torch.Tensor) -> torch.Tensor:
        dtype = torch.float32 if logits.dtype is torch.float64 else logits.dtype
        return logits.to(self._source.device, dtype)

    def _rows(self, plan: StepPlan, logits: torch.Tensor) -> torch.Tensor:
        """The N rows to sample from: all, but where logprobs of a prompt were wanted."""
        if len(logits) == len(plan.rows):
            return logits
        chosen: list[int] = []
        for start, draft in zip(plan.row_starts(), plan.drafts, strict=True):
            chosen += range(start, start + len(draft) + 1)
        return logits[torch.tensor(chosen, device=logits.device)]

    def _prompt_logprobs(
        self, plan: StepPlan, logits: torch.Tensor, source_errors: Mapping[int, SourceError]
    ) -> dict[int, list[TokenLogprobs]]:
        wanting = [index for index, sequence in enumerate(plan.batch) if sequence.wants_prompt_logprobs]
        starts = plan.row_starts() if wanting else []  # no step but a request's first has any
        found: dict[int, list[TokenLogprobs]] = {}
        for index in wanting:
            if index not in source_errors:
                sequence = plan.batch[index]
                rows = logits[starts[index] - plan.num_prompt_rows(index) : starts[index]]
                params = sequence.request.params
                found[index] = prompt_logprobs(rows, sequence.prompt_ids, params, self._vocabulary.size)
        return found

    def _outcome(
        self,
        plan: StepPlan,
        index: int,
        masks: Masks,
        verified: VerifiedStep,
        source_errors: Mapping[int, SourceError],
    ) -> Outcome:
        """The tokens of the rows that were reached, up to the first that gave none."""
        outcome = Outcome(plan.first_rows[index])
        if index in source_errors:
            outcome.error = source_errors[index]
            return outcome
        sequence, sampled = plan.batch[index], verified.sample
        num_accepted = verified.num_accepted[index]
        for offset in range(num_accepted + 1):
            row = outcome.first_row + offset
            failure = masks.states[row]
            error = failure if isinstance(failure, ConstrainError) else sampled.errors.get(row)
            outcome.error = error or _row_error(sequence, offset, failure, sampled.status[row])
            if outcome.error is not None:
                break
            outcome.tokens.append(sampled.tokens[row])
        outcome.num_accepted = min(num_accepted, len(outcome.tokens))
        return outcome


def _row_error(
    sequence: ActiveRequest, offset: int, state: RowState | ConstrainError, status: RowStatus
) -> ConstrainError | None:
    """Why no token can be taken from this row; None if one can."""
    place = f"after {sequence.num_output + offset} output tokens"
    if state is RowState.DEAD_END:
        return DeadEndError(f"no token of the vocabulary continues the constraint {place}")
    if status is RowStatus.NOT_FINITE:
        return NonFiniteLogitsError(f"the logits hold NaN or +inf {place}")
    if status is RowStatus.EMPTY:
        return DeadEndError(
            f"no token is left {place}: constraint, parameters and earlier dead ends allow none together, or none that "
            "has a logit over -inf"
        )
    return None
