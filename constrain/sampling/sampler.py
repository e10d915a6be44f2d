"""The sampler: logits of the rows of a step in, a token and a status for each row out."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from constrain.errors import InvalidInputError, ProcessorError
from constrain.sampling.adapters import RequestFunctions
from constrain.sampling.batch import PersistentBatch, SlotRequest, at_temperature_one
from constrain.sampling.ops.fused import sample_rows
from constrain.sampling.ops.logprobs import Logprobs
from constrain.sampling.params import SamplingParams
from constrain.sampling.penalties import PenaltyState
from constrain.sampling.pipeline import Pipeline, Processed
from constrain.sampling.processor_set import ProcessorSet
from constrain.sampling.processors import LogitsProcessor
from constrain.sampling.restrictions import Restrictions, resolve
from constrain.sampling.rows import Rows
from constrain.sampling.sampled import HostSample, Sampled
from constrain.sampling.status import RowStatus
from constrain.sampling.wanted_logprobs import LogprobGroup, wanted_logprobs

__all__ = ["HostSample", "RowStatus", "Sampled", "Sampler"]

_READ = (torch.float32, torch.float16, torch.bfloat16)
_NO_ERRORS: Mapping[int, ProcessorError] = {}


class Sampler:
    """Draws tokens for the requests of up to ``num_slots`` slots. Used by one thread, on one stream.

    A request is checked by ``resolve`` when it is made, takes a slot with ``add`` and frees it with ``remove``. In each
    step every row's bits are taken out of the host's mask by ``restrict_`` (where ``needs_mask``), ``sample`` draws,
    and ``commit`` tells what became output; ``rewind`` takes committed tokens back.

    The order, for every row, whether it draws or verifies a draft: mask (grammar, allowed ids, bad words, minimum
    length, bias of -inf), logit bias, processors that can move the argmax, penalties, argmax of greedy rows,
    temperature, min-p, processors that keep the argmax, top-k, top-p, draw.
    """

    def __init__(
        self,
        vocab_size: int,
        num_slots: int,
        device: torch.device | str = "cpu",
        *,
        processors: Sequence[LogitsProcessor] = (),
    ) -> None:
        self.vocab_size = vocab_size
        self.device = torch.device(device)
        self._batch = PersistentBatch(vocab_size, num_slots, self.device)
        self._penalties = PenaltyState(num_slots, vocab_size, self.device)
        self._processors = ProcessorSet([*processors, RequestFunctions()], vocab_size, num_slots, self.device)
        self._pipeline = Pipeline(self._batch, self._penalties, self._processors)

    def resolve(
        self, params: SamplingParams, *, stop_token_ids: Collection[int], tokenize: Callable[[str], Sequence[int]]
    ) -> Restrictions:
        """Check what only this sampler can: ids against the vocabulary, and ``extra`` against the processors.

        ``stop_token_ids`` are the vocabulary's; ``tokenize`` gives the tokens that write a text, without special ones.
        Raises ``InvalidInputError``.
        """
        self._processors.check(params)
        return resolve(params, self.vocab_size, stop_token_ids, tokenize)

    def add(
        self,
        slot: int,
        params: SamplingParams,
        seed: int,
        prompt_ids: Sequence[int],
        output_ids: Sequence[int],
        restrictions: Restrictions,
    ) -> None:
        """Take a free slot. ``output_ids`` is the caller's live list of committed tokens.

        Raises ``ProcessorError`` where a processor refuses the request; the slot is then free.
        """
        request = SlotRequest(params, seed, prompt_ids, output_ids, restrictions)
        finite = {token: bias for token, bias in (params.logit_bias or {}).items() if bias not in (0, float("-inf"))}
        self._batch.add(slot, request)
        try:
            self._penalties.add(
                slot,
                # Prompts may hold ids past the vocabulary, which are never drawn.
                prompt_ids=[token for token in prompt_ids if token < self.vocab_size] if params.has_penalties else (),
                output_ids=output_ids,
                repetition=params.repetition_penalty,
                presence=params.presence_penalty,
                frequency=params.frequency_penalty,
                logit_bias=finite,
                max_new_tokens=params.max_tokens,
            )
            self._processors.add(slot, request)
        except BaseException:
            self._penalties.remove(slot)
            self._batch.remove(slot)
            raise

    def remove(self, slot: int) -> None:
        """Free a slot."""
        self._batch.remove(slot)
        self._penalties.remove(slot)
        self._processors.remove(slot)

    def needs_mask(self, slot: int) -> bool:
        """Whether rows of this slot want a mask even where no grammar does, as things stand."""
        request = self._batch[slot]
        return slot in self._batch.restricted and request.restrictions.needs_mask(len(request.output_ids))

    def restrict_(
        self, mask_row: torch.Tensor | npt.NDArray[np.int32], slot: int, draft_prefix: Sequence[int] = ()
    ) -> bool:
        """Take from a row [W] of the host's mask, filled by a grammar or with the vocabulary, what the slot forbids.

        ``draft_prefix`` are the drafts that stand before the row. Returns whether the minimum length yielded. May run
        on another thread, beside the forward pass, while the outputs stand still.
        """
        request = self._batch[slot]
        return request.restrictions.restrict_(mask_row, request.output_ids, draft_prefix)

    @torch.no_grad()
    def sample(
        self,
        logits: torch.Tensor,  # [N, V or more] floating, never changed
        rows: Rows,  # N
        bitmask: torch.Tensor | None = None,  # [N, W] int32 on the device
    ) -> Sampled:
        """A token for every row; that of a row depends on its request alone, whatever stands beside it."""
        self._check(logits, rows, bitmask)
        logits = logits if logits.dtype in _READ else logits.float()
        device_rows = rows.to(self.device)
        features, errors, processed = self._batch.features, _NO_ERRORS, None
        if not self._processors.wants(rows.slots):
            tokens, status = sample_rows(
                logits,
                self._batch.table,
                device_rows,
                features,
                bitmask=bitmask,
                adjustments=self._penalties.adjustments,
                vocab_size=self.vocab_size,
            )
        elif not self._processors.wants(rows.slots, keeping_argmax=True):
            penalised = self._pipeline.penalised(logits, rows, device_rows, bitmask)
            tokens, status = sample_rows(penalised.logits, self._batch.table, device_rows, features)
            errors = penalised.errors
        else:
            processed = self._pipeline.run(logits, rows, device_rows, bitmask)
            tokens, status = sample_rows(processed.logits, at_temperature_one(self._batch.table), device_rows, features)
            errors = processed.errors
        found = [
            (group, self._logprobs(group, logits, rows, bitmask, tokens, processed))
            for group in wanted_logprobs(self._batch, rows)
        ]
        return Sampled(tokens, status, errors, found)

    @torch.no_grad()
    def logprobs(
        self,
        logits: torch.Tensor,  # [N, V or more] floating, never changed
        rows: Rows,  # N
        tokens: torch.Tensor,  # [N] int64 on the device
        bitmask: torch.Tensor | None = None,  # [N, W] int32 on the device
    ) -> list[tuple[LogprobGroup, Logprobs]]:
        """What ``sample`` reports, for tokens that were chosen elsewhere, by a rejection rule; see :class:`Sampled`."""
        self._check(logits, rows, bitmask)
        groups = wanted_logprobs(self._batch, rows)
        return [(group, self._logprobs(group, logits, rows, bitmask, tokens)) for group in groups]

    @torch.no_grad()
    def process(
        self,
        logits: torch.Tensor,  # [N, V or more] floating, never changed
        rows: Rows,  # N
        bitmask: torch.Tensor | None = None,  # [N, W] int32 on the device
    ) -> torch.Tensor:
        """The distribution that each row is drawn from, as logits [N, V] float32; a greedy row has one token left.

        Raises ``ProcessorError`` where a processor fails on a row.
        """
        processed, errors = self.process_each(logits, rows, bitmask)
        for error in errors.values():
            raise error
        return processed

    @torch.no_grad()
    def process_each(
        self,
        logits: torch.Tensor,  # [N, V or more] floating, never changed
        rows: Rows,  # N
        bitmask: torch.Tensor | None = None,  # [N, W] int32 on the device
    ) -> tuple[torch.Tensor, Mapping[int, ProcessorError]]:
        """What ``process`` gives, and where a processor failed, by row; the logits of such a row mean nothing."""
        self._check(logits, rows, bitmask)
        processed = self._pipeline.run(logits, rows, rows.to(self.device), bitmask)
        return self._pipeline.truncated(processed, one_of_greedy=True), processed.errors

    def commit(self, slots: Sequence[int], token_ids: Sequence[Sequence[int]]) -> None:
        """Tokens that have become output, for each slot."""
        self._penalties.commit(slots, token_ids)

    def rewind(self, slot: int, token_ids: Sequence[int]) -> None:
        """Tokens that were committed and are output no more."""
        self._penalties.uncommit(slot, token_ids)

    def _logprobs(
        self,
        group: LogprobGroup,
        logits: torch.Tensor,
        rows: Rows,
        bitmask: torch.Tensor | None,
        tokens: torch.Tensor,
        processed: Processed | None = None,  # of all rows, where it was made
    ) -> Logprobs:
        if not group.is_processed:
            return group.of(group.pick(logits)[:, : self.vocab_size], group.pick(tokens))
        if processed is not None:
            slots, scaled, shift = (group.pick(each) for each in (processed.slots, processed.logits, processed.shift))
            processed = Processed(slots, scaled, shift, processed.errors)
        else:
            part, mask = _part(rows, group.rows), None if bitmask is None else group.pick(bitmask)
            processed = self._pipeline.run(group.pick(logits), part, part.to(self.device), mask)
        drawn_from = self._pipeline.truncated(processed, one_of_greedy=False)
        if group.mode == "processed_logits":
            drawn_from += processed.shift
        return group.of(drawn_from, group.pick(tokens))

    def _check(self, logits: torch.Tensor, rows: Rows, bitmask: torch.Tensor | None) -> None:
        if logits.ndim != 2 or logits.shape[0] != len(rows) or logits.shape[1] < self.vocab_size:
            raise InvalidInputError(
                f"logits {tuple(logits.shape)}: want [{len(rows)}, {self.vocab_size} or more], one row for each of rows"
            )
        if not logits.is_floating_point():
            raise InvalidInputError(f"logits of {logits.dtype}: want floating ones")
        empty = sorted(slot for slot in set(rows.slots) if slot not in self._batch)
        if empty:
            raise InvalidInputError(f"rows of slots {empty}, which hold no request; add() one first")
        if bitmask is None and self._batch.restricted:
            unmasked = sorted(slot for slot in self._batch.restricted.intersection(rows.slots) if self.needs_mask(slot))
            if unmasked:
                raise InvalidInputError(
                    f"bitmask=None, but the requests in slots {unmasked} forbid tokens; fill a mask, restrict_ its rows"
                )


def _part(rows: Rows, indices: Sequence[int]) -> Rows:
    columns = (rows.slots, rows.offsets, rows.output_indices, rows.drafts)
    return Rows(*([column[index] for index in indices] for column in columns))
