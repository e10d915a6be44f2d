"""Reading the tokenizers that models come with. Told apart by what they can do: none of their libraries is imported."""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from constrain.errors import VocabularyError

_AS_IS = {"clean_up_tokenization_spaces": False, "spaces_between_special_tokens": False}
"""What keeps a transformers tokenizer from prettifying what it decodes."""


class TokenReader(ABC):
    """One tokenizer's tokens as bytes, and its own encoding and decoding, which a vocabulary can be checked against."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    @abstractmethod
    def token_bytes(self) -> list[bytes]:
        """The bytes that each id adds to a text; ``b""`` for ids without a token. Special tokens may have any."""

    @abstractmethod
    def special_token_ids(self) -> set[int]:
        """Ids that are no text."""

    def special_tokens(self) -> dict[str, int]:
        """The ids of special tokens by their names, where the tokenizer has names for them."""
        return {}

    @abstractmethod
    def stop_token_ids(self) -> set[int]:
        """Ids that the tokenizer itself says end a text."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of ``text``, no special tokens added; it may normalise, or put a space in front."""

    @abstractmethod
    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ``token_ids`` as the tokenizer writes it."""


def reader_of(tokenizer: Any) -> TokenReader:
    """The reader for ``tokenizer``; ``VocabularyError`` for one of an unknown library."""
    tokenizer = _unwrapped(tokenizer)
    if hasattr(tokenizer, "added_tokens_decoder"):
        return TransformersReader(tokenizer)
    if hasattr(tokenizer, "decode_single_token_bytes"):
        return TiktokenReader(tokenizer)
    if hasattr(tokenizer, "id_to_byte_piece") and hasattr(tokenizer, "n_words"):
        return TekkenReader(tokenizer)
    if hasattr(tokenizer, "get_piece_size"):
        return SentencePieceReader(tokenizer)
    raise VocabularyError(
        f"cannot read the tokens of {type(tokenizer).__name__}: want a tokenizer of transformers, tiktoken, "
        "sentencepiece or mistral_common; or build Vocabulary(token_bytes, ...) from the bytes of its tokens"
    )


def _unwrapped(tokenizer: Any) -> Any:
    """The tokenizer inside the wrappers of mistral_common, its SentencePiece class included, and of transformers."""
    if hasattr(getattr(tokenizer, "tokenizer", None), "instruct_tokenizer"):
        tokenizer = tokenizer.tokenizer
    if hasattr(tokenizer, "instruct_tokenizer"):
        tokenizer = tokenizer.instruct_tokenizer.tokenizer
    return tokenizer._model if hasattr(getattr(tokenizer, "_model", None), "get_piece_size") else tokenizer


class TransformersReader(TokenReader):
    """A fast or slow tokenizer of ``transformers``: byte-level BPE, or SentencePiece."""

    def token_bytes(self) -> list[bytes]:
        by_piece: dict[str, int] = self._tokenizer.get_vocab()
        added, to_bytes = self._tokenizer.added_tokens_decoder, self._piece_decoder(by_piece)
        found = [b""] * (max([*by_piece.values(), *added], default=-1) + 1)
        for piece, i in by_piece.items():
            if i not in added:
                found[i] = to_bytes(piece)
        for i, token in added.items():
            found[i] = token.content.encode()
        return found

    def special_token_ids(self) -> set[int]:
        specials = {i for i in self._tokenizer.all_special_ids if i is not None}
        specials.update(i for i, token in self._tokenizer.added_tokens_decoder.items() if token.special)
        processor = getattr(self._tokenizer, "sp_model", None)
        if processor is not None:
            control = {processor.id_to_piece(i) for i in _control_ids(processor)}
            specials.update(i for piece, i in self._tokenizer.get_vocab().items() if piece in control)
        return specials

    def special_tokens(self) -> dict[str, int]:
        added = {token.content: i for i, token in self._tokenizer.added_tokens_decoder.items()}
        named = zip(self._tokenizer.all_special_tokens, self._tokenizer.all_special_ids, strict=True)
        return {**added, **{str(name): i for name, i in named if i is not None}}

    def stop_token_ids(self) -> set[int]:
        return as_ids(self._tokenizer.eos_token_id)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        processor = getattr(self._tokenizer, "sp_model", None)
        if processor is not None and max(token_ids, default=0) < processor.get_piece_size():
            # transformers 5.24's slow tokenizers would leave "<0x0A>" as it is spelled.
            return str(processor.decode(self._tokenizer.convert_ids_to_tokens(list(token_ids))))
        return str(self._tokenizer.decode(list(token_ids), **_AS_IS))

    def _piece_decoder(self, pieces: Mapping[str, int]) -> Callable[[str], bytes]:
        """The function from a token's spelling to its bytes, chosen by the decoder that the tokenizer declares."""
        decoder = getattr(getattr(self._tokenizer, "backend_tokenizer", None), "decoder", None)
        kinds = set() if decoder is None else set(_decoder_kinds(json.loads(decoder.__getstate__())))
        if "ByteLevel" in kinds or getattr(self._tokenizer, "byte_decoder", None) is not None:
            return byte_level_bytes
        is_sentencepiece = hasattr(self._tokenizer, "sp_model") or "<0x0A>" in pieces
        if is_sentencepiece or kinds & {"Metaspace", "ByteFallback"}:
            return sentencepiece_bytes
        raise VocabularyError(
            f"{type(self._tokenizer).__name__} declares the decoder {sorted(kinds) or None}, which is neither "
            "byte-level BPE nor SentencePiece; build Vocabulary(token_bytes, ...) from the bytes of its tokens"
        )


class TiktokenReader(TokenReader):
    """A ``tiktoken.Encoding``."""

    def token_bytes(self) -> list[bytes]:
        return [self._bytes_of(i) for i in range(self._tokenizer.n_vocab)]

    def special_token_ids(self) -> set[int]:
        return set(self.special_tokens().values())

    def special_tokens(self) -> dict[str, int]:
        return {token: self._tokenizer.encode_single_token(token) for token in self._tokenizer.special_tokens_set}

    def stop_token_ids(self) -> set[int]:
        try:
            return {self._tokenizer.eot_token}
        except KeyError:
            return set()

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode_ordinary(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids)))

    def _bytes_of(self, token_id: int) -> bytes:
        try:
            return bytes(self._tokenizer.decode_single_token_bytes(token_id))
        except KeyError:  # a hole
            return b""


class TekkenReader(TokenReader):
    """Mistral's ``Tekkenizer``: the special tokens come first, the ranks after them."""

    def token_bytes(self) -> list[bytes]:
        first = self._tokenizer.num_special_tokens
        return [b""] * first + [self._tokenizer.id_to_byte_piece(i) for i in range(first, self._tokenizer.n_words)]

    def special_token_ids(self) -> set[int]:
        return set(range(self._tokenizer.num_special_tokens))

    def special_tokens(self) -> dict[str, int]:
        return {self._tokenizer.id_to_piece(i): i for i in range(self._tokenizer.num_special_tokens)}

    def stop_token_ids(self) -> set[int]:
        return {self._tokenizer.eos_id}

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, bos=False, eos=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids)))


class SentencePieceReader(TokenReader):
    """A ``SentencePieceProcessor``."""

    def token_bytes(self) -> list[bytes]:
        return [sentencepiece_bytes(self._tokenizer.id_to_piece(i)) for i in range(self._tokenizer.get_piece_size())]

    def special_token_ids(self) -> set[int]:
        return _control_ids(self._tokenizer)

    def special_tokens(self) -> dict[str, int]:
        return {self._tokenizer.id_to_piece(i): i for i in _control_ids(self._tokenizer)}

    def stop_token_ids(self) -> set[int]:
        return {self._tokenizer.eos_id()} - {-1}

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text))

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(token_ids)))


def as_ids(ids: Any) -> set[int]:
    """What configs write as an id, a list of ids or None, as a set."""
    return {ids} if isinstance(ids, int) else set(ids or ())


def _control_ids(processor: Any) -> set[int]:
    size = processor.get_piece_size()
    return {i for i in range(size) if processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i)}


def _decoder_kinds(decoder: Any) -> Iterator[str]:
    if isinstance(decoder, dict):
        yield str(decoder.get("type"))
        for part in decoder.get("decoders", ()):
            yield from _decoder_kinds(part)


def _byte_level_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE gives to the 256 bytes (GPT-2's table)."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


BYTE_LEVEL = _byte_level_alphabet()
_BYTE_PIECE = re.compile(r"<0x([0-9A-F]{2})>")


def byte_level_bytes(piece: str) -> bytes:
    """The bytes that a piece of byte-level BPE stands for."""
    try:
        return bytes([BYTE_LEVEL[char] for char in piece])
    except KeyError as exc:
        raise VocabularyError(f"token {piece!r} is not written in the byte-level alphabet") from exc


def sentencepiece_bytes(piece: str) -> bytes:
    """The bytes of a SentencePiece piece: ``▁`` is a space, ``<0x0A>`` one byte."""
    match = _BYTE_PIECE.fullmatch(piece)
    return bytes([int(match[1], 16)]) if match else piece.replace("▁", " ").encode()
