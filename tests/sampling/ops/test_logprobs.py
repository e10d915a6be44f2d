"""Logprobs, ranks and top tokens against float64 and a sort in plain Python; the kernels against the torch path."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.bitmask import allowed_tokens
from constrain.sampling.ops.logprobs import Logprobs, _logprobs_torch, _logprobs_triton, row_logprobs

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU, kernels are interpreted
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
KERNEL_CASES = (
    [(width, *rest) for width in (1, 33, 111, 513, 32001, 128256, 151936) for rest in (
        (DTYPES[0], False, 5), (DTYPES[0], True, 20), (DTYPES[1], True, 20), (DTYPES[2], False, 64))]
    if torch.cuda.is_available()
    else [(1, DTYPES[0], True, 1), (33, DTYPES[1], False, 33), (111, DTYPES[2], True, 5),
          (513, DTYPES[0], True, 20), (513, DTYPES[0], False, 3), (32001, DTYPES[1], True, 2)]
)  # fmt: skip


def case(
    width: int, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(logits, token ids, extra ids, bitmask) of 7 rows: plain, ties, forbidden, huge, all alike, all -inf."""
    generator = torch.Generator().manual_seed(width)
    logits = torch.randn(7, width + 3, generator=generator)[:, :width] * 5  # a row stride wider than the row
    logits[1] = logits[1].round()
    logits[2, ::2] = float("-inf")
    logits[3] = logits[3] * 1e5 - 3e7
    logits[4] = 1.5
    logits[5] = float("-inf")
    logits[6, width // 2 :] = logits[6].max()
    token_ids = torch.randint(width, (7,), generator=generator)
    token_ids[2] = 0
    extra_ids = torch.randint(-1, width, (7, 3), generator=generator)
    bitmask = torch.randint(-(2**31), 2**31, (7, (width + 31) // 32 + 1), generator=generator).to(torch.int32)
    bitmask[0], bitmask[4] = -1, 0
    bitmask[1, 0] |= 1
    return logits.to(dtype).to(DEVICE), token_ids.to(DEVICE), extra_ids.to(DEVICE), bitmask.to(DEVICE)


def assert_is_exact(
    result: Logprobs,
    logits: torch.Tensor,
    token_ids: torch.Tensor,
    extra_ids: torch.Tensor,
    top_n: int,
    as_logits: bool,
) -> None:
    for row, values in enumerate(logits.double().cpu().numpy()):
        maximum = values.max()
        alive = maximum > -math.inf
        taken_off = maximum + math.log(math.fsum(np.exp(values - maximum))) if alive and not as_logits else 0.0
        own = int(token_ids[row])
        order = np.lexsort((np.arange(len(values)), -values))[: top_n if top_n >= 0 else None]
        assert result.top_ids[row].tolist() == order.tolist()
        assert int(result.ranks[row]) == np.count_nonzero(values >= values[own])
        ids = np.array([own, *order, *extra_ids[row].tolist()])
        found = [result.values[row : row + 1], result.top_values[row], result.extra_values[row]]
        want = torch.from_numpy(np.where(ids >= 0, values[ids] - taken_off, -math.inf))
        torch.testing.assert_close(torch.cat(found).double().cpu(), want, rtol=2e-7, atol=1e-6)


@pytest.mark.parametrize("width", [1, 33, 111, 513, 32001])
@pytest.mark.parametrize("as_logits", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_values_ranks_and_top_are_those_of_float64(width: int, as_logits: bool, masked: bool) -> None:
    logits, token_ids, extra_ids, bitmask = case(width)
    before = logits.clone()
    for top_n in (0, 7, -1) if width > 32000 else (0, 1, 7, 70, -1):
        result = row_logprobs(
            logits, token_ids, top_n=top_n, extra_ids=extra_ids, bitmask=bitmask if masked else None,
            as_logits=as_logits,
        )  # fmt: skip
        seen = logits.masked_fill(~allowed_tokens(bitmask, width), float("-inf")) if masked else logits
        assert_is_exact(result, seen, token_ids, extra_ids, top_n, as_logits)
        assert result.values.dtype == torch.float32 and result.ranks.dtype == torch.int64
    assert torch.equal(logits, before)


@pytest.mark.parametrize(("width", "dtype", "masked", "top_n"), KERNEL_CASES)
def test_the_kernels_are_their_torch_twin(width: int, dtype: torch.dtype, masked: bool, top_n: int) -> None:
    pytest.importorskip("triton")
    logits, token_ids, extra_ids, bitmask = case(width, dtype)
    logits[3] = float("-inf") if dtype == torch.float16 else logits[3]  # too large for it
    token_ids[0] = -1
    for count, as_logits in ((min(top_n, width), False), (0, True)):
        arguments: Any = (logits, token_ids, count, extra_ids, bitmask if masked else None, as_logits)
        result, want = _logprobs_triton(*arguments), _logprobs_torch(*arguments)
        assert torch.equal(result.ranks, want.ranks)
        assert torch.equal(result.top_ids, want.top_ids)
        for name in ("values", "top_values", "extra_values"):
            torch.testing.assert_close(getattr(result, name), getattr(want, name), rtol=2e-7, atol=2e-6)


def test_a_row_with_nan_spoils_no_other_row() -> None:
    logits, token_ids, extra_ids, _ = case(700)
    want = row_logprobs(logits[:1], token_ids[:1], top_n=3, extra_ids=extra_ids[:1])
    logits[1, 5], logits[2] = float("nan"), float("nan")
    logits[3, 2] = float("inf")
    runs = [_logprobs_torch(logits, token_ids, 3, extra_ids, None, False), row_logprobs(logits, token_ids, top_n=3)]
    if torch.cuda.is_available() or pytest.importorskip("triton"):
        runs.append(_logprobs_triton(logits, token_ids, 3, extra_ids, None, False))
    for result in runs:
        assert result.values[1:4].isnan().all()
        assert torch.equal(result.top_ids[:1], want.top_ids)
        torch.testing.assert_close(result.values[0], want.values[0])
        assert ((result.top_ids >= 0) & (result.top_ids < 700)).all()


def test_no_rows_give_no_results() -> None:
    result = row_logprobs(torch.zeros(0, 9, device=DEVICE), torch.zeros(0, dtype=torch.int64, device=DEVICE), top_n=2)
    assert [tuple(getattr(result, name).shape) for name in Logprobs.__slots__] == [(0,), (0,), (0, 2), (0, 2), (0, 0)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"token_ids": torch.zeros(3, dtype=torch.int64)},
        {"token_ids": torch.zeros(2, 1, dtype=torch.int64)},
        {"extra_ids": torch.zeros(2, dtype=torch.int64)},
        {"bitmask": torch.zeros(2, 1, dtype=torch.int32)},
        {"bitmask": torch.zeros(2, 2, dtype=torch.int64)},
        {"top_n": -2},
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    right = {"logits": torch.zeros(2, 40), "token_ids": torch.zeros(2, dtype=torch.int64)}
    with pytest.raises(InvalidInputError):
        row_logprobs(**{**right, **wrong})
