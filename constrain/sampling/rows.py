"""Which request, and which place in its output, each row of logits is for."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Rows:
    """N rows of one step. The rows of a slot stand together, in the order of their offsets 0, 1, ..., K.

    slots:
        The slot of the request.
    offsets:
        How many draft tokens stand between the committed output and this row.
    output_indices:
        The index in the output that the row's token takes: committed output tokens + offset. Keys the draw.
    drafts:
        The draft token that stands behind this row, which the row verifies; -1 for the last row of a request.
    """

    slots: Sequence[int]
    offsets: Sequence[int]
    output_indices: Sequence[int]
    drafts: Sequence[int]

    @classmethod
    def without_drafts(cls, slots: Sequence[int], output_indices: Sequence[int]) -> "Rows":
        """One row a request."""
        return cls(slots, [0] * len(slots), output_indices, [-1] * len(slots))

    def __len__(self) -> int:
        return len(self.slots)

    def to(self, device: torch.device) -> "DeviceRows":
        """The same on ``device``, in one copy."""
        host = torch.tensor([self.slots, self.offsets, self.output_indices, self.drafts], dtype=torch.int64)
        if device.type == "cuda":
            host = host.pin_memory().to(device, non_blocking=True)
        return DeviceRows(*host.unbind(0))


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """:class:`Rows` as tensors on the device of the logits, int64 [N] each."""

    slots: torch.Tensor
    offsets: torch.Tensor
    output_indices: torch.Tensor
    drafts: torch.Tensor
