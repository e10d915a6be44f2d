"""The requests that are running, one slot each, and their numbers on the device."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.params import SamplingParams
from constrain.sampling.restrictions import Restrictions
from constrain.sampling.table import Features, SlotTable


@dataclass(frozen=True, slots=True, eq=False)
class SlotRequest:
    """What sampling knows of a request. ``output_ids`` is the caller's own list, which grows while it runs."""

    params: SamplingParams
    seed: int
    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    restrictions: Restrictions


class PersistentBatch:
    """A place for each of ``num_slots`` requests. The table on the device changes only where a request comes."""

    def __init__(self, vocab_size: int, num_slots: int, device: torch.device | str) -> None:
        self.vocab_size = vocab_size
        self.num_slots = num_slots
        self.table = SlotTable.empty(num_slots, device)
        self.features = Features()
        self.restricted: set[int] = set()  # slots whose rows may want bits taken out of their masks
        self.reported: set[int] = set()  # slots that want logprobs
        self._requests: dict[int, SlotRequest] = {}

    def __getitem__(self, slot: int) -> SlotRequest:
        return self._requests[slot]

    def __contains__(self, slot: int) -> bool:
        return slot in self._requests

    def add(self, slot: int, request: SlotRequest) -> None:
        """Take a free slot; it stays the request's until ``remove``."""
        if not 0 <= slot < self.num_slots or slot in self._requests:
            raise InvalidInputError(f"slot {slot}: want a free one of {self.num_slots}; remove() frees a slot")
        self._requests[slot] = request
        params, table = request.params, self.table
        # Numbers of Python are filled in by a kernel: no copy that would wait for the device.
        table.temperature[slot].fill_(0.0 if params.is_greedy else params.temperature)
        table.top_k[slot].fill_(self._top_k(params))
        table.top_p[slot].fill_(params.top_p)
        table.min_p[slot].fill_(params.min_p)
        table.seed[slot].fill_(request.seed - 2**64 if request.seed >= 2**63 else request.seed)
        table.gumbel[slot].fill_(params.draw == "gumbel")
        self.features = self._features_of_all()
        if request.restrictions.needs_mask(0):
            self.restricted.add(slot)
        if params.wants_logprobs:
            self.reported.add(slot)

    def remove(self, slot: int) -> None:
        """Free a slot. What stands in the table means nothing until the next ``add``."""
        if slot not in self._requests:
            raise InvalidInputError(f"slot {slot} holds no request")
        del self._requests[slot]
        self.restricted.discard(slot)
        self.reported.discard(slot)
        self.features = self._features_of_all()

    def _top_k(self, params: SamplingParams) -> int:
        return params.top_k if 0 < params.top_k < self.vocab_size else 0

    def _features_of_all(self) -> Features:
        drawn = [each.params for each in self._requests.values() if not each.params.is_greedy]
        if not drawn:
            return Features()
        top_k = [self._top_k(params) for params in drawn]
        return Features(
            drawn=True,
            max_top_k=max(top_k),
            all_top_k=min(top_k) > 0,
            top_p=any(params.top_p < 1 for params in drawn),
            min_p=any(params.min_p > 0 for params in drawn),
            inverse=any(params.draw == "inverse" for params in drawn),
            gumbel=any(params.draw == "gumbel" for params in drawn),
        )


def at_temperature_one(table: SlotTable) -> SlotTable:
    """The table for logits that temperature and min-p have already changed; greedy slots stay greedy."""
    return replace(table, temperature=(table.temperature > 0).float(), min_p=torch.zeros_like(table.min_p))
