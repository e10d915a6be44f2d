"""The tokens of a model, as bytes."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from constrain.errors import VocabularyError
from constrain.token_readers import TokenReader, as_ids, reader_of
from constrain.vocabulary_check import TEXTS, check_vocabulary


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
    special_tokens:
        The spelling of special tokens, ``{"<think>": 5}``; their ids are special. Who looks for a marker asks here.
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
        special_tokens: Mapping[str, int] | None = None,
        logits_width: int | None = None,
        encode: Callable[[str], list[int]] | None = None,
    ) -> None:
        if not isinstance(stop_token_ids, Iterable) or not isinstance(special_token_ids, Iterable):
            raise VocabularyError("stop_token_ids and special_token_ids are collections of ids, as in [2]")
        text = next((token for token in token_bytes if not isinstance(token, bytes | bytearray)), None)
        if text is not None:
            raise VocabularyError(f"tokens are bytes, not {text!r}; of a str, pass its encode()")
        named = dict(special_tokens or {})
        stops, specials = tuple(sorted(set(stop_token_ids))), frozenset({*special_token_ids, *named.values()})
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
        self.special_tokens: Mapping[str, int] = named
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
        """Read a tokenizer of ``transformers`` (fast or slow), ``tiktoken``, ``sentencepiece`` or ``mistral_common``.

        It must be byte-level BPE, or SentencePiece, best with byte fallback. ``model`` gives the width of the logits
        and the stop ids of its generation config; ``logits_width`` and ``stop_token_ids`` override them.
        ``special_token_ids`` adds ids that must never be text (a marker that the tokenizer takes for an ordinary
        token). Raises ``VocabularyError`` for a tokenizer of another kind.
        """
        reader = reader_of(tokenizer)
        token_bytes = reader.token_bytes()
        width = _logits_width(model) if logits_width is None else logits_width
        if width is not None and len(token_bytes) > width:
            raise VocabularyError(
                f"the tokenizer has {len(token_bytes)} tokens and the model only {width} logits: "
                "they do not belong together"
            )
        return cls(
            token_bytes,
            stop_token_ids=_stop_ids(reader, model) if stop_token_ids is None else stop_token_ids,
            special_token_ids=reader.special_token_ids().union(special_token_ids),
            special_tokens=reader.special_tokens(),
            logits_width=width,
            encode=reader.encode,
        )

    @classmethod
    def from_ranks(
        cls,
        ranks: Mapping[bytes, int],
        special_tokens: Mapping[str, int],
        *,
        stop_token_ids: Iterable[int],
        logits_width: int | None = None,
        encode: Callable[[str], list[int]] | None = None,
    ) -> "Vocabulary":
        """Take the parts of a tiktoken-style tokenizer: each token's bytes with its id, and the special tokens' ids.

        Ids that neither names are holes: no text. Raises ``VocabularyError`` where two tokens share an id.
        """
        taken = [*ranks.values(), *special_tokens.values()]
        if len(set(taken)) != len(taken) or min(taken, default=0) < 0:
            raise VocabularyError("the ranks and special tokens share ids, or have negative ones")
        token_bytes = [b""] * (max(taken, default=-1) + 1)
        for token, i in ranks.items():
            token_bytes[i] = token
        return cls(
            token_bytes,
            stop_token_ids=stop_token_ids,
            special_tokens=special_tokens,
            logits_width=logits_width,
            encode=encode,
        )

    def check(self, tokenizer: Any, texts: Sequence[str] | None = None) -> None:
        """Raise ``VocabularyError`` unless every token means what ``tokenizer`` says; takes seconds.

        The ids of each text (by default words, code and JSON of many scripts, emoji, control characters) must give its
        bytes, and each token of whole characters what the tokenizer decodes it to. The message names the token.
        """
        check_vocabulary(
            self.token_bytes, self.special_token_ids, reader_of(tokenizer), TEXTS if texts is None else texts
        )

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

    @cached_property
    def written_bytes(self) -> frozenset[int]:
        """Every byte that some token writes."""
        return frozenset(b"".join(self.token_bytes))

    def encode(self, text: str) -> list[int]:
        """The canonical tokens of ``text`` inside a text: ``decode`` gives back its bytes exactly.

        The tokenizer's own where there is one and it keeps the text as it is, otherwise the greedy longest match, which
        raises ``VocabularyError`` at a byte that no token starts with.
        """
        wanted = text.encode()
        if self._encode is not None:
            ids = self._encode(text)
            if self.decode(ids) == wanted:
                return ids
            ids = self._behind_a_line_end(text)
            if self.decode(ids) == wanted:
                return ids
        return self._greedy(wanted)

    def _behind_a_line_end(self, text: str) -> list[int]:
        """The tokens of ``text`` after a newline: SentencePiece puts a space before the first word of all only."""
        assert self._encode is not None
        ids = self._encode("\n" + text)
        end = next((n for n, i in enumerate(ids) if b"\n" in self.decode([i])), -1)
        return ids[end + 1 :]

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


def _stop_ids(reader: TokenReader, model: Any) -> set[int]:
    """All stop ids that the tokenizer, the model's config and its generation config name."""
    found = reader.stop_token_ids()
    for holder in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        found |= as_ids(getattr(holder, "eos_token_id", None))
    return found


def _logits_width(model: Any) -> int | None:
    if model is None:
        return None
    head = model.get_output_embeddings()
    if head is not None and getattr(head, "weight", None) is not None:
        return int(head.weight.shape[0])
    return int(model.config.get_text_config(decoder=True).vocab_size)
