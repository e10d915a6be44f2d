"""The middle of a step: logits and masks side by side, then a token or an error for each request."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import torch

from constrain.bitmask import TokenBitmask, fill_free_row
from constrain.errors import BackendError, ConstrainError, DeadEndError, NonFiniteLogitsError, SourceError
from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import GrammarSpec
from constrain.request import Request
from constrain.result import Timings
from constrain.sampling.ops.bitmask import apply_bitmask_
from constrain.sampling.sampler import RowStatus, sample
from constrain.source import LogitsSource, SequenceView, checked_logits
from constrain.vocabulary import Vocabulary


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """A request inside an engine, from its place in the queue to its end."""

    request_id: int
    request: Request
    seed: int
    added_at: float
    token_ids: list[int]  # prompt and output
    num_prompt: int
    compiling: Future[CompiledGrammar] | None
    slot: int = -1
    grammar: Grammar | None = None
    backend: str | None = None
    backend_reason: str | None = None
    enforced: GrammarSpec | None = None  # where keywords were ignored: what is left
    timings: Timings = field(default_factory=Timings)
    has_ended: bool = False
    num_handed_out: int = 0  # output tokens that Engine.new_tokens has reported

    @property
    def num_output(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def deadline(self) -> float:
        return float("inf") if self.request.timeout_s is None else self.added_at + self.request.timeout_s


class Stepper:
    """Takes one token for each sequence of a batch. Owns the mask thread and the mask memory; ``close`` it."""

    def __init__(self, source: LogitsSource, vocabulary: Vocabulary, max_batch_size: int) -> None:
        self._source = source
        self._vocabulary = vocabulary
        self._bitmask = TokenBitmask(max_batch_size, vocabulary, source.device)
        self._mask_thread = ThreadPoolExecutor(1, thread_name_prefix="constrain-mask")

    def take_tokens(self, batch: list[ActiveRequest]) -> list[int | ConstrainError]:
        """A token for each sequence, or why there is none; no grammar has been advanced."""
        started = time.perf_counter()
        masking = self._start_masks(batch)
        try:
            logits, source_errors = self._forward(batch)
        finally:
            forward_done = time.perf_counter()
            # Waited for also if the source was interrupted: the buffer is in use until then.
            row_states, mask_s = masking.result() if masking is not None else ([RowState.FREE] * len(batch), 0.0)
        masks_done = time.perf_counter()
        for sequence in batch:
            sequence.timings.forward_s += forward_done - started
            sequence.timings.mask_s += mask_s
            sequence.timings.mask_wait_s += masks_done - forward_done
        tokens, statuses = self._sample(batch, logits, is_masked=masking is not None)
        outcomes: list[int | ConstrainError] = []
        for row, sequence in enumerate(batch):
            failure = source_errors.get(row) or row_states[row]
            outcomes.append(_row_error(sequence, RowStatus(statuses[row]), failure) or tokens[row])
        return outcomes

    def close(self) -> None:
        """Stop the mask thread."""
        self._mask_thread.shutdown()

    def _start_masks(self, batch: list[ActiveRequest]) -> Future[tuple[list[RowState | ConstrainError], float]] | None:
        """The masks being filled on their thread; None where no request has a constraint."""
        if all(each.grammar is None for each in batch):
            return None
        return self._mask_thread.submit(self._fill_masks, batch, self._bitmask.next_buffer())

    def _fill_masks(
        self, batch: list[ActiveRequest], host_mask: torch.Tensor
    ) -> tuple[list[RowState | ConstrainError], float]:
        """Runs on the mask thread. A grammar that fails costs its own row, which is then left free."""
        started = time.perf_counter()
        states: list[RowState | ConstrainError] = []
        for row, sequence in enumerate(batch):
            try:
                if sequence.grammar is not None:
                    states.append(sequence.grammar.fill_bitmask(host_mask, row))
                    continue
                states.append(RowState.FREE)
            except BaseException as exc:  # a panic of a Rust library is no Exception, and nobody interrupts this thread
                states.append(as_backend_error(exc, sequence.backend))
            fill_free_row(host_mask, row, self._vocabulary)
        return states, time.perf_counter() - started

    def _forward(self, batch: list[ActiveRequest]) -> tuple[torch.Tensor, dict[int, SourceError]]:
        """Logits [N, V] of the batch. A source that fails is asked for each request alone, so that one request's
        prompt cannot fail the others; rows that fail alone are zeros and stand in the errors."""
        views = [SequenceView(each.slot, tuple(each.token_ids)) for each in batch]
        width = self._vocabulary.logits_width
        try:
            return checked_logits(self._source, views, width), {}
        except SourceError as exc:
            if len(views) == 1:
                return torch.zeros(1, width, device=self._source.device), {0: exc}
        rows: list[torch.Tensor] = []
        errors: dict[int, SourceError] = {}
        for row, view in enumerate(views):
            try:
                rows.append(checked_logits(self._source, [view], width).to(self._source.device, torch.float32))
            except SourceError as exc:
                rows.append(torch.zeros(1, width, device=self._source.device))
                errors[row] = exc
        return torch.cat(rows), errors

    def _sample(
        self, batch: list[ActiveRequest], logits: torch.Tensor, *, is_masked: bool
    ) -> tuple[list[int], list[int]]:
        # Ids past the vocabulary are never drawn. The logits are the source's: only a copy may be changed.
        logits = logits[:, : self._vocabulary.size].to(self._source.device, torch.float32, copy=is_masked)
        if is_masked:
            apply_bitmask_(logits, self._bitmask.upload(len(batch)))
        tokens, status = sample(
            logits,
            [each.request.params for each in batch],
            [each.seed for each in batch],
            [each.num_output for each in batch],
        )
        on_host = torch.stack([tokens, status]).tolist()  # the only copy to the host in a step
        return on_host[0], on_host[1]


def as_backend_error(exc: BaseException, backend: str | None) -> ConstrainError:
    """What stands in a result where a grammar raised ``exc``. Raises it again where the process is to end."""
    if isinstance(exc, KeyboardInterrupt | SystemExit | GeneratorExit):
        raise exc
    if isinstance(exc, ConstrainError):
        return exc
    error = BackendError(f"{backend} failed: {type(exc).__name__}: {exc}")
    error.__cause__ = exc
    return error


def _row_error(sequence: ActiveRequest, status: RowStatus, failure: RowState | ConstrainError) -> ConstrainError | None:
    """Why no token can be taken from this row; None if one can."""
    place = f"after {sequence.num_output} output tokens"
    if isinstance(failure, ConstrainError):
        return failure
    if failure is RowState.DEAD_END:
        return DeadEndError(f"no token of the vocabulary continues the constraint {place}")
    if status is RowStatus.NOT_FINITE:
        return NonFiniteLogitsError(f"the logits hold NaN or +inf {place}")
    if status is RowStatus.EMPTY:
        return DeadEndError(f"every token that the constraint allows has a logit of -inf {place}")
    return None
