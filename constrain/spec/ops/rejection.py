"""The textbook rule: accept a draft token with probability min(1, p / q), recover from (p - q)+."""

from dataclasses import dataclass
from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.uniform import Purpose, uniforms_on_device
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops.padded import Padded, draw_from_weights, emitted, padded_rows


def verify_by_rejection(
    logits: torch.Tensor,  # [N, V] floating, processed: after temperature and truncation, -inf outside
    draft: torch.Tensor | None,  # [M, V] floating: what each draft token was drawn from; None: each was certain
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,  # [B] int64
    output_indices: torch.Tensor,  # [B] int64, of the first row of each request
    *,
    draft_is_logits: bool = False,
    counters: torch.Tensor | None = None,  # [>= num_counters(metadata)] int32 zeros on the GPU, left as zeros
) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens [B, K + 1] with -1 behind the last, accepted draft tokens [B]), int64 both.

    A draft token is accepted if and only if q > 0 and u < min(1, p / q), for u keyed by (seed, output index,
    ``Purpose.ACCEPT``). At the first refusal a token is drawn from (p - q)+ with ``Purpose.RECOVER``; without one, from
    the bonus row with ``Purpose.DRAW``, as a request without a draft would (Leviathan et al., "Fast Inference from
    Transformers via Speculative Decoding", 2023). ``draft`` holds probabilities, or logits after temperature and
    truncation. No token with a logit of -inf is given; a reached row without any other gives -1.
    """
    check_verified(logits, draft, metadata, seeds, output_indices)
    if logits.is_cuda:
        return _verify_triton(logits, draft, metadata, seeds, output_indices, draft_is_logits, counters)
    return _verify_torch(logits, draft, metadata, seeds, output_indices, draft_is_logits)


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


def _verify_torch(
    logits: torch.Tensor,
    draft: torch.Tensor | None,
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,
    output_indices: torch.Tensor,
    draft_is_logits: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = padded_rows(logits, draft, metadata, draft_is_logits)
    indices = output_indices[:, None] + torch.arange(metadata.max_drafts, device=logits.device)
    u = uniforms_on_device(seeds[:, None].expand_as(indices), indices, Purpose.ACCEPT)
    accepted = (rows.q > 0) & (u * rows.q < rows.p) & rows.has_draft
    num_accepted = accepted.long().cumprod(dim=1).sum(dim=1)
    token = _token_behind(rows, num_accepted, metadata, seeds, output_indices)
    return emitted(metadata, num_accepted, token), num_accepted


def _token_behind(
    rows: Padded,
    num_accepted: torch.Tensor,
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,
    output_indices: torch.Tensor,
) -> torch.Tensor:
    weights, q = rows.at(num_accepted)
    residual = (weights - q * weights.sum(dim=1, keepdim=True)).clamp_(min=0)
    index = output_indices + num_accepted
    u = torch.where(
        num_accepted < metadata.num_drafts,
        uniforms_on_device(seeds, index, Purpose.RECOVER),
        uniforms_on_device(seeds, index, Purpose.DRAW),
    )
    # Where p <= q everywhere but for rounding, any token of the target will do.
    return draw_from_weights(torch.where(residual.sum(dim=1, keepdim=True) > 0, residual, weights), u)


def _verify_triton(
    logits: torch.Tensor,
    draft: torch.Tensor | None,
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,
    output_indices: torch.Tensor,
    draft_is_logits: bool,
    counters: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    from constrain.spec.ops import _rejection_kernel as kernels

    batch, max_drafts, device = len(metadata), metadata.max_drafts, logits.device
    tokens = torch.empty(batch, max_drafts + 1, dtype=torch.int64, device=device)
    num_accepted = torch.empty(batch, dtype=torch.int64, device=device)
    if not batch:
        return tokens, num_accepted
    stats = launch_row_stats(logits, draft, metadata, seeds, output_indices, draft_is_logits, counters, verdict=True)
    num_chunks = -(-stats.num_blocks // kernels.RECOVER_BLOCKS) if stats.draft_kind else 1
    sums = torch.empty(batch if stats.draft_kind else 0, stats.num_blocks, dtype=torch.float32, device=device)
    draft = logits if draft is None else draft
    recover: Any = kernels.recover_kernel
    recover[(batch * num_chunks,)](
        logits, logits.stride(0), draft, draft.stride(0), metadata.draft_token_ids, metadata.num_drafts,
        metadata.cu_num_drafts, seeds, output_indices, stats.blocks, stats.maxima, stats.totals, stats.row_tickets,
        stats.refused, stats.tickets, sums, tokens, num_accepted, logits.shape[1], metadata.num_rows, num_chunks,
        stats.num_blocks, max_drafts, DRAFT_KIND=stats.draft_kind, TILE=kernels.RECOVER_BLOCKS, BLOCK=kernels.BLOCK,
        NUM_BLOCKS=power_of_two(stats.num_blocks), WIDTH=power_of_two(max_drafts + 1),
        num_warps=kernels.RECOVER_WARPS, **early_launch(device),
    )  # fmt: skip
    return tokens, num_accepted


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
    from constrain.spec.ops import _rejection_kernel as kernels

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
