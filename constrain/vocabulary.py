"""The tokens of a model, as bytes."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from constrain.errors import VocabularyError


class Vocabulary:
    """Token bytes, the width of the logits, and the ids that are no text. Immutable; share it freely.

    Parameters
    ----------
    token_bytes:
        The bytes that each id adds to the text; ``b""`` for special tokens and for ids that mean nothing.
    stop_token_ids:
        Every id that ends an output. At least one. Never text.
    special_token_ids:
        Every other id that is no text (padding, roles, ...). The stop ids are added.
    logits_width:
        The last axis of the model's logits, at least ``len(token_bytes)``; often wider, since models pad it.
    encode:
        The model's own tokenisation of a text, without special tokens; the greedy longest match without one.

    Raises :class:`~constrain.errors.VocabularyError` where these contradict each other.
    """

    def __init__(
        self,
        token_bytes: Sequence[bytes],
        *,
        stop_token_ids: Iterable[int],
        special_token_ids: Iterable[int] = (),
        logits_width: int | None = None,
        encode: Callable[[str], list[int]] | None = None,
    ) -> None:
        if not isinstance(stop_token_ids, Iterable) or not isinstance(special_token_ids, Iterable):
            raise VocabularyError("stop_token_ids and special_token_ids are collections of ids, as in [2]")
        text = next((token for token in token_bytes if not isinstance(token, bytes | bytearray)), None)
        if text is not None:
            raise VocabularyError(f"tokens are bytes, not {text!r}; of a str, pass its encode()")
        stops, specials = tuple(sorted(set(stop_token_ids))), frozenset(special_token_ids)
        size = len(token_bytes)
        width = size if logits_width is None else logits_width
        if not size:
            raise VocabularyError("the vocabulary is empty; pass the bytes of every token id")
        if not stops:
            raise VocabularyError("no stop token: an output could never end; pass stop_token_ids=[...]")
        wrong = sorted(i for i in specials.union(stops) if not 0 <= i < size)
        if wrong:
            raise VocabularyError(f"stop or special ids {wrong} lie outside the vocabulary of {size} tokens")
        if width < size:
            raise VocabularyError(
                f"the vocabulary has {size} tokens and the logits only {width}: it belongs to another model"
            )
        self.stop_token_ids = stops
        self.special_token_ids = specials.union(stops)
        self.token_bytes: tuple[bytes, ...] = tuple(
            b"" if i in self.special_token_ids else bytes(token) for i, token in enumerate(token_bytes)
        )
        self.logits_width = width
        self._encode = encode

    @classmethod
    def from_tokenizer(
        cls,
        tokenizer: Any,
        *,
        model: Any = None,
        logits_width: int | None = None,
        stop_token_ids: Iterable[int] | None = None,
        special_token_ids: Iterable[int] = (),
    ) -> "Vocabulary":
        """Read a ``transformers`` tokenizer, byte-level BPE or SentencePiece with byte fallback.

        ``model`` gives the width of the logits and the stop ids of its generation config; ``logits_width`` and
        ``stop_token_ids`` override them. ``special_token_ids`` adds ids that must never be text (a marker that the
        tokenizer takes for an ordinary token). Raises ``VocabularyError`` for a tokenizer of another kind.
        """
        stops = set(_stop_ids(tokenizer, model) if stop_token_ids is None else stop_token_ids)
        specials = {i for i in tokenizer.all_special_ids if i is not None}.union(special_token_ids)
        added = tokenizer.added_tokens_decoder
        specials.update(i for i, token in added.items() if token.special)
        pieces = _pieces(tokenizer)
        width = _logits_width(model) if logits_width is None else logits_width
        if width is not None and len(pieces) > width:
            raise VocabularyError(
                f"the tokenizer has {len(pieces)} tokens and the model only {width} logits: they do not belong together"
            )
        to_bytes = _piece_decoder(tokenizer)
        token_bytes = [
            b"" if piece is None or i in specials else added[i].content.encode() if i in added else to_bytes(piece)
            for i, piece in enumerate(pieces)
        ]

        def encode(text: str) -> list[int]:
            return list(tokenizer.encode(text, add_special_tokens=False))

        return cls(token_bytes, stop_token_ids=stops, special_token_ids=specials, logits_width=width, encode=encode)

    @property
    def size(self) -> int:
        """The number of token ids, V of the tokenizer; logits may be wider."""
        return len(self.token_bytes)

    @property
    def num_mask_words(self) -> int:
        """W: int32 words of a mask row, enough for the width of the logits."""
        return (self.logits_width + 31) // 32

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that a compiled grammar depends on: equal for equal vocabularies."""
        digest = hashlib.sha256(
            json.dumps([self.logits_width, self.stop_token_ids, sorted(self.special_token_ids)]).encode()
        )
        for token in self.token_bytes:
            digest.update(len(token).to_bytes(4, "little") + token)
        return digest.hexdigest()

    def encode(self, text: str) -> list[int]:
        """The canonical tokens of ``text``.

        The tokenizer's own where there is one, otherwise the greedy longest match, which raises ``VocabularyError``
        at a byte that no token starts with.
        """
        return self._encode(text) if self._encode is not None else self._greedy(text.encode())

    def decode(self, token_ids: Iterable[int]) -> bytes:
        """The bytes that ``token_ids`` add to a text; ids without text, padding ones included, add nothing."""
        size = len(self.token_bytes)
        return b"".join(self.token_bytes[i] for i in token_ids if 0 <= i < size)

    def _greedy(self, text: bytes) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            for length in range(min(self._longest, len(text) - at), 0, -1):
                token_id = self._by_bytes.get(text[at : at + length])
                if token_id is not None:
                    ids.append(token_id)
                    at += length
                    break
            else:
                raise VocabularyError(f"no token of the vocabulary writes byte {text[at]:#04x} at offset {at}")
        return ids

    @cached_property
    def _by_bytes(self) -> dict[bytes, int]:
        # Reversed, so that the lowest of several ids with the same bytes stays.
        return {token: i for i, token in reversed(list(enumerate(self.token_bytes))) if token}

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self.token_bytes))

    def __repr__(self) -> str:
        return f"Vocabulary(size={self.size}, logits_width={self.logits_width}, stop_token_ids={self.stop_token_ids})"


def _stop_ids(tokenizer: Any, model: Any) -> set[int]:
    """All stop ids that the tokenizer, the model's config and its generation config name."""
    found: set[int] = set()
    holders = [tokenizer, getattr(model, "generation_config", None), getattr(model, "config", None)]
    for holder in holders:
        ids = getattr(holder, "eos_token_id", None)
        found.update([ids] if isinstance(ids, int) else ids or ())
    return found


def _logits_width(model: Any) -> int | None:
    if model is None:
        return None
    head = model.get_output_embeddings()
    if head is not None and getattr(head, "weight", None) is not None:
        return int(head.weight.shape[0])
    return int(model.config.get_text_config(decoder=True).vocab_size)


def _pieces(tokenizer: Any) -> list[str | None]:
    """The tokenizer's spelling of each id; None where an id has no token."""
    by_piece: dict[str, int] = tokenizer.get_vocab()
    pieces: list[str | None] = [None] * (max(by_piece.values(), default=-1) + 1)
    for piece, i in by_piece.items():
        pieces[i] = piece
    return pieces


def _piece_decoder(tokenizer: Any) -> Callable[[str], bytes]:
    """The function from a token's spelling to its bytes, chosen by the decoder that the tokenizer declares."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    declared = json.loads(backend.to_str()) if backend is not None else {}
    kinds = _decoder_kinds(declared.get("decoder"))
    if "ByteLevel" in kinds:
        return _byte_level_bytes
    if kinds & {"Metaspace", "ByteFallback"} or "<0x0A>" in tokenizer.get_vocab():
        return _sentencepiece_bytes
    raise VocabularyError(
        f"{type(tokenizer).__name__} declares the decoder {sorted(kinds) or None}, which is neither byte-level BPE nor "
        "SentencePiece; build Vocabulary(token_bytes, ...) from the bytes of its tokens"
    )


def _decoder_kinds(decoder: Any) -> set[str]:
    if not isinstance(decoder, dict):
        return set()
    kinds = {str(decoder.get("type"))}
    for part in decoder.get("decoders", ()):
        kinds |= _decoder_kinds(part)
    return kinds


def _byte_level_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE gives to the 256 bytes (GPT-2's table)."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


_BYTE_LEVEL = _byte_level_alphabet()
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def _byte_level_bytes(piece: str) -> bytes:
    try:
        return bytes(_BYTE_LEVEL[char] for char in piece)
    except KeyError as exc:
        raise VocabularyError(f"token {piece!r} is not written in the byte-level alphabet") from exc


def _sentencepiece_bytes(piece: str) -> bytes:
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else piece.replace("▁", " ").encode()
