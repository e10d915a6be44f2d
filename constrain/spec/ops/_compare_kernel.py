"""The kernel of ``compare.py``."""

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def compare_kernel(  # type: ignore[no-untyped-def]
    drawn_ptr,  # [N]
    draft_ids_ptr,  # [M]
    num_drafts_ptr,  # [B]
    cu_num_drafts_ptr,  # [B]
    tokens_ptr,  # [B, max_drafts + 1], out
    num_accepted_ptr,  # [B], out
    max_drafts,
    WIDTH: tl.constexpr,
):
    request = tl.program_id(0).to(tl.int64)
    num_drafts = tl.load(num_drafts_ptr + request)
    first_draft = tl.load(cu_num_drafts_ptr + request) - num_drafts
    places = tl.arange(0, WIDTH)
    drawn = tl.load(drawn_ptr + first_draft + request + places, mask=places <= num_drafts, other=-1)
    drafts = tl.load(draft_ids_ptr + first_draft + places, mask=places < num_drafts, other=-1)
    num_accepted = tl.min(tl.where(drawn == drafts, WIDTH, places), axis=0)
    num_accepted = tl.minimum(num_accepted.to(tl.int64), num_drafts)
    tokens = tl.where(places <= num_accepted, drawn, -1)
    tl.store(tokens_ptr + request * (max_drafts + 1) + places, tokens, mask=places <= max_drafts)
    tl.store(num_accepted_ptr + request, num_accepted)
