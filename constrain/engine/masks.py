"""The masks of a step, filled on a thread beside the forward pass."""

import os
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

_FEW = 8
"""Requests whose masks one thread fills faster than it could share them."""


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
    """Owns the mask thread and the mask memory; ``close`` it."""

    def __init__(self, vocabulary: Vocabulary, sampler: Sampler, max_rows: int, device: torch.device) -> None:
        self._vocabulary = vocabulary
        self._sampler = sampler
        self._bitmask = TokenBitmask(max_rows, vocabulary, device)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="constrain-mask")
        # Beside the mask thread. They change nothing on a machine of few cores, and on one with 16 they keep 32 masks
        # that happen to be slow at once (a new string in every row) behind a forward pass of 5 ms.
        self._num_helpers = max(0, min(3, (os.cpu_count() or 1) // 4 - 1))
        self._helpers = ThreadPoolExecutor(max(self._num_helpers, 1), thread_name_prefix="constrain-mask")

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
        self._helpers.shutdown()

    def _needs_mask(self, sequence: ActiveRequest) -> bool:
        return sequence.grammar is not None or bool(sequence.bans) or self._sampler.needs_mask(sequence.slot)

    def _fill(self, plan: StepPlan) -> Masks:
        started = time.perf_counter()
        host = self._bitmask.next_buffer()
        masks = Masks([RowState.FREE] * len(plan.rows))
        num_parts = 1 + (self._num_helpers if len(plan.batch) >= _FEW else 0)
        others = [
            self._helpers.submit(self._fill_part, plan, range(part, len(plan.batch), num_parts), host, masks)
            for part in range(1, num_parts)
        ]
        self._fill_part(plan, range(0, len(plan.batch), num_parts), host, masks)
        for other in others:
            other.result()
        masks.bitmask = self._bitmask.upload_aside(len(plan.rows))
        masks.seconds = time.perf_counter() - started
        return masks

    def _fill_part(self, plan: StepPlan, indices: range, host: torch.Tensor, masks: Masks) -> None:
        for index in indices:
            self._fill_rows(plan, index, host, masks)

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
