"""Verify by drawing: a draft token is accepted where it is the token that the target has drawn itself."""

from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops.padded import emitted


def verify_by_drawing(
    drawn: torch.Tensor,  # [N] int64, the token that each row gives without any draft
    metadata: SpecDecodeMetadata,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(tokens [B, K + 1] with -1 behind the last, accepted draft tokens [B]), int64 both.

    The tokens are those of ``drawn`` up to the first that differs from the draft, so no draft can change them. Of a
    draft token drawn from q, p of it is accepted; of one drawn with the noise that the target uses, much more.
    """
    if drawn.shape != (metadata.num_rows,) or drawn.dtype != torch.int64:
        raise InvalidInputError(f"drawn {tuple(drawn.shape)} {drawn.dtype}: want int64 [{metadata.num_rows}]")
    if drawn.device != metadata.num_drafts.device:
        raise InvalidInputError(f"drawn is on {drawn.device} and the metadata on {metadata.num_drafts.device}")
    return (_verify_triton if drawn.is_cuda else _verify_torch)(drawn, metadata)


def _verify_torch(drawn: torch.Tensor, metadata: SpecDecodeMetadata) -> tuple[torch.Tensor, torch.Tensor]:
    places = torch.arange(metadata.max_drafts, device=drawn.device)
    has_draft = places < metadata.num_drafts[:, None]
    first_draft = metadata.cu_num_drafts - metadata.num_drafts
    index = torch.where(has_draft, first_draft[:, None] + places, 0)
    same = torch.cat([drawn[metadata.target_logits_indices] == metadata.draft_token_ids, drawn.new_zeros(1).bool()])
    num_accepted = (same[index] & has_draft).long().cumprod(dim=1).sum(dim=1)
    starts = first_draft + torch.arange(len(metadata), device=drawn.device)
    return emitted(metadata, num_accepted, drawn[starts + num_accepted]), num_accepted


def _verify_triton(drawn: torch.Tensor, metadata: SpecDecodeMetadata) -> tuple[torch.Tensor, torch.Tensor]:
    from constrain.spec.ops._compare_kernel import compare_kernel

    batch, max_drafts = len(metadata), metadata.max_drafts
    tokens = torch.empty(batch, max_drafts + 1, dtype=torch.int64, device=drawn.device)
    num_accepted = torch.empty(batch, dtype=torch.int64, device=drawn.device)
    if batch:
        kernel: Any = compare_kernel
        kernel[(batch,)](
            drawn.contiguous(), metadata.draft_token_ids, metadata.num_drafts, metadata.cu_num_drafts, tokens,
            num_accepted, max_drafts, WIDTH=1 << max_drafts.bit_length(), num_warps=1,
        )  # fmt: skip
    return tokens, num_accepted
