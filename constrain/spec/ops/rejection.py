"""The textbook rule: accept a draft token with probability min(1, p / q), recover from (p - q)+."""

from typing import Any

import torch

from constrain.sampling.uniform import Purpose, uniforms_on_device
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops.padded import Padded, draw_from_weights, emitted, padded_rows
from constrain.spec.ops.row_stats import check_verified, early_launch, launch_row_stats, power_of_two


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
    from constrain.spec.ops._rejection_kernel import RECOVER_BLOCKS, RECOVER_WARPS, recover_kernel
    from constrain.spec.ops._row_stats_kernel import BLOCK

    batch, max_drafts, device = len(metadata), metadata.max_drafts, logits.device
    tokens = torch.empty(batch, max_drafts + 1, dtype=torch.int64, device=device)
    num_accepted = torch.empty(batch, dtype=torch.int64, device=device)
    if not batch:
        return tokens, num_accepted
    stats = launch_row_stats(logits, draft, metadata, seeds, output_indices, draft_is_logits, counters, verdict=True)
    num_chunks = -(-stats.num_blocks // RECOVER_BLOCKS) if stats.draft_kind else 1
    sums = torch.empty(batch if stats.draft_kind else 0, stats.num_blocks, dtype=torch.float32, device=device)
    draft = logits if draft is None else draft
    recover: Any = recover_kernel
    recover[(batch * num_chunks,)](
        logits, logits.stride(0), draft, draft.stride(0), metadata.draft_token_ids, metadata.num_drafts,
        metadata.cu_num_drafts, seeds, output_indices, stats.blocks, stats.maxima, stats.totals, stats.row_tickets,
        stats.refused, stats.tickets, sums, tokens, num_accepted, logits.shape[1], metadata.num_rows, num_chunks,
        stats.num_blocks, max_drafts, DRAFT_KIND=stats.draft_kind, TILE=RECOVER_BLOCKS, BLOCK=BLOCK,
        NUM_BLOCKS=power_of_two(stats.num_blocks), WIDTH=power_of_two(max_drafts + 1),
        num_warps=RECOVER_WARPS, **early_launch(device),
    )  # fmt: skip
    return tokens, num_accepted
