"""How probable tokens were: of the one taken, of the most probable ones, and of some that are given."""

from dataclasses import dataclass
from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.bitmask import allowed_tokens

_MOST_BY_BLOCKS = 64
"""Up to here the top tokens come from block maxima, above from a sort of all."""


@dataclass(frozen=True, slots=True)
class Logprobs:
    """Of N rows, on the device of the logits. Values are float32 log-probabilities, or the logits themselves."""

    values: torch.Tensor  # [N]: of the row's token
    ranks: torch.Tensor  # [N] int64, from 1: how many tokens have its value or a higher one, so that ties count
    top_values: torch.Tensor  # [N, n]
    top_ids: torch.Tensor  # [N, n] int64, by (value descending, id ascending)
    extra_values: torch.Tensor  # [N, M]: of the ids given


def row_logprobs(
    logits: torch.Tensor,  # [N, V] floating, never changed
    token_ids: torch.Tensor,  # [N] integers; one outside the vocabulary has -inf
    *,
    top_n: int = 0,
    extra_ids: torch.Tensor | None = None,  # [N, M] integers, likewise
    bitmask: torch.Tensor | None = None,  # [N, W] int32, bit set = token allowed; the others count as -inf
    as_logits: bool = False,
) -> Logprobs:
    """Values of each row's token, of its ``top_n`` tokens (-1: of all) and of the ids given.

    Sums are taken in float32 inside blocks of 512 tokens and in float64 across them. A row of nothing but -inf gives
    -inf, a row with NaN gives NaN. On a GPU two launches read each logit once and write a few numbers for each block:
    no [N, V] is made for n up to 64, since the n tokens lie in the n blocks of the highest maxima (of equal ones
    those of the lowest ids); above, the rows are sorted.
    Raises ``InvalidInputError`` where shapes or devices do not fit.
    """
    if extra_ids is None:
        extra_ids = token_ids.new_empty(len(token_ids), 0)
    _check(logits, token_ids, top_n, extra_ids, bitmask)
    width = logits.shape[1]
    top_n = width if top_n < 0 else min(top_n, width)
    plain = logits.stride(1) == 1 and (bitmask is None or bitmask.stride(1) == 1)
    if logits.device.type == "cuda" and plain and top_n <= _MOST_BY_BLOCKS and logits.numel():
        return _logprobs_triton(logits, token_ids, top_n, extra_ids, bitmask, as_logits)
    if logits.device.type == "cpu" and len(logits) > 1:  # a row at a time stays in the cache
        parts = [
            _logprobs_torch(
                logits[i : i + 1], token_ids[i : i + 1], top_n, extra_ids[i : i + 1],
                None if bitmask is None else bitmask[i : i + 1], as_logits,
            )
            for i in range(len(logits))
        ]  # fmt: skip
        return Logprobs(*(torch.cat([getattr(part, name) for part in parts]) for name in Logprobs.__slots__))
    return _logprobs_torch(logits, token_ids, top_n, extra_ids, bitmask, as_logits)


def _check(
    logits: torch.Tensor, token_ids: torch.Tensor, top_n: int, extra_ids: torch.Tensor, bitmask: torch.Tensor | None
) -> None:
    others = [token_ids, extra_ids, *([] if bitmask is None else [bitmask])]
    if logits.ndim != 2 or any(len(other) != len(logits) or other.device != logits.device for other in others):
        shapes = [(tuple(each.shape), str(each.device)) for each in (logits, *others)]
        raise InvalidInputError(f"logits, token_ids, extra_ids, bitmask are {shapes}; want equal rows on one device")
    if token_ids.ndim != 1 or extra_ids.ndim != 2:
        raise InvalidInputError(
            f"token_ids {tuple(token_ids.shape)}, extra_ids {tuple(extra_ids.shape)}: want [N], [N, M]"
        )
    if bitmask is not None and (bitmask.dtype != torch.int32 or bitmask.shape[1] * 32 < logits.shape[1]):
        raise InvalidInputError(
            f"bitmask {bitmask.dtype} {tuple(bitmask.shape)} does not cover {logits.shape[1]} logits"
        )
    if top_n < -1:
        raise InvalidInputError(f"top_n={top_n}: want a count, or -1 for all")


def _logprobs_torch(
    logits: torch.Tensor,
    token_ids: torch.Tensor,
    top_n: int,
    extra_ids: torch.Tensor,
    bitmask: torch.Tensor | None,
    as_logits: bool,
) -> Logprobs:
    values = logits.float()
    if bitmask is not None:
        values = values.masked_fill(~allowed_tokens(bitmask, logits.shape[1]), float("-inf"))
    maximum = values.amax(dim=1, keepdim=True)
    maximum = torch.where(maximum == float("-inf"), 0.0, maximum)
    total = torch.exp(values - maximum).sum(dim=1, keepdim=True, dtype=torch.float64)
    taken_off = torch.where(total == 0, 0.0, maximum + total.log())
    if as_logits:
        taken_off = torch.zeros_like(taken_off)
    ids = torch.cat([token_ids[:, None], extra_ids], dim=1).long()
    known = (ids >= 0) & (ids < values.shape[1])
    found = values.gather(1, torch.where(known, ids, 0)).masked_fill(~known, float("-inf"))
    top_values, top_ids = _top(values, top_n)
    ranks = (values >= found[:, :1]).sum(dim=1)
    found, top_values = ((each.double() - taken_off).float() for each in (found, top_values))
    return Logprobs(found[:, 0], ranks, top_values, top_ids, found[:, 1:])


def _top(values: torch.Tensor, top_n: int) -> tuple[torch.Tensor, torch.Tensor]:
    if len(values) == 1 and 0 < 8 * top_n < values.shape[1]:  # torch.topk is fast, but takes any of equal values
        ids = (values >= values.topk(top_n).values[:, -1:])[0].nonzero().squeeze(1)
        if len(ids) >= top_n:  # less with NaN
            order = values[0, ids].sort(descending=True, stable=True).indices[:top_n]
            return values[:, ids[order]], ids[order][None]
    if not top_n:
        return values[:, :0], torch.empty(len(values), 0, dtype=torch.int64, device=values.device)
    ranked = values.sort(dim=1, descending=True, stable=True)
    return ranked.values[:, :top_n], ranked.indices[:, :top_n]


_BLOCKS_A_PROGRAM, _WARPS, _WARPS_OF_A_ROW = 8, 4, 1


def _logprobs_triton(
    logits: torch.Tensor,
    token_ids: torch.Tensor,
    top_n: int,
    extra_ids: torch.Tensor,
    bitmask: torch.Tensor | None,
    as_logits: bool,
) -> Logprobs:
    from constrain.sampling.ops._logprobs_kernel import BLOCK, blocks_kernel, rows_kernel

    num_rows, width = logits.shape
    num_blocks, num_extra = -(-width // BLOCK), extra_ids.shape[1]
    maximum, sums = logits.new_empty(2, num_rows, num_blocks, dtype=torch.float32)
    counts = logits.new_empty(num_rows, num_blocks, dtype=torch.int32)
    result = Logprobs(
        values=logits.new_empty(num_rows, dtype=torch.float32),
        ranks=logits.new_empty(num_rows, dtype=torch.int64),
        top_values=logits.new_empty(num_rows, top_n, dtype=torch.float32),
        top_ids=logits.new_empty(num_rows, top_n, dtype=torch.int64),
        extra_values=logits.new_empty(num_rows, num_extra, dtype=torch.float32),
    )
    extra_ids = extra_ids.contiguous()
    shared = (
        *(logits, logits.stride(0), width, bitmask, 0 if bitmask is None else bitmask.stride(0)),
        *(token_ids, token_ids.stride(0), maximum, sums, counts, num_blocks),
    )
    over_blocks: Any = blocks_kernel
    over_blocks[(num_rows, -(-num_blocks // _BLOCKS_A_PROGRAM))](*shared, BLOCKS=_BLOCKS_A_PROGRAM, num_warps=_WARPS)
    over_rows: Any = rows_kernel
    over_rows[(num_rows,)](
        *shared,
        *(extra_ids if num_extra else None, num_extra, num_extra),
        *(result.values, result.ranks, result.top_values, result.top_ids, result.extra_values, top_n),
        AS_LOGITS=as_logits,
        BLOCKS=_power_of_two(num_blocks),
        EXTRA=_power_of_two(num_extra),
        num_warps=_WARPS_OF_A_ROW,
    )
    return result


def _power_of_two(at_least: int) -> int:
    return 1 << max(at_least - 1, 0).bit_length()
