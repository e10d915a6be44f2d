"""The mask of a call on the device of its scores, brought there by the thread that filled it."""

import torch

from constrain.bitmask import TokenBitmask
from constrain.sampling.ops.bitmask import allowed_tokens, apply_bitmask
from constrain.vocabulary import Vocabulary


class ReadyMask:
    """Mask memory of one processor: fill ``next_buffer()``, then ``apply`` it to the scores of as many rows.

    ``make_ready`` between the two does all that can be done before there are scores. On CUDA, that is on a stream of
    its own, and what is left is one launch of torch, which the host does in half the time of a Triton launch.
    """

    def __init__(self, max_rows: int, vocabulary: Vocabulary, device: torch.device) -> None:
        self.max_rows = max_rows
        self.device = device
        self._bitmask = TokenBitmask(max_rows, vocabulary, device)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._forbidden: torch.Tensor | None = None  # [max_rows, 32 W] bool, on CUDA
        self._allowed: torch.Tensor | None = None  # [R, 32 W] bool, on the CPU
        self._is_ready = False

    def next_buffer(self) -> torch.Tensor:
        """The host buffer [max_rows, W] to fill; see ``TokenBitmask``."""
        self._is_ready = False
        return self._bitmask.next_buffer()

    def make_ready(self, num_rows: int) -> None:
        """Bring the filled buffer to the device. For any thread, once the work that read the last mask is done, as it
        is where tokens drawn behind it have been copied to the host."""
        if self._stream is None:
            words = self._bitmask.upload(num_rows)
            self._allowed = allowed_tokens(words, 32 * words.shape[1])
            self._is_ready = True
            return
        with torch.cuda.stream(self._stream):
            words = self._bitmask.upload(num_rows)
            if self._forbidden is None:
                shape = (self.max_rows, 32 * words.shape[1])
                self._forbidden = torch.empty(shape, dtype=torch.bool, device=self.device)
            torch.logical_not(allowed_tokens(words, 32 * words.shape[1]), out=self._forbidden[:num_rows])
            self._stream.synchronize()
        self._is_ready = True

    def apply(self, scores: torch.Tensor) -> torch.Tensor:
        """``scores`` [R, V] with the forbidden tokens at -inf, as a new tensor."""
        if self._is_ready and self._forbidden is not None:
            return scores.masked_fill(self._forbidden[: scores.shape[0], : scores.shape[1]], float("-inf"))
        if self._is_ready and self._allowed is not None:
            return torch.where(self._allowed[:, : scores.shape[1]], scores, float("-inf"))
        return apply_bitmask(scores, self._bitmask.upload(len(scores)))
