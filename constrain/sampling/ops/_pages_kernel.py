"""The kernel of ``pages.py``, in a file of its own so that triton is imported by the first launch only."""

import triton
import triton.language as tl

from constrain.sampling.ops.pages import PAGE

_PAGE = tl.constexpr(PAGE)


@triton.jit  # type: ignore[untyped-decorator]
def add_kernel(  # type: ignore[no-untyped-def]
    updates_ptr,  # [B, 1 + T] int32: a slot, and tokens of it; -1 is no token
    updates_stride,
    num_tokens,  # T
    amount,
    table_ptr,
    base_ptr,
    used_ptr,
    cells_ptr,
    numbers_ptr,
    num_pages,
    BLOCK: tl.constexpr,  # the power of two from T on
):
    update_ptr = updates_ptr + tl.program_id(0) * updates_stride
    slot = tl.load(update_ptr).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    token = tl.load(update_ptr + 1 + lane, mask=lane < num_tokens, other=-1)
    page = token // _PAGE
    valid = (token >= 0) & (page < num_pages)
    page_ptr = table_ptr + slot * num_pages + page
    place = tl.load(page_ptr, mask=valid, other=0).to(tl.int32)
    # Tokens on a page that the slot lacks: the first of each page makes it, the others find out which one that is.
    new = (valid & (place == 0)).to(tl.int32)
    same = (page[:, None] == page[None, :]).to(tl.int32) * new[:, None] * new[None, :]
    made_before = tl.sum(same * (lane[None, :] < lane[:, None]).to(tl.int32), axis=1)
    first = new * (made_before == 0).to(tl.int32)
    used = tl.load(used_ptr + slot)
    made = (used + tl.cumsum(first, axis=0)) * first
    place += tl.sum(same * made[None, :], axis=1)
    index = (tl.load(base_ptr + slot) + place - 1).to(tl.int64)
    tl.store(page_ptr, place.to(tl.int16), mask=first != 0)
    tl.store(numbers_ptr + index, page, mask=first != 0)
    tl.store(used_ptr + slot, used + tl.sum(first, axis=0))
    tl.atomic_add(cells_ptr + index * _PAGE + token % _PAGE, amount, mask=valid, sem="relaxed")
