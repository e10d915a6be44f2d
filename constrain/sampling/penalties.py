"""Who wants penalties or a logit bias, and what their outputs hold so far."""

from collections.abc import Mapping, Sequence
from itertools import chain, compress

import numpy as np
import numpy.typing as npt
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.adjust import Adjustments
from constrain.sampling.ops.pages import PAGE, add_
from constrain.sampling.page_pool import PagePool

_Ints = npt.NDArray[np.int64]
_LONGEST = 64  # tokens of a slot in one launch
_RESERVE = 256  # tokens for which a slot has room at first; it grows as it goes


class PenaltyState:
    """The state behind logit bias and penalties of S slots, on the device, changed by what is committed.

    Nothing is rebuilt and nothing [S, V] exists: for V tokens a table of V / 8 bytes a slot, and 68 bytes for each page
    of 16 tokens that the slot's prompt and output touch, at most twice as many pages as tokens (and 256 to begin with),
    and once more for the room by which the pool grows. The tables are made when the first slot asks for them. The
    prompt is kept only for a slot with a repetition penalty. Used by one thread, on one stream.
    """

    def __init__(
        self, num_slots: int, vocab_size: int, device: torch.device | str = "cpu", *, num_pages: int = 0
    ) -> None:
        """``num_pages``: room to have from the start, so that the tensors stay the same up to there."""
        if num_slots < 1 or not 1 <= vocab_size <= 32767 * PAGE:
            raise InvalidInputError(f"{num_slots} slots, {vocab_size} tokens: want 1 or more, and 1 to {32767 * PAGE}")
        self._num_slots, self._vocab_size, self._num_pages = num_slots, vocab_size, num_pages
        self._device = torch.device(device)
        self._bias: PagePool | None = None
        self._counts: PagePool | None = None
        self._columns = torch.zeros(3, num_slots, dtype=torch.float32, device=self._device)
        self._columns[0] = 1
        self._biased: set[int] = set()
        self._penalised: set[int] = set()

    @property
    def adjustments(self) -> Adjustments | None:
        """What :func:`~constrain.sampling.ops.adjust.adjust_` takes; None while no slot asks for anything."""
        if not self._biased and not self._penalised:
            return None
        return Adjustments(
            self._bias.pages if self._bias and self._biased else None,
            self._counts.pages if self._counts and self._penalised else None,
            *self._columns.unbind(0),
        )

    def add(
        self,
        slot: int,
        *,
        prompt_ids: Sequence[int] = (),
        output_ids: Sequence[int] = (),
        repetition: float = 1.0,
        presence: float = 0.0,
        frequency: float = 0.0,
        logit_bias: Mapping[int, float] | None = None,
        max_new_tokens: int = _RESERVE,
    ) -> None:
        """Let a request into a slot that holds none; costs nothing where it asks for neither.

        ``output_ids`` are those it has generated already, ``max_new_tokens`` how many more it may.
        Raises ``InvalidInputError`` for a slot that is taken, or an id outside the vocabulary.
        """
        if not 0 <= slot < self._num_slots or slot in self._biased or slot in self._penalised:
            raise InvalidInputError(f"slot {slot} is taken, or not one of {self._num_slots}; remove it first")
        penalised = (repetition, presence, frequency) != (1.0, 0.0, 0.0)
        prompt = self._ids(prompt_ids if penalised and repetition != 1.0 else (), "prompt_ids")
        output = self._ids(output_ids if penalised else (), "output_ids")
        biased = self._ids(list(logit_bias or ()), "logit_bias")
        if penalised:
            self._counts = self._counts or self._new_pool(torch.int32)
            tokens, counts = np.unique(output, return_counts=True)
            every = np.union1d(tokens, prompt)
            cells = np.isin(every, prompt).astype(np.int32)
            cells[np.searchsorted(every, tokens)] += 2 * counts.astype(np.int32)
            self._counts.enter(slot, every, cells, reserve=min(max_new_tokens, _RESERVE))
            self._columns[0, slot], self._columns[1, slot], self._columns[2, slot] = repetition, presence, frequency
            self._penalised.add(slot)
        if logit_bias:
            self._bias = self._bias or self._new_pool(torch.float32)
            self._bias.enter(slot, biased, np.array(list(logit_bias.values()), np.float32), reserve=0)
            self._biased.add(slot)

    def remove(self, slot: int) -> None:
        """Forget what a slot holds, if anything."""
        if slot in self._penalised:
            assert self._counts is not None
            self._counts.clear(slot)
            self._columns[0, slot], self._columns[1:, slot] = 1, 0
        if slot in self._biased:
            assert self._bias is not None
            self._bias.clear(slot)
        self._penalised.discard(slot)
        self._biased.discard(slot)

    def commit(self, slots: Sequence[int], token_ids: Sequence[Sequence[int]]) -> None:
        """Count the tokens that each slot has just put out; no slot twice.

        One upload and one launch for all of them, for up to 64 tokens a slot.
        """
        wanted = [slot in self._penalised for slot in slots]
        if self._counts is not None and any(wanted):
            updates = list(compress(token_ids, wanted))
            chosen = np.fromiter(compress(slots, wanted), np.int64, len(updates))
            lengths = np.fromiter(map(len, updates), np.int64, len(updates))
            self._counts.make_room(chosen, lengths)
            self._add(chosen, lengths, updates, 2)

    def uncommit(self, slot: int, token_ids: Sequence[int]) -> None:
        """Take back tokens that were committed."""
        if slot in self._penalised:
            self._add(np.array([slot]), np.array([len(token_ids)]), [token_ids], -2)

    def _add(self, slots: _Ints, lengths: _Ints, token_ids: Sequence[Sequence[int]], amount: int) -> None:
        assert self._counts is not None
        longest = int(lengths.max())
        tokens = np.full((len(slots), longest), -1, np.int32)
        every = np.fromiter(chain.from_iterable(token_ids), np.int32, int(lengths.sum()))
        tokens[np.arange(longest) < lengths[:, None]] = every
        for start in range(0, longest, _LONGEST):
            part = np.concatenate([slots[:, None].astype(np.int32), tokens[:, start : start + _LONGEST]], axis=1)
            host = torch.from_numpy(part)
            on_device = host.pin_memory().to(self._device, non_blocking=True) if self._device.type == "cuda" else host
            add_(self._counts.pages, on_device, amount)

    def _new_pool(self, dtype: torch.dtype) -> PagePool:
        return PagePool(self._num_slots, self._vocab_size, dtype, self._device, num_pages=self._num_pages)

    def _ids(self, token_ids: Sequence[int], name: str) -> _Ints:
        ids = np.asarray(token_ids, np.int64).reshape(-1)
        wrong = ids[(ids < 0) | (ids >= self._vocab_size)]
        if len(wrong):
            raise InvalidInputError(f"{name} holds {wrong[0]}; want ids from 0 to {self._vocab_size - 1}")
        return ids
