"""A transformers model as a logits source that keeps keys and values between calls."""

import inspect
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch

from constrain.errors import InvalidInputError, LimitExceededError
from constrain.hf.attention import AttentionMasks
from constrain.hf.fitness import probe as probe_model
from constrain.hf.fitness import refuse_unfit
from constrain.hf.inputs import model_inputs
from constrain.hf.passes import PassLimits, Work, in_passes
from constrain.hf.slot_cache import SlotCache
from constrain.hf.slot_rows import SlotRows
from constrain.source import HiddenStates, LogitsSource, SequenceView

_probed: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # model -> the attention it was probed with


class TransformersSource(LogitsSource):
    """Logits of a decoder-only ``transformers`` model.

    Rows of different lengths join and leave at any call, and none is computed again for the others' sake; a row whose
    token ids differ from those of the last call keeps the keys and values of the common prefix, so dropping tokens
    costs nothing.

    Parameters
    ----------
    model:
        Must attend to keys and values only, by ``sdpa`` or ``eager`` attention, which take a ready mask.
        ``UnsupportedModelError`` for any other: encoder-decoder, recurrent and hybrid models among them.
    chunk_size:
        The most prompt tokens in one forward pass; by default 256 on the CPU and 2048 elsewhere.
    max_rows, max_length:
        Slots at one time, and tokens of a sequence; more is a ``LimitExceededError``. None: no limit of its own.
    hidden_layers:
        What a view that asks for hidden states gets, numbered as transformers numbers them: 0 is the embedding, k the
        output of layer k, -1 the final states that the logits are made of.
    probe:
        Compare with a plain forward pass on a few tokens, once a model, and refuse the model where they differ.

    Memory: keys and values of (most rows at one time) x (longest row), both rounded up by doubling but never past the
    limits. Sliding windows are kept whole.
    """

    def __init__(
        self,
        model: Any,
        *,
        chunk_size: int | None = None,
        max_rows: int | None = None,
        max_length: int | None = None,
        hidden_layers: Sequence[int] = (-1,),
        probe: bool = True,
    ) -> None:
        for name, value in (("chunk_size", chunk_size), ("max_rows", max_rows), ("max_length", max_length)):
            if value is not None and value < 1:
                raise InvalidInputError(f"{name}={value}: want at least 1")
        refuse_unfit(model)
        self._model = model
        self._config = model.config.get_text_config(decoder=True)
        self._hidden_layers = _checked_layers(hidden_layers, self._config.num_hidden_layers)
        on_cpu = self.device.type == "cpu"
        self._chunk_size = chunk_size or (256 if on_cpu else 2048)
        self._free_padding = 32 if on_cpu else 256
        self._weight_bytes = sum(each.numel() * each.element_size() for each in model.parameters())
        self._max_rows = max_rows
        self._max_length = min(filter(None, (max_length, _context(self._config))), default=None)
        # transformers 5.24 renamed the argument; 5.17 knows the old name only.
        self._cache_argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self._masks = AttentionMasks(self._config, model.dtype)
        self._cache = SlotCache(self._config.num_hidden_layers, max_rows, self._max_length)
        self._rows = SlotRows(self._cache)
        self._hidden: dict[int, HiddenStates] = {}
        if probe and _probed.get(model) != self._config._attn_implementation:
            probe_model(model, TransformersSource(model, probe=False))
            _probed[model] = self._config._attn_implementation

    @property
    def logits_width(self) -> int | None:
        head = self._model.get_output_embeddings()
        return None if head is None else int(head.weight.shape[0])

    @property
    def max_length(self) -> int | None:
        return self._max_length

    @property
    def max_rows(self) -> int | None:
        return self._max_rows

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        self._check(views)
        self._hidden = {}
        work = [self._start(index, view) for index, view in enumerate(views)]
        rows: list[torch.Tensor] = [torch.empty(0)] * len(views)
        with torch.inference_mode():
            self._cache.reserve(len(self._rows), max(each.length for each in work))
            for each in work:
                self._prefill_chunks(each)
            for group in in_passes(work, self._limits()):
                for each, logits in zip(group, self._forward(group), strict=True):
                    rows[each.index] = logits
            return rows[0] if len(rows) == 1 else torch.cat(rows)

    def hidden_states(self, slot: int) -> HiddenStates:
        if slot not in self._hidden:
            raise InvalidInputError(f"slot {slot} did not ask for hidden states in the last call")
        return self._hidden[slot]

    def release(self, slot: int) -> None:
        with torch.inference_mode():
            self._rows.leave(slot)

    def _check(self, views: Sequence[SequenceView]) -> None:
        slots = {view.slot for view in views}
        if len(slots) != len(views):
            raise InvalidInputError("two views name the same slot")
        num_rows = len(self._rows) + sum(slot not in self._rows for slot in slots)
        if self._max_rows is not None and num_rows > self._max_rows:
            raise LimitExceededError(f"{num_rows} slots at one time; max_rows={self._max_rows}")
        for view in views:
            if not 1 <= view.num_logits <= len(view.token_ids):
                raise InvalidInputError(f"num_logits={view.num_logits} of {len(view.token_ids)} tokens")
            if self._max_length is not None and len(view.token_ids) > self._max_length:
                raise LimitExceededError(f"a sequence of {len(view.token_ids)} tokens; max_length={self._max_length}")

    def _start(self, index: int, view: SequenceView) -> Work:
        self._rows.join(view.slot)
        seen, ids = self._rows.seen(view.slot), view.token_ids
        start = min(_common_prefix(seen, ids), len(ids) - view.num_logits)
        # What lies behind the common prefix is about to be overwritten; a forward pass that raises must not leave it.
        del seen[start:]
        return Work(index, view.slot, ids, start, view.num_logits, view.hidden_states)

    def _limits(self) -> PassLimits:
        # The keys and values of this many columns weigh as much as reading the weights once more.
        free_columns = self._weight_bytes / max(1, self._cache.bytes_per_token)
        return PassLimits(self._chunk_size, self._free_padding, free_columns)

    def _prefill_chunks(self, work: Work) -> None:
        """Read all but the last chunk of a long prompt."""
        last_chunk = max(self._chunk_size, work.num_logits)
        while work.num_new > last_chunk:
            stop = min(work.start + self._chunk_size, work.length - work.num_logits)
            self._forward([Work(0, work.slot, work.token_ids[:stop], work.start, 1, work.hidden_states)])
            work.start = stop

    def _forward(self, group: Sequence[Work]) -> list[torch.Tensor]:
        """Read the new tokens of each into its row; the logits [num_logits, V] of each."""
        rows = self._rows.make_contiguous([each.slot for each in group])
        by_row = sorted(group, key=lambda each: self._rows.row(each.slot))
        keep = max(each.num_logits for each in group)
        wants_hidden = any(each.hidden_states for each in group)
        inputs, self._cache.plan = model_inputs(by_row, rows, self._masks, self.device)
        output = self._model(
            **inputs,
            **{self._cache_argument: self._cache},
            use_cache=True,
            logits_to_keep=keep,
            output_hidden_states=wants_hidden,
        )
        for each in group:
            self._rows.seen(each.slot).extend(each.token_ids[each.start :])
        if wants_hidden:
            self._keep_hidden(by_row, output.hidden_states)
        logits = output.logits
        by_slot = {each.slot: logits[row, logits.shape[1] - each.num_logits :] for row, each in enumerate(by_row)}
        return [by_slot[each.slot] for each in group]

    def _keep_hidden(self, work: Sequence[Work], by_layer: Sequence[torch.Tensor]) -> None:
        for row, each in enumerate(work):
            if each.hidden_states:
                states = torch.stack([by_layer[layer][row, -each.num_new :] for layer in self._hidden_layers])
                before = self._hidden.get(each.slot)
                if before is None:
                    self._hidden[each.slot] = HiddenStates(each.start, states)
                else:  # an earlier chunk of the same prompt
                    self._hidden[each.slot] = HiddenStates(before.start, torch.cat([before.states, states], dim=1))


def _context(config: Any) -> int | None:
    return getattr(config, "max_position_embeddings", None)


def _checked_layers(layers: Sequence[int], num_layers: int) -> tuple[int, ...]:
    wrong = [layer for layer in layers if not -num_layers - 1 <= layer <= num_layers]
    if wrong or not layers:
        raise InvalidInputError(
            f"hidden_layers={list(layers)}: want numbers from 0 to {num_layers}, or -1 for the last"
        )
    return tuple(layers)


def _common_prefix(seen: list[int], ids: Sequence[int]) -> int:
    """How many leading elements are equal; quick where all of ``seen`` is, as in a step that appends."""
    shorter = min(len(seen), len(ids))
    leading = seen if shorter == len(seen) else seen[:shorter]
    if leading == (ids[:shorter] if isinstance(ids, list) else list(ids[:shorter])):
        return shorter
    return next(index for index in range(shorter) if seen[index] != ids[index])
