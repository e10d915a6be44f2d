"""What verification by rejection and by block share: the check of what comes in, and the first pass on a GPU."""

from dataclasses import dataclass
from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.spec.metadata import SpecDecodeMetadata


def check_verified(
    logits: torch.Tensor,
    draft: torch.Tensor | None,
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,
    output_indices: torch.Tensor,
) -> None:
    """``InvalidInputError`` where shapes and devices do not fit ``metadata``."""
    num_drafts, batch = len(metadata.draft_token_ids), len(metadata)
    if logits.ndim != 2 or len(logits) != metadata.num_rows or (logits.stride(1) != 1 and logits.shape[1] > 1):
        raise InvalidInputError(f"logits {tuple(logits.shape)}: want contiguous rows [{metadata.num_rows}, V]")
    if draft is not None and (draft.shape != (num_drafts, logits.shape[1]) or draft.stride(1) != 1):
        raise InvalidInputError(
            f"draft {tuple(draft.shape)}: want contiguous rows [{num_drafts}, {logits.shape[1]}], one a draft token"
        )
    if seeds.shape != (batch,) or output_indices.shape != (batch,):
        raise InvalidInputError(f"{len(seeds)} seeds and {len(output_indices)} indices for {batch} requests")
    tensors = [seeds, output_indices, metadata.num_drafts, *([] if draft is None else [draft])]
    if any(each.device != logits.device for each in tensors):
        raise InvalidInputError(f"the logits are on {logits.device}, and so must be all else")


@dataclass(frozen=True, slots=True)
class RowStats:
    """What :func:`launch_row_stats` leaves on the device."""

    draft_kind: int
    num_blocks: int
    blocks: torch.Tensor  # [N, 2 or 4, num_blocks] float32
    maxima: torch.Tensor  # [2, N] float32
    totals: torch.Tensor  # [2, N] float64
    ratios: torch.Tensor  # [N] float64, written without ``verdict``
    row_tickets: torch.Tensor  # [N] int32, to be set to zeros
    refused: torch.Tensor  # [B] int32, written with ``verdict``, to be set to zeros
    tickets: torch.Tensor  # [B] int32, zeros


def launch_row_stats(
    logits: torch.Tensor,
    draft: torch.Tensor | None,
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,
    output_indices: torch.Tensor,
    draft_is_logits: bool,
    counters: torch.Tensor | None,
    *,
    verdict: bool,
) -> RowStats:
    """One pass over all rows: their maxima and sums, and with ``verdict`` the first refusal of each request."""
    from constrain.spec.ops import _row_stats_kernel as kernels

    batch, num_rows, vocab_size, device = len(metadata), metadata.num_rows, logits.shape[1], logits.device
    num_blocks = -(-vocab_size // kernels.BLOCK)
    if counters is None:
        counters = torch.zeros(num_counters(metadata), dtype=torch.int32, device=device)
    row_tickets, tickets, refused, _ = torch.split(
        counters, [num_rows, batch, batch, len(counters) - num_counters(metadata)]
    )
    kind = 0 if draft is None else 2 if draft_is_logits else 1
    tile, warps = kernels.STATS_SHAPES[kind]
    num_chunks = -(-num_blocks // tile)
    result = RowStats(
        draft_kind=kind,
        num_blocks=num_blocks,
        blocks=torch.empty(num_rows, 4 if kind == 2 else 2, num_blocks, dtype=torch.float32, device=device),
        maxima=torch.empty(2, num_rows, dtype=torch.float32, device=device),
        totals=torch.empty(2, num_rows, dtype=torch.float64, device=device),
        ratios=torch.empty(num_rows, dtype=torch.float64, device=device),
        row_tickets=row_tickets,
        refused=refused,
        tickets=tickets,
    )
    draft = logits if draft is None else draft
    kernel: Any = kernels.row_stats_kernel
    kernel[(num_rows * num_chunks,)](
        logits, logits.stride(0), draft, draft.stride(0), metadata.draft_token_ids, metadata.num_drafts,
        metadata.rows_by_position, metadata.requests_by_position, metadata.places_by_position, seeds, output_indices,
        result.blocks, result.maxima, result.totals, result.ratios, row_tickets, refused, vocab_size, num_rows,
        num_chunks, num_blocks, metadata.max_drafts, DRAFT_KIND=kind, VERDICT=verdict,
        UNIFORM=num_rows == batch * (metadata.max_drafts + 1), TILE=tile, BLOCK=kernels.BLOCK,
        NUM_BLOCKS=power_of_two(num_blocks), num_warps=warps, **early_launch(device),
    )  # fmt: skip
    return result


def num_counters(metadata: SpecDecodeMetadata) -> int:
    """How many int32 zeros the kernels of a step use; they leave zeros, so that the next step can use them again."""
    return metadata.num_rows + 2 * len(metadata)


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below ``number``."""
    return 1 << max(0, number - 1).bit_length()


def early_launch(device: torch.device) -> dict[str, bool]:
    """Launch options: where the GPU can, a kernel begins while the one before it ends, and itself waits for that."""
    if device.type == "cuda" and torch.cuda.get_device_capability(device)[0] >= 9:
        return {"PDL": True, "launch_pdl": True}
    return {"PDL": False}
