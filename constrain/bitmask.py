"""Host and device memory for the masks of one step."""

import weakref
from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.vocabulary import Vocabulary


class TokenBitmask:
    """Mask rows for up to ``max_rows`` rows: host buffers used in turn, and a copy on the device.

    A bitmask is int32 [N, W]; bit ``t % 32`` of word ``t // 32`` says that token ``t`` is allowed. On the CPU there is
    one buffer and ``upload`` copies nothing. On CUDA the host buffers are pinned, and ``next_buffer`` waits for the
    upload that last read the buffer it returns, so that a mask is never overwritten while it travels.
    """

    def __init__(
        self, max_rows: int, vocabulary: Vocabulary, device: torch.device | str = "cpu", *, num_buffers: int = 2
    ) -> None:
        if max_rows < 1 or num_buffers < 1:
            raise InvalidInputError(f"max_rows={max_rows}, num_buffers={num_buffers}: want at least 1 of each")
        self.device = torch.device(device)
        on_gpu = self.device.type == "cuda"
        shape = (max_rows, vocabulary.num_mask_words)
        count = num_buffers if on_gpu else 1
        self._buffers = [torch.zeros(shape, dtype=torch.int32, pin_memory=on_gpu) for _ in range(count)]
        self._on_device = torch.zeros(shape, dtype=torch.int32, device=self.device) if on_gpu else None
        self._uploaded: list[torch.cuda.Event | None] = [None] * count
        self._own_stream = torch.cuda.Stream(self.device) if on_gpu else None  # type: ignore[no-untyped-call]
        self._turn = 0
        self.max_rows = max_rows

    def next_buffer(self) -> torch.Tensor:
        """The host buffer [max_rows, W] to fill for this step; its old content means nothing."""
        self._turn = (self._turn + 1) % len(self._buffers)
        event = self._uploaded[self._turn]
        if event is not None:
            event.synchronize()
        return self._buffers[self._turn]

    def upload(self, num_rows: int) -> torch.Tensor:
        """The first ``num_rows`` rows of the current buffer, on the device [num_rows, W].

        The copy is asynchronous on the current stream; the tensor is valid until the next ``upload``.
        """
        if not 0 <= num_rows <= self.max_rows:
            raise InvalidInputError(f"num_rows={num_rows}: this bitmask holds {self.max_rows} rows")
        host = self._buffers[self._turn][:num_rows]
        if self._on_device is None:
            return host
        device_rows = self._on_device[:num_rows]
        device_rows.copy_(host, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        self._uploaded[self._turn] = event
        return device_rows

    def upload_aside(self, num_rows: int) -> torch.Tensor:
        """As ``upload``, from any thread and beside the work of the current stream; returns when the copy is complete.

        For the thread that fills masks during a forward pass. The last upload is overwritten, so whatever reads it must
        be done: in a step that brings its tokens to the host, it is.
        """
        if self._own_stream is None:
            return self.upload(num_rows)
        with torch.cuda.stream(self._own_stream):
            device_rows = self.upload(num_rows)
            self._own_stream.synchronize()
        self._uploaded[self._turn] = None
        return device_rows


def fill_free_row(bitmask: torch.Tensor, row: int, vocabulary: Vocabulary) -> None:
    """Allow every id of the vocabulary, and none of the ids past it that the logits have, in ``bitmask[row]``."""
    full_words, rest = divmod(vocabulary.size, 32)
    words = bitmask[row]
    words[:full_words] = -1
    words[full_words:] = 0
    if rest:
        words[full_words] = (1 << rest) - 1


class RowDoor:
    """Gives the addresses of rows that may be written to, and remembers the last bitmask that it has checked.

    A step fills many rows of one bitmask; the full check costs as much as a quick mask.
    """

    def __init__(self, num_words: int) -> None:
        self._num_words = num_words
        # The reference, the address, the rows and the bytes from row to row; replaced as a whole, for several threads.
        self._known: tuple[Any, int, int, int] = (lambda: None, 0, 0, 0)

    def row_address(self, bitmask: torch.Tensor, row: int) -> int:
        """The address of ``bitmask[row]``; ``ValueError`` unless that is W contiguous int32 words on the CPU."""
        reference, address, num_rows, step = self._known
        if reference() is not bitmask or bitmask.data_ptr() != address:
            address, num_rows, step = self._check(bitmask)
        if not 0 <= row < num_rows:
            raise InvalidInputError(f"row {row} of a bitmask of {num_rows} rows: want 0 to {num_rows - 1}")
        return address + row * step

    def _check(self, bitmask: torch.Tensor) -> tuple[int, int, int]:
        if (
            bitmask.dtype is not torch.int32
            or not bitmask.is_cpu
            or bitmask.ndim != 2
            or bitmask.shape[1] != self._num_words
            or (bitmask.stride(1) != 1 and self._num_words > 1)
        ):
            raise InvalidInputError(
                f"a bitmask of {bitmask.dtype} {tuple(bitmask.shape)} on {bitmask.device}: want int32 on the CPU, "
                f"[N, {self._num_words}] with contiguous rows; TokenBitmask makes one"
            )
        address, num_rows, step = bitmask.data_ptr(), bitmask.shape[0], 4 * bitmask.stride(0)
        self._known = (weakref.ref(bitmask), address, num_rows, step)
        return address, num_rows, step
