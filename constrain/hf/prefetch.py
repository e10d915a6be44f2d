"""Filling the next masks beside the next forward pass of transformers' ``generate``."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import torch
from transformers import StoppingCriteria

from constrain.grammar import RowState
from constrain.hf.aligned_rows import Ids, on_host


class _Masker(Protocol):
    def advance_early(self, ids: Ids) -> list[RowState] | None: ...


@dataclass(frozen=True, slots=True)
class _Started:
    input_ids: torch.Tensor  # held, so that no other tensor can be it
    version: int
    ids: Ids
    states: Future[list[RowState] | None]


class MaskPrefetch(StoppingCriteria):  # type: ignore[misc]  # transformers is not typed
    """The ``prefetch`` of a :class:`~constrain.hf.ConstrainedLogitsProcessor`: give it as a stopping criterion.

    ``generate`` calls it between drawing a token and the next forward pass. It stops nothing, and changes no output:
    where it cannot know the next rows (beams), it does nothing. Continuous batching refuses stopping criteria, which
    makes it say no where it would drop the processor in silence.
    """

    def __init__(self, masker: _Masker) -> None:
        self._masker = masker
        self._thread: ThreadPoolExecutor | None = None
        self._started: _Started | None = None
        self._go_on = torch.zeros(0, dtype=torch.bool)

    def __call__(self, input_ids: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        """Start the masks for what was just drawn; False for every row."""
        self.drain()
        ids = on_host(input_ids)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="constrain-mask")
        states = self._thread.submit(self._masker.advance_early, ids)
        self._started = _Started(input_ids, _version(input_ids), ids, states)
        if self._go_on.shape[0] != input_ids.shape[0] or self._go_on.device != input_ids.device:
            self._go_on = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        return self._go_on

    def take(self, input_ids: torch.Tensor) -> tuple[Ids, list[RowState] | None] | None:
        """The ids of ``input_ids`` and the states of the masks that stand ready for them; None where none was started.

        The states are None where masks were started for other ids, or could not be.
        """
        started, self._started = self._started, None
        if started is None:
            return None
        states = started.states.result()
        if started.input_ids is input_ids and started.version == _version(input_ids):
            return started.ids, states  # the very tensor, unchanged: no copy to the host
        ids = on_host(input_ids)
        return (ids, states if ids.shape == started.ids.shape and (ids == started.ids).all() else None)

    def drain(self) -> None:
        """Wait for the masks that were started, and forget them and their errors."""
        started, self._started = self._started, None
        if started is not None:
            started.states.exception()


def _version(tensor: torch.Tensor) -> int:
    """Counts changes in place; tensors made in inference mode do not count."""
    return 0 if tensor.is_inference() else tensor._version
