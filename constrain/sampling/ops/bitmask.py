"""Forbidding tokens."""

import sys
from typing import Any

import numpy as np
import torch

from constrain.errors import InvalidInputError


def apply_bitmask_(
    logits: torch.Tensor,  # [N, V] floating, changed in place
    bitmask: torch.Tensor,  # [N, W] int32, bit set = token allowed; 32 * W >= V
) -> torch.Tensor:
    """Set the logits of forbidden tokens to -inf, in place; returns ``logits``.

    Raises ``InvalidInputError`` where shapes, dtype or devices do not fit.
    """
    _check(logits, bitmask)
    return _run(logits, bitmask, logits)


def apply_bitmask(
    logits: torch.Tensor,  # [N, V] floating
    bitmask: torch.Tensor,  # [N, W] int32, bit set = token allowed; 32 * W >= V
) -> torch.Tensor:
    """As ``apply_bitmask_``, into a new tensor; allowed logits are the same bit for bit."""
    _check(logits, bitmask)
    return _run(logits, bitmask, torch.empty(logits.shape, dtype=logits.dtype, device=logits.device))


def allowed_tokens(bitmask: torch.Tensor, vocab_size: int) -> torch.Tensor:
    """The mask as booleans, [N, vocab_size]."""
    if bitmask.device.type == "cpu" and sys.byteorder == "little":
        # numpy unpacks bits some 20 times faster than shifts on int32 words do on the CPU.
        as_bytes = bitmask.contiguous().numpy().view(np.uint8)
        bits = np.unpackbits(as_bytes, axis=1, count=vocab_size, bitorder="little")
        return torch.from_numpy(bits).view(torch.bool)
    shifts = torch.arange(32, dtype=torch.int32, device=bitmask.device)
    return ((bitmask[:, :, None] >> shifts) & 1).flatten(1)[:, :vocab_size].bool()


def _check(logits: torch.Tensor, bitmask: torch.Tensor) -> None:
    if bitmask.dtype != torch.int32 or bitmask.device != logits.device:
        raise InvalidInputError(f"bitmask is {bitmask.dtype} on {bitmask.device}; want int32 on {logits.device}")
    if logits.ndim != 2 or bitmask.ndim != 2 or bitmask.shape[0] != logits.shape[0]:
        raise InvalidInputError(f"logits {tuple(logits.shape)} and bitmask {tuple(bitmask.shape)} have different rows")
    if bitmask.shape[1] * 32 < logits.shape[1]:
        raise InvalidInputError(f"a bitmask of {bitmask.shape[1]} words does not cover {logits.shape[1]} logits")


def _run(logits: torch.Tensor, bitmask: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    is_plain = logits.stride(1) == 1 and bitmask.stride(1) == 1
    if logits.device.type == "cuda" and is_plain and logits.dtype in _KERNEL_DTYPES:
        return _apply_bitmask_triton(logits, bitmask, output)
    return _apply_bitmask_torch(logits, bitmask, output)


def _apply_bitmask_torch(logits: torch.Tensor, bitmask: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    allowed = allowed_tokens(bitmask, logits.shape[1])
    if output is logits:
        return logits.masked_fill_(allowed.logical_not_(), float("-inf"))
    minus_infinity = torch.tensor(float("-inf"), dtype=logits.dtype, device=logits.device)
    return torch.where(allowed, logits, minus_infinity, out=output)


_KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def _apply_bitmask_triton(logits: torch.Tensor, bitmask: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    num_rows, vocab_size = logits.shape
    if num_rows and vocab_size:
        from constrain.sampling.ops._bitmask_kernel import BLOCK_SIZE, apply_bitmask_kernel

        grid = (num_rows, (vocab_size + BLOCK_SIZE - 1) // BLOCK_SIZE)
        kernel: Any = apply_bitmask_kernel
        kernel[grid](
            logits,
            logits.stride(0),
            bitmask,
            bitmask.stride(0),
            output,
            output.stride(0),
            vocab_size,
            IN_PLACE=output is logits,
            BLOCK_SIZE=BLOCK_SIZE,
        )
    return output
