"""The masks of a step, filled on a thread beside the forward pass."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import torch

from constrain.bitmask import TokenBitmask
from constrain.engine.active import ActiveRequest, as_backend_error
from constrain.engine.plan import StepPlan
from constrain.errors import ConstrainError
from constrain.grammar import RowState
from constrain.sampling.sampler import Sampler
from constrain.spec.masks import fill_draft_bitmask
from constrain.vocabulary import Vocabulary


@dataclass(slots=True)
class Masks:
    """N rows of masks.

    ``states`` has what each row says, or why its request ends there; ``yielded`` the rows where the minimum length gave
    way. ``bitmask`` is [N, W] on the device, None where nothing is forbidden to anybody.
    """

    states: list[RowState | ConstrainError]
    bitmask: torch.Tensor | None = None
    seconds: float = 0.0
    yielded: set[int] = field(default_factory=set)


class MaskFiller:
    """Owns the mask thread and the mask memory; ``close`` it.

    One thread: with four on 16 cores, 32 masks waited for each other at Python's own lock, up to its 5 ms (measured on
    2026-11-30 beside an H200: the 99th percentile of the device's idle gap rose from 1.2 to 5.7 ms).
    """

    def __init__(self, vocabulary: Vocabulary, sampler: Sampler, max_rows: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._sampler = sampler
        self._bitmask = TokenBitmask(max_rows, vocabulary, device)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="constrain-mask")

    def start(self, plan: StepPlan) -> Callable[[], Masks]:
        """Begin to fill the masks of ``plan``; what comes back waits for them.

        The masks of the step before are overwritten, so its tokens must be on the host. Until the masks are waited for,
        nothing else may touch the grammars and outputs of the batch.
        """
        if not any(self._needs_mask(sequence) for sequence in plan.batch):
            return lambda: Masks([RowState.FREE] * len(plan.rows))
        filling: Future[Masks] = self._thread.submit(self._fill, plan)
        return filling.result

    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()

    def _needs_mask(self, sequence: ActiveRequest) -> bool:
        return sequence.grammar is not None or bool(sequence.bans) or self._sampler.needs_mask(sequence.slot)

    def _fill(self, plan: StepPlan) -> Masks:
        started = time.perf_counter()
        host = self._bitmask.next_buffer()
        masks = Masks([RowState.FREE] * len(plan.rows))
        for index in range(len(plan.batch)):
            self._fill_rows(plan, index, host, masks)
        masks.bitmask = self._bitmask.upload_aside(len(plan.rows))
        masks.seconds = time.perf_counter() - started
        return masks

    def _fill_rows(self, plan: StepPlan, index: int, host: torch.Tensor, masks: Masks) -> None:
        """The rows of one request. A grammar that fails costs this request only; its rows are left free."""
        sequence, first = plan.batch[index], plan.first_rows[index]
        draft = plan.drafts[index].token_ids
        try:
            filled = fill_draft_bitmask(host, first, sequence.grammar, draft, self._vocabulary)
        except BaseException as exc:  # a panic of a Rust library is no Exception, and nobody interrupts this thread
            error = as_backend_error(exc, sequence.backend)
            masks.states[first : first + len(draft) + 1] = [error] * (len(draft) + 1)
            fill_draft_bitmask(host, first, None, draft, self._vocabulary)
            return
        masks.states[first : first + len(filled.states)] = filled.states
        restricts = self._sampler.needs_mask(sequence.slot)
        for offset in range(len(filled.states) if restricts or sequence.bans else 0):
            row = first + offset
            if restricts and self._sampler.restrict_(host[row], sequence.slot, draft[:offset]):
                masks.yielded.add(row)
            for token_id in sequence.bans.get(sequence.num_output + offset, ()):
                host[row].numpy().view(np.uint32)[token_id // 32] &= ~np.uint32(1 << token_id % 32)
