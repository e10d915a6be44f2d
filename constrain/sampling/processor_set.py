"""The processors of a sampler, and which request wants which."""

import warnings
from collections.abc import Collection, Sequence

import torch

from constrain.errors import ConstrainError, InvalidInputError, ProcessorError
from constrain.sampling.batch import PersistentBatch, SlotRequest
from constrain.sampling.params import SamplingParams
from constrain.sampling.processors import LogitsProcessor, RowView, name_of, run_processor_
from constrain.sampling.rows import Rows


class ProcessorSet:
    """Runs processors in the order given, each on the rows of the requests that want it."""

    def __init__(self, processors: Sequence[LogitsProcessor], vocab_size: int, num_slots: int, device: torch.device):
        self._processors = tuple(processors)
        self._slots: list[set[int]] = [set() for _ in self._processors]
        self._fields = {name for processor in self._processors for name in processor.extra_fields}
        for processor in self._processors:
            try:
                processor.setup(vocab_size, num_slots, device)
            except Exception as exc:
                message = f"logits processor {name_of(processor)} cannot be set up: {type(exc).__name__}: {exc}"
                raise InvalidInputError(message) from exc

    def check(self, params: SamplingParams) -> None:
        """``InvalidInputError`` where a processor refuses the parameters, or where none knows an extra field."""
        unknown = sorted(set(params.extra or ()) - self._fields)
        if unknown:
            raise InvalidInputError(
                f"extra={unknown}: no loaded logits processor reads this; want some of {sorted(self._fields)}"
            )
        for processor in self._processors:
            try:
                processor.check(params)
            except ConstrainError:
                raise
            except Exception as exc:
                raise _refused(processor, exc) from exc

    def add(self, slot: int, request: SlotRequest) -> None:
        """Tell every processor; ``ProcessorError`` where one raises, and then none has the request."""
        for index, processor in enumerate(self._processors):
            try:
                wanted = bool(processor.add(slot, request.params, request.prompt_ids, request.output_ids))
            except Exception as exc:
                self._remove(slot, self._processors[:index])
                raise _refused(processor, exc) from exc
            if wanted:
                self._slots[index].add(slot)

    def remove(self, slot: int) -> None:
        """Tell every processor that the request of a slot has ended."""
        self._remove(slot, self._processors)

    def _remove(self, slot: int, told: Sequence[LogitsProcessor]) -> None:
        for slots in self._slots:
            slots.discard(slot)
        for processor in told:
            try:
                processor.remove(slot)
            except Exception as exc:  # the request has its tokens, and the others go on
                message = f"logits processor {name_of(processor)} raised when a request ended: {exc!r}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)

    def wants(self, slots: Collection[int], *, keeping_argmax: bool | None = None) -> bool:
        """Whether a processor (of one kind) wants a row of these slots."""
        return any(
            not wanted.isdisjoint(slots)
            for processor, wanted in zip(self._processors, self._slots, strict=True)
            if wanted and keeping_argmax in (None, processor.keeps_argmax)
        )

    def run_(
        self,
        logits: torch.Tensor,  # [N, V] float32, changed in place
        views: Sequence[RowView],  # N
        *,
        keeping_argmax: bool,
        failed: Collection[int] = (),
    ) -> dict[int, ProcessorError]:
        """Run those that keep the argmax, on rows that are drawn, or those that can move it, on all that want it.

        Returns what went wrong, by row; such a row is not given to the processors behind, nor is one that has
        ``failed`` before.
        """
        errors: dict[int, ProcessorError] = {}
        for processor, slots in zip(self._processors, self._slots, strict=True):
            if processor.keeps_argmax == keeping_argmax:
                wanted = [
                    index
                    for index, view in enumerate(views)
                    if view.slot in slots
                    and not (index in errors or index in failed)
                    and not (keeping_argmax and view.params.is_greedy)
                ]
                errors |= run_processor_(processor, logits, views, wanted)
        return errors


def _refused(processor: LogitsProcessor, exc: Exception) -> ProcessorError:
    return ProcessorError(f"logits processor {name_of(processor)} refused the request: {type(exc).__name__}: {exc}")


def views_of(batch: PersistentBatch, rows: Rows) -> list[RowView]:
    """Where each row stands."""
    views: list[RowView] = []
    for index, (slot, offset) in enumerate(zip(rows.slots, rows.offsets, strict=True)):
        request = batch[slot]
        drafts = tuple(rows.drafts[index - offset : index])
        views.append(RowView(slot, offset, request.params, request.prompt_ids, request.output_ids, drafts))
    return views
