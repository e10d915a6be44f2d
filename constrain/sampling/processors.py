"""What a logits processor is, and how one is run."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from constrain.errors import ProcessorError
from constrain.sampling.params import SamplingParams


@dataclass(frozen=True, slots=True, eq=False)
class RowView:
    """Where a row of logits stands: behind the prompt, the output so far, and the drafts before it."""

    slot: int
    offset: int
    """How many drafts stand before the row; the rows of a request come in the order of their offsets."""
    params: SamplingParams
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    """The committed output: the live list, not to be changed."""
    draft_ids: Sequence[int]
    """The drafts before the row, ``offset`` of them, which count as output for it."""

    @property
    def written_ids(self) -> list[int]:
        """Output and drafts, in a new list: what the row's token would follow."""
        return [*self.output_ids, *self.draft_ids]


class LogitsProcessor(ABC):
    """Changes the logits of the requests that want it.

    A processor that can move the argmax runs behind mask and logit bias, before penalties and temperature; one that
    keeps it runs behind temperature and min-p, before top-k, and only on rows that are drawn. What mask, allowed ids
    and bad words forbid stays forbidden whatever it does.

    What it returns for a row must follow from the row's logits and its :class:`RowView` alone. Under speculation a
    request has several rows in a step, and not every one becomes output: keep no count of calls.

    Load one with :func:`~constrain.sampling.loading.load_processors`; a class is made without arguments.
    """

    keeps_argmax: bool = False
    """Whether the most probable token of every row stays so."""
    extra_fields: frozenset[str] = frozenset()
    """The names in ``SamplingParams.extra`` that it reads."""

    def setup(self, vocab_size: int, num_slots: int, device: torch.device) -> None:  # noqa: B027
        """Called once, before any request."""

    def check(self, params: SamplingParams) -> None:  # noqa: B027
        """Raise ``InvalidInputError`` for parameters that it cannot serve; called when a request is made."""

    @abstractmethod
    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        """A request takes a slot; returns whether its rows are to be processed. ``output_ids`` grows as it runs."""

    def remove(self, slot: int) -> None:  # noqa: B027
        """The request of a slot has ended; called whatever ``add`` returned."""

    @abstractmethod
    def process(
        self,
        logits: torch.Tensor,  # [M, V] float32, yours to change; -inf is forbidden
        rows: Sequence[RowView],  # M
    ) -> torch.Tensor:
        """The new logits [M, V]: ``logits`` itself, changed, or another tensor.

        Rows of a call that raises come again, unchanged and each in a call of its own; to raise there ends the request
        of that row alone.
        """


class RowProcessor(LogitsProcessor):
    """A processor that takes one row at a time. To raise ends the request of that row alone."""

    @abstractmethod
    def process_row(self, logits: torch.Tensor, row: RowView) -> torch.Tensor:
        """The new logits [V] of one row: ``logits`` itself, changed, or another tensor."""

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        """Every row in turn."""
        for index, row in enumerate(rows):
            logits[index] = self.process_row(logits[index], row)
        return logits


def run_processor_(
    processor: LogitsProcessor,
    logits: torch.Tensor,  # [N, V] float32, changed in place
    rows: Sequence[RowView],  # N
    wanted: Sequence[int],  # indices of the rows to process
) -> dict[int, ProcessorError]:
    """Process some rows; what went wrong, by row. The logits of a row that went wrong mean nothing."""
    if not wanted:
        return {}
    if isinstance(processor, RowProcessor):
        return _run_rows_(processor, logits, rows, wanted)
    try:
        _run_together_(processor, logits, rows, wanted)
        return {}
    except Exception as exc:
        failure = _as_error(processor, exc)
    if len(wanted) == 1:
        return {wanted[0]: failure}
    errors = _run_rows_(processor, logits, rows, wanted)
    if not errors:
        message = f"logits processor {name_of(processor)} failed on rows together, and on none alone: {failure}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    return errors


def _run_together_(
    processor: LogitsProcessor, logits: torch.Tensor, rows: Sequence[RowView], wanted: Sequence[int]
) -> None:
    """Process rows in one call. Where that fails the logits are as they were, but for a single row."""
    index = None if len(wanted) == len(rows) else torch.tensor(list(wanted), device=logits.device)
    part = logits if index is None else logits[index]
    before = logits.clone() if index is None and len(rows) > 1 else None
    try:
        result = _checked(processor.process(part, [rows[i] for i in wanted]), part)
    except Exception:
        if before is not None:
            logits.copy_(before)
        raise
    if index is not None:
        logits[index] = result
    elif result is not logits:
        logits.copy_(result)


def _run_rows_(
    processor: LogitsProcessor, logits: torch.Tensor, rows: Sequence[RowView], wanted: Sequence[int]
) -> dict[int, ProcessorError]:
    """Process rows in calls of their own."""
    errors: dict[int, ProcessorError] = {}
    for index in wanted:
        row = logits[index]
        try:
            if isinstance(processor, RowProcessor):
                logits[index] = _checked(processor.process_row(row, rows[index]), row)
            else:
                logits[index] = _checked(processor.process(row[None], [rows[index]]), row[None])[0]
        except Exception as exc:
            errors[index] = _as_error(processor, exc)
    return errors


def _checked(result: object, logits: torch.Tensor) -> torch.Tensor:
    if not isinstance(result, torch.Tensor):
        raise ValueError(f"it returned {type(result).__name__}; want the logits, also where they changed in place")
    is_dense = result.layout is torch.strided and result.device == logits.device
    if result.shape != logits.shape or not result.is_floating_point() or not is_dense:
        raise ValueError(
            f"it returned {result.dtype} {tuple(result.shape)}, {result.layout} on {result.device}; "
            f"want dense floating logits {tuple(logits.shape)} on {logits.device}"
        )
    return result.to(logits.dtype)


def _as_error(processor: LogitsProcessor, exc: Exception) -> ProcessorError:
    error = ProcessorError(f"logits processor {name_of(processor)} failed: {type(exc).__name__}: {exc}")
    error.__cause__ = exc
    return error


def name_of(processor: LogitsProcessor) -> str:
    """Under which name an error speaks of a processor."""
    return f"{type(processor).__module__}:{type(processor).__qualname__}"
