"""Block verification: the draft is accepted as a whole, up to the last length that passes."""

from typing import Any

import torch

from constrain.sampling.uniform import Purpose, uniforms_on_device
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops.padded import draw_from_weights, emitted, padded_rows
from constrain.spec.ops.row_stats import check_verified, early_launch, launch_row_stats, power_of_two


def verify_by_block(
    logits: torch.Tensor,  # [N, V] floating, processed: after temperature and truncation, -inf outside
    draft: torch.Tensor | None,  # [M, V] floating: what each draft token was drawn from; None: each was certain
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,  # [B] int64
    output_indices: torch.Tensor,  # [B] int64, of the first row of each request
    *,
    draft_is_logits: bool = False,
    counters: torch.Tensor | None = None,  # [>= num_counters(metadata)] int32 zeros on the GPU, left as zeros
) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens [B, K + 1] with -1 behind the last, accepted draft tokens [B]), int64 both, as ``verify_by_rejection``.

    Sun et al., "Block Verification Accelerates Speculative Decoding" (arXiv 2403.10444), algorithm 2. With s_0 = 1 and
    s_i = min(1, s_{i-1} * p / q of draft token i), length i passes where u_i < h_i: h_K = s_K, else
    h_i = r / (r + 1 - s_i) for r the sum of (s_i * p - q)+ behind i tokens, 1 where s_i = 1. The longest that passes is
    accepted, 0 if none; the token behind is drawn from (s_i * p - q)+, or from the bonus row behind a whole draft. On
    average at least as many tokens are accepted as by the textbook rule. A draft may be cut for what
    its tokens are only behind one that the target forbids, which stays.
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
    num_accepted = torch.zeros_like(metadata.num_drafts)
    scale = torch.ones(len(metadata), dtype=torch.float64, device=logits.device)
    scales = [scale]
    for length in range(1, metadata.max_drafts + 1):
        p, q = rows.p[:, length - 1], rows.q[:, length - 1]
        scale = torch.where(q > 0, scale * p / q, 0.0).clamp(max=1)
        scales.append(scale)
        inside = length < metadata.num_drafts
        weights, probabilities = rows.at(torch.where(inside, length, 0))
        p_row = weights / weights.sum(dim=1, keepdim=True)
        rest = (scale[:, None] * p_row - probabilities).clamp(min=0).sum(dim=1)
        chance = torch.where(inside & (scale < 1), rest / (rest + 1 - scale), scale)
        u = uniforms_on_device(seeds, output_indices + length - 1, Purpose.ACCEPT)
        num_accepted = torch.where((u < chance) & (length <= metadata.num_drafts), length, num_accepted)
    at_end = num_accepted == metadata.num_drafts
    scale = torch.where(at_end, 1.0, torch.stack(scales, dim=1).gather(1, num_accepted[:, None]).squeeze(1))
    weights, probabilities = rows.at(num_accepted)
    residual = scale[:, None] * weights - probabilities * weights.sum(dim=1, keepdim=True)
    residual.clamp_(min=0)
    index = output_indices + num_accepted
    u = torch.where(
        at_end, uniforms_on_device(seeds, index, Purpose.DRAW), uniforms_on_device(seeds, index, Purpose.RECOVER)
    )
    # Where p <= q everywhere but for rounding, any token of the target will do.
    token = draw_from_weights(torch.where(residual.sum(dim=1, keepdim=True) > 0, residual, weights), u)
    return emitted(metadata, num_accepted, token), num_accepted


def _verify_triton(
    logits: torch.Tensor,
    draft: torch.Tensor | None,
    metadata: SpecDecodeMetadata,
    seeds: torch.Tensor,
    output_indices: torch.Tensor,
    draft_is_logits: bool,
    counters: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    from constrain.spec.ops import _block_kernel as kernels
    from constrain.spec.ops._rejection_kernel import RECOVER_BLOCKS, RECOVER_WARPS
    from constrain.spec.ops._row_stats_kernel import BLOCK

    batch, num_rows, vocab_size, device = len(metadata), metadata.num_rows, logits.shape[1], logits.device
    tokens = torch.empty(batch, metadata.max_drafts + 1, dtype=torch.int64, device=device)
    num_accepted = torch.empty(batch, dtype=torch.int64, device=device)
    if not batch:
        return tokens, num_accepted
    stats = launch_row_stats(logits, draft, metadata, seeds, output_indices, draft_is_logits, counters, verdict=False)
    draft = logits if draft is None else draft
    scales = torch.empty(num_rows, dtype=torch.float64, device=device)
    sums = torch.empty(num_rows, stats.num_blocks, dtype=torch.float32, device=device)
    early = early_launch(device)
    chain: Any = kernels.chain_kernel
    chain[(batch,)](metadata.num_drafts, metadata.cu_num_drafts, stats.ratios, scales, **early, num_warps=1)
    residual: Any = kernels.block_residual_kernel
    num_chunks = -(-stats.num_blocks // RECOVER_BLOCKS)
    residual[(num_rows * num_chunks,)](
        logits, logits.stride(0), draft, draft.stride(0), metadata.draft_token_ids, metadata.num_drafts,
        metadata.cu_num_drafts, metadata.row_requests, stats.maxima, stats.totals, scales, sums, vocab_size, num_rows,
        num_chunks, stats.num_blocks, DRAFT_KIND=stats.draft_kind, TILE=RECOVER_BLOCKS, BLOCK=BLOCK,
        **early, num_warps=RECOVER_WARPS,
    )  # fmt: skip
    choose: Any = kernels.block_choose_kernel
    choose[(batch,)](
        logits, logits.stride(0), draft, draft.stride(0), metadata.draft_token_ids, metadata.num_drafts,
        metadata.cu_num_drafts, seeds, output_indices, stats.maxima, stats.totals, scales, sums, stats.row_tickets,
        tokens, num_accepted, vocab_size, num_rows, stats.num_blocks, metadata.max_drafts,
        DRAFT_KIND=stats.draft_kind, BLOCK=BLOCK, NUM_BLOCKS=power_of_two(stats.num_blocks),
        WIDTH=power_of_two(metadata.max_drafts + 1), **early, num_warps=8,
    )  # fmt: skip
    return tokens, num_accepted
