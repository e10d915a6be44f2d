"""Processing in full, step by step: for processors, and for those who want the logits and not only a token."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from constrain.errors import ProcessorError
from constrain.sampling.batch import PersistentBatch
from constrain.sampling.ops.adjust import adjust_
from constrain.sampling.ops.bitmask import apply_bitmask_
from constrain.sampling.ops.truncate import truncate_
from constrain.sampling.penalties import PenaltyState
from constrain.sampling.processor_set import ProcessorSet, views_of
from constrain.sampling.rows import DeviceRows, Rows


@dataclass(frozen=True, slots=True)
class Penalised:
    """Logits before temperature."""

    logits: torch.Tensor  # [N, V] float32
    errors: Mapping[int, ProcessorError]


@dataclass(frozen=True, slots=True)
class Processed:
    """Logits after everything but top-k and top-p."""

    slots: torch.Tensor  # [N] int64
    logits: torch.Tensor  # [N, V] float32; of greedy rows after penalties, without temperature
    shift: torch.Tensor  # [N, 1]: what the logits have less than those divided by the temperature
    errors: Mapping[int, ProcessorError]


class Pipeline:
    """Everything before the draw, written out; ``ops.fused`` does the same in one pass where no processor runs."""

    def __init__(self, batch: PersistentBatch, penalties: PenaltyState, processors: ProcessorSet) -> None:
        self._batch = batch
        self._penalties = penalties
        self._processors = processors

    def run(
        self,
        logits: torch.Tensor,  # [N, V or more] floating, never changed
        rows: Rows,
        device_rows: DeviceRows,
        bitmask: torch.Tensor | None,  # [N, W] int32
    ) -> Processed:
        """Both halves."""
        penalised = self.penalised(logits, rows, device_rows, bitmask)
        return self.processed(penalised, rows, device_rows, bitmask)

    def penalised(
        self, logits: torch.Tensor, rows: Rows, device_rows: DeviceRows, bitmask: torch.Tensor | None
    ) -> Penalised:
        """Mask, bias, processors that can move the argmax, penalties."""
        errors: dict[int, ProcessorError] = {}
        changed = logits[:, : self._batch.vocab_size].to(torch.float32, copy=True)
        _forbid_(changed, bitmask)
        adjustments = self._penalties.adjustments
        if adjustments is not None:
            adjust_(changed, adjustments, device_rows, penalties=False)
        if self._processors.wants(rows.slots, keeping_argmax=False):
            errors = self._processors.run_(changed, views_of(self._batch, rows), keeping_argmax=False)
            _forbid_(changed, bitmask)  # whatever they did
        if adjustments is not None:
            adjust_(changed, adjustments, device_rows, bias=False)
        return Penalised(changed, errors)

    def processed(
        self, penalised: Penalised, rows: Rows, device_rows: DeviceRows, bitmask: torch.Tensor | None
    ) -> Processed:
        """Temperature, min-p, processors that keep the argmax."""
        errors = dict(penalised.errors)
        scaled, shift = self._scaled(penalised.logits, device_rows)
        if self._processors.wants(rows.slots, keeping_argmax=True):
            errors |= self._processors.run_(scaled, views_of(self._batch, rows), keeping_argmax=True, failed=errors)
            _forbid_(scaled, bitmask)
        return Processed(device_rows.slots, scaled, shift, errors)

    def truncated(self, processed: Processed, *, one_of_greedy: bool) -> torch.Tensor:
        """After top-k and top-p [N, V]; greedy rows after penalties, or with only their token left."""
        logits, slots = processed.logits.clone(), processed.slots
        width = logits.shape[1]
        is_greedy = self._batch.table.temperature[slots] == 0
        top_k = self._batch.table.top_k[slots].long()
        top_k = torch.where(is_greedy | (top_k == 0), width, top_k)
        if one_of_greedy:
            top_k = torch.where(is_greedy, 1, top_k)  # ties by lowest id, as the argmax
        return truncate_(logits, top_k, torch.where(is_greedy, 1.0, self._batch.table.top_p[slots]))

    def _scaled(self, logits: torch.Tensor, rows: DeviceRows) -> tuple[torch.Tensor, torch.Tensor]:
        temperature = self._batch.table.temperature[rows.slots][:, None]
        min_p = self._batch.table.min_p[rows.slots][:, None]
        maximum = logits.amax(dim=1, keepdim=True)
        # Rows that are empty or not finite stay as they are, so that their status is seen.
        is_drawn = (temperature > 0) & torch.isfinite(maximum)
        # The maximum goes first: a logit of -3e38, which some models give to what they forbid, must not overflow.
        divisor = torch.where(temperature > 0, temperature, 1.0)
        scaled = (logits - maximum) / divisor
        # As the fused pass says it, so that both keep the same tokens.
        scaled.masked_fill_(maximum - logits > torch.log(min_p).abs() * temperature, float("-inf"))
        return torch.where(is_drawn, scaled, logits), torch.where(is_drawn, maximum / divisor, 0.0)


def _forbid_(logits: torch.Tensor, bitmask: torch.Tensor | None) -> None:
    if bitmask is not None:
        apply_bitmask_(logits, bitmask)
