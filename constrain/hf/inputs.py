"""The tensors of one forward pass."""

from collections.abc import Sequence
from typing import Any

import torch

from constrain.hf.attention import AttentionMasks
from constrain.hf.passes import Work
from constrain.hf.slot_cache import WritePlan


def model_inputs(
    work: Sequence[Work], rows: slice, masks: AttentionMasks, device: torch.device
) -> tuple[dict[str, Any], WritePlan]:
    """The model's arguments for the new tokens of ``work``, which lies in ``rows`` in this order, and where they write.

    Shorter rows are padded on the left with their first new token at its own position: that writes the same keys and
    values once more, so padding leaves no trace. Where nothing is padded and all rows start together, the write is a
    plain copy, and the mask may be left out.
    """
    ids, positions = _padded(work, device)
    inputs: dict[str, Any] = {"input_ids": ids, "position_ids": positions}
    width = max(each.length for each in work)
    starts, lengths = {each.start for each in work}, {each.length for each in work}
    if len(starts) == len(lengths) == 1:
        start = starts.pop()
        plan = WritePlan(rows, slice(start, width), width, past=start)
        if masks.can_do_without(start, width):
            return inputs, plan
    else:
        row_indices = torch.arange(rows.start, rows.stop, device=device)[:, None]
        plan = WritePlan(rows, (row_indices, positions), width, past=0)
    return inputs | {"attention_mask": masks.make(positions, width)}, plan


def _padded(work: Sequence[Work], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and positions, [B, Q] each, in one upload."""
    longest = max(each.num_new for each in work)
    ids, positions = [], []
    for each in work:
        pad = longest - each.num_new
        ids.append([each.token_ids[each.start]] * pad + list(each.token_ids[each.start :]))
        positions.append([each.start] * pad + list(range(each.start, each.length)))
    both = torch.tensor([ids, positions]).to(device)
    return both[0], both[1]
