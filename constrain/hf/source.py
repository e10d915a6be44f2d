"""A transformers model as a logits source that keeps keys and values between calls."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import AutoTokenizer

from constrain.errors import InvalidInputError
from constrain.hf.slot_cache import SlotCache, WritePlan
from constrain.source import LogitsSource, SequenceView

_PAD_RATIO = 1.5
"""A batch of prefills may hold this many times the tokens that are really new."""
_FEW_TOKENS = 8
"""Rows with at most this many new tokens always share a forward pass."""

_Window = tuple[str, int] | None  # ("sliding" or "chunked", tokens)


@dataclass(slots=True)
class _Work:
    """What one view still needs: the new tokens of ``row`` from position ``start``."""

    view_index: int
    view: SequenceView
    row: int
    start: int

    @property
    def num_new(self) -> int:
        return len(self.view.token_ids) - self.start


class TransformersSource(LogitsSource):
    """Logits of a decoder-only ``transformers`` model.

    Rows of different lengths join and leave at any call; a row whose token ids differ from those of the last call keeps
    the keys and values of the common prefix. Prompts are read in chunks of ``chunk_size`` tokens. The model must use
    ``sdpa`` or ``eager`` attention, which take a ready mask; ``InvalidInputError`` otherwise, and for encoder-decoder
    and stateful (recurrent) models.

    Memory: keys and values of (most rows at one time) x (longest row), both rounded up by doubling.
    """

    def __init__(self, model: Any, *, chunk_size: int = 256) -> None:
        if chunk_size < 1:
            raise InvalidInputError(f"chunk_size={chunk_size}: want at least 1")
        _refuse_unfit(model)
        self._model = model
        self._config = model.config.get_text_config(decoder=True)
        self._chunk_size = chunk_size
        # transformers 5.24 renamed the argument; 5.17 knows the old name only.
        self._cache_argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self._windows = _attention_windows(self._config)
        self._cache = SlotCache(self._config.num_hidden_layers)
        self._row_of: dict[int, int] = {}  # slot -> row; rows are 0 .. B-1 without holes
        self._slots: list[int] = []  # row -> slot
        self._seen: list[list[int]] = []  # row -> token ids whose keys and values are in the cache

    @property
    def logits_width(self) -> int | None:
        head = self._model.get_output_embeddings()
        return None if head is None else int(head.weight.shape[0])

    @property
    def max_length(self) -> int | None:
        return getattr(self._config, "max_position_embeddings", None)

    @property
    def device(self) -> torch.device:
        device: torch.device = self._model.device
        return device

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        work = [self._join(index, view) for index, view in enumerate(views)]
        with torch.inference_mode():
            self._cache.reserve(len(self._slots), max(len(view.token_ids) for view in views))
            for each in work:
                self._prefill_chunks(each)
            rows: list[torch.Tensor] = [torch.empty(0)] * len(views)
            for group in _grouped(work):
                keep = max(each.view.num_logits for each in group)
                logits = self._forward([(each.row, each.view.token_ids, each.start, None) for each in group], keep)
                for each, row_logits in zip(group, logits, strict=True):
                    rows[each.view_index] = row_logits[keep - each.view.num_logits :]
                    self._seen[each.row] = list(each.view.token_ids)
            return torch.cat(rows)

    def release(self, slot: int) -> None:
        row = self._row_of.pop(slot, None)
        if row is None:
            return
        last = len(self._slots) - 1
        if row != last:  # the last row moves into the hole
            with torch.inference_mode():
                self._cache.move(last, row, len(self._seen[last]))
            self._slots[row], self._seen[row] = self._slots[last], self._seen[last]
            self._row_of[self._slots[row]] = row
        self._slots.pop()
        self._seen.pop()

    def _join(self, index: int, view: SequenceView) -> _Work:
        row = self._row_of.get(view.slot)
        if row is None:
            row = self._row_of[view.slot] = len(self._slots)
            self._slots.append(view.slot)
            self._seen.append([])
        start = min(_common_prefix(self._seen[row], view.token_ids), len(view.token_ids) - view.num_logits)
        # What lies behind the common prefix is about to be overwritten; a forward pass that raises must not leave it.
        del self._seen[row][start:]
        return _Work(index, view, row, start)

    def _prefill_chunks(self, work: _Work) -> None:
        """Read all but the last chunk of a long prompt."""
        last_chunk = max(self._chunk_size, work.view.num_logits)
        while work.num_new > last_chunk:
            stop = min(work.start + self._chunk_size, len(work.view.token_ids) - work.view.num_logits)
            self._forward([(work.row, work.view.token_ids, work.start, stop)], keep=1)
            self._seen[work.row] += work.view.token_ids[work.start : stop]
            work.start = stop

    def _forward(self, parts: list[tuple[int, Sequence[int], int, int | None]], keep: int) -> torch.Tensor:
        """Logits [B, keep, V] behind the last ``keep`` of the new tokens of each (row, ids, start, stop).

        Shorter rows are padded on the left with their first new token at its own position: that writes the same keys
        and values once more, so padding leaves no trace.
        """
        new = [(row, list(ids[start:stop]), start) for row, ids, start, stop in parts]
        longest = max(len(ids) for _, ids, _ in new)
        padding = [longest - len(ids) for _, ids, _ in new]
        device = self.device
        token_ids = torch.tensor([[ids[0]] * pad + ids for (_, ids, _), pad in zip(new, padding, strict=True)])
        positions = torch.tensor(
            [
                [start] * pad + list(range(start, start + len(ids)))
                for (_, ids, start), pad in zip(new, padding, strict=True)
            ]
        ).to(device)
        rows = [row for row, _, _ in new]
        width = max(start + len(ids) for _, ids, start in new)
        self._cache.plan = WritePlan(
            torch.tensor(rows, device=device)[:, None], positions, _selector(rows, device), width
        )
        output = self._model(
            input_ids=token_ids.to(device),
            position_ids=positions,
            attention_mask=self._attention_mask(positions, width),
            use_cache=True,
            logits_to_keep=keep,
            **{self._cache_argument: self._cache},
        )
        logits: torch.Tensor = output.logits[:, -keep:]
        return logits

    def _attention_mask(self, positions: torch.Tensor, width: int) -> Any:
        """What each new token [B, 1, Q, width] may look at: one mask, or one for each kind of layer."""
        columns = torch.arange(width, device=positions.device)[None, None, None]
        queries = positions[:, None, :, None]
        masks = {kind: self._as_attention(_visible(columns, queries, window)) for kind, window in self._windows.items()}
        return masks.get(None, masks)

    def _as_attention(self, visible: torch.Tensor) -> torch.Tensor:
        if self._config._attn_implementation != "eager":
            return visible
        dtype = self._model.dtype
        return torch.zeros_like(visible, dtype=dtype).masked_fill_(~visible, torch.finfo(dtype).min)


def load_tokenizer(model: Any) -> Any:
    """The tokenizer that lies beside a model's checkpoint. Raises ``InvalidInputError`` if there is none."""
    name = model.config.name_or_path
    if not name:
        raise InvalidInputError("the model does not say where it came from: pass tokenizer=")
    try:
        return AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"no tokenizer at {name!r}: pass tokenizer= ({exc})") from exc


def _refuse_unfit(model: Any) -> None:
    name = type(model).__name__
    if model.config.is_encoder_decoder:
        raise InvalidInputError(f"{name} is an encoder-decoder model; TransformersSource takes decoder-only models")
    if getattr(model, "_is_stateful", False):
        raise InvalidInputError(f"{name} keeps a recurrent state, which cannot be rolled back")
    implementation = model.config.get_text_config(decoder=True)._attn_implementation
    if implementation not in ("sdpa", "eager"):
        raise InvalidInputError(f"{name} uses {implementation} attention; load it with attn_implementation='sdpa'")


def _attention_windows(config: Any) -> dict[str | None, _Window]:
    """The kinds of attention layers; key None where all are alike and the model takes a single mask."""
    sliding: int | None = getattr(config, "sliding_window", None)
    chunk: int | None = getattr(config, "attention_chunk_size", None)
    by_kind: dict[str, _Window] = {
        "full_attention": None,
        "sliding_attention": None if sliding is None else ("sliding", sliding),
        "chunked_attention": None if chunk is None else ("chunked", chunk),
    }
    layer_types: Iterable[str] | None = getattr(config, "layer_types", None)
    if layer_types is not None:
        unknown = sorted(set(layer_types) - set(by_kind))
        if unknown:
            raise InvalidInputError(f"layers of type {unknown} have no cache that can be rolled back")
        return {kind: by_kind[kind] for kind in set(layer_types)}
    return {None: by_kind["sliding_attention"] or by_kind["chunked_attention"]}


def _visible(columns: torch.Tensor, queries: torch.Tensor, window: _Window) -> torch.Tensor:
    causal = columns <= queries
    if window is None:
        return causal
    kind, size = window
    return causal & (columns > queries - size if kind == "sliding" else columns // size == queries // size)


def _grouped(work: list[_Work]) -> Iterable[list[_Work]]:
    """Views that go through the model together: alike in new tokens, so that padding stays small."""
    left = sorted(work, key=lambda each: each.num_new, reverse=True)
    while left:
        widest, real, size = left[0].num_new, 0, 0
        for each in left:
            if size and widest > _FEW_TOKENS and widest * (size + 1) > _PAD_RATIO * (real + each.num_new):
                break
            real += each.num_new
            size += 1
        yield sorted(left[:size], key=lambda each: each.row)
        left = left[size:]


def _selector(rows: list[int], device: torch.device) -> slice | torch.Tensor:
    """A slice (a view, no copy) where the rows lie side by side in order."""
    if rows == list(range(rows[0], rows[0] + len(rows))):
        return slice(rows[0], rows[0] + len(rows))
    return torch.tensor(rows, device=device)


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many leading elements are equal."""
    shorter = min(len(left), len(right))
    if list(left[:shorter]) == list(right[:shorter]):
        return shorter
    return next(index for index in range(shorter) if left[index] != right[index])
