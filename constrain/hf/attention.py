"""What a token may look at: ready masks for every kind of layer."""

from collections.abc import Iterable
from typing import Any, Literal

import torch

from constrain.errors import UnsupportedModelError

Window = tuple[Literal["sliding", "chunked"], int] | None
"""None: all that came before. Otherwise the last tokens, or those of the same chunk, and how many."""


class AttentionMasks:
    """Makes the masks of a model. Columns are positions, so a window is right whatever was dropped before."""

    def __init__(self, config: Any, dtype: torch.dtype) -> None:
        self._windows = attention_windows(config)
        self._dtype = dtype
        self._is_eager = config._attn_implementation == "eager"
        self._narrowest = min((window[1] for window in self._windows.values() if window is not None), default=None)

    def can_do_without(self, start: int, stop: int) -> bool:
        """Whether plain causal attention is right for rows that all have the new tokens ``start`` to ``stop``.

        The model is then given no mask, which is faster: its kernel need not read one, nor repeat the keys and values
        of grouped heads.
        """
        is_plain = start == 0 or stop == start + 1
        return is_plain and not self._is_eager and (self._narrowest is None or stop <= self._narrowest)

    def make(self, positions: torch.Tensor, width: int) -> Any:
        """What each new token may look at, [B, 1, Q, width]: one mask, or one for each kind of layer.

        ``positions`` is [B, Q]; ``width`` columns of the cache are read.
        """
        columns = torch.arange(width, device=positions.device)[None, None, None]
        queries = positions[:, None, :, None]
        masks = {kind: self._as_attention(_visible(columns, queries, window)) for kind, window in self._windows.items()}
        return masks.get(None, masks)

    def _as_attention(self, visible: torch.Tensor) -> torch.Tensor:
        if not self._is_eager:
            return visible
        return torch.zeros_like(visible, dtype=self._dtype).masked_fill_(~visible, torch.finfo(self._dtype).min)


def attention_windows(config: Any) -> dict[str | None, Window]:
    """The kinds of attention layers; key None where all are alike and the model takes a single mask.

    Raises ``UnsupportedModelError`` for a kind without keys and values.
    """
    sliding: int | None = getattr(config, "sliding_window", None)
    chunk: int | None = getattr(config, "attention_chunk_size", None)
    by_kind: dict[str, Window] = {
        "full_attention": None,
        "sliding_attention": None if sliding is None else ("sliding", sliding),
        "chunked_attention": None if chunk is None else ("chunked", chunk),
    }
    layer_types: Iterable[str] | None = getattr(config, "layer_types", None)
    if layer_types is not None:
        unknown = sorted(set(layer_types) - set(by_kind))
        if unknown:
            raise UnsupportedModelError(f"layers of type {unknown} keep a state that cannot be rolled back")
        return {kind: by_kind[kind] for kind in set(layer_types)}
    return {None: by_kind["sliding_attention"] or by_kind["chunked_attention"]}


def _visible(columns: torch.Tensor, queries: torch.Tensor, window: Window) -> torch.Tensor:
    causal = columns <= queries
    if window is None:
        return causal
    kind, size = window
    return causal & (columns > queries - size if kind == "sliding" else columns // size == queries // size)
