"""A format with a vocabulary: its markers as symbols, and the mask rows of thinking."""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from constrain.bitmask import RowDoor
from constrain.errors import InvalidInputError, VocabularyError
from constrain.reasoning.formats import ReasoningFormat, format_of
from constrain.reasoning.markers import SPECIAL, MarkerMatcher, Symbols, canonical_tokens, symbols_of_text
from constrain.reasoning.markers import symbols_of_token as _symbols_of_token
from constrain.vocabulary import Vocabulary


class BoundFormat:
    """Shared by all requests with this format, and by threads. Mask rows [W] are made when first asked for, and kept.

    There are at most as many as the markers have symbols. Made by :func:`bind`.
    """

    def __init__(
        self,
        reasoning_format: ReasoningFormat,
        end_markers: tuple[str, ...],
        content_starts: tuple[str, ...],
        vocabulary: Vocabulary,
    ) -> None:
        _check_needs(reasoning_format, vocabulary)
        self.format = reasoning_format
        self.vocabulary = vocabulary
        starts_content = dict.fromkeys((*reasoning_format.content_starts, *content_starts))
        self.end_texts = tuple(dict.fromkeys((reasoning_format.end, *end_markers, *starts_content)))
        self.starts_content = tuple(text in starts_content for text in self.end_texts)
        """For each end marker, whether it belongs to content."""
        self.start = symbols_of_text(reasoning_format.start, vocabulary)
        self.skip = symbols_of_text(reasoning_format.skip, vocabulary)
        self.ends = tuple(symbols_of_text(text, vocabulary) for text in self.end_texts)
        self.closing = symbols_of_text(reasoning_format.closing or reasoning_format.end, vocabulary)
        self.after_end = reasoning_format.after_end.encode()
        markers = ((reasoning_format.start, self.start), (reasoning_format.skip, self.skip))
        for text, symbols in markers:
            _writable(text, symbols, vocabulary)
        self.end_ids = tuple(
            _writable(text, symbols, vocabulary) for text, symbols in zip(self.end_texts, self.ends, strict=True)
        )
        """The end markers in their canonical tokens."""
        self.closing_ids = self._closing_tokens()
        self.matcher = MarkerMatcher(self.ends)
        turns = [symbols_of_text(text, vocabulary) for text in reasoning_format.turns]
        self.prompt_matcher = MarkerMatcher([*self.ends, *turns, *([self.start] if self.start else [])])
        """Finds the end markers, then what begins a message, then the start marker."""
        self.first_start = len(self.ends) + len(turns)
        self.header_starts, self.header_ends = (
            frozenset(symbol for name in names for symbol in symbols_of_text(name, vocabulary))
            for names in reasoning_format.headers
        )
        named = {symbol - SPECIAL for text in (*reasoning_format.texts, *self.end_texts)
                 for symbol in symbols_of_text(text, vocabulary) if symbol >= SPECIAL}  # fmt: skip
        self.special_ids = frozenset(named)
        """The special tokens that belong to the format."""
        self.door = RowDoor(vocabulary.num_mask_words)
        self._inside_rows: dict[tuple[int, tuple[int, ...]], bytes] = {}
        self._rows: dict[tuple[str, Symbols], bytes] = {}

    def _closing_tokens(self) -> tuple[int, ...]:
        if not self.starts_content[0]:
            return _writable(self.format.closing or self.format.end, self.closing, self.vocabulary)
        # Content is whole tokens, so no token may hold the beginning of the marker and what stands before it.
        before = self.closing[: len(self.closing) - len(self.ends[0])]
        return (*_writable(self.format.closing, before, self.vocabulary), *self.end_ids[0])

    def symbols_of_token(self, token_id: int) -> Symbols:
        """What ``token_id`` writes."""
        return _symbols_of_token(token_id, self.vocabulary)

    @cached_property
    def is_thought(self) -> npt.NDArray[np.bool_]:  # [32 W]
        """Which ids may be thought: those that are text, and the format's own special tokens; no stop token."""
        allowed = np.zeros(32 * self.vocabulary.num_mask_words, dtype=np.bool_)
        allowed[[i for i, token in enumerate(self.vocabulary.token_bytes) if token]] = True
        allowed[list(self.special_ids)] = True
        allowed[list(self.vocabulary.stop_token_ids)] = False
        return allowed

    def inside_row(self, place: int, cuts: tuple[int, ...] = ()) -> bytes:
        """The mask while thinking, with the matcher at ``place``, and ``cuts`` as :meth:`cuts_behind` has them.

        No token holds the end of a marker and more, or the last of a marker that content begins with and the first of
        which stands inside another token.
        """
        row = self._inside_rows.get((place, cuts))
        if row is None:
            allowed = self.is_thought.copy()
            for token_id, symbols in self._may_cross:
                target, count = self.matcher.walk(place, symbols)
                if self.matcher.found[target] is not None and not self.is_boundary(target, count, symbols, cuts):
                    allowed[token_id] = False
            row = self._inside_rows[place, cuts] = _packed(allowed)
        return row

    def is_boundary(self, target: int, count: int, symbols: Symbols, cuts: tuple[int, ...]) -> bool:
        """Whether the marker that ends at place ``target``, behind ``count`` of the ``symbols`` of a token, is whole
        tokens where it must be."""
        found = self.matcher.found[target]
        assert found is not None
        if count < len(symbols):
            return False
        return not self.starts_content[found] or len(self.ends[found]) - count in (0, *cuts)

    def cuts_behind(self, cuts: tuple[int, ...], place: int, symbols: Symbols) -> tuple[int, ...]:
        """How many symbols ago the last tokens began, as far back as a marker may that content begins with; nothing
        where no marker is under way."""
        if not place or not self._longest_start:
            return ()
        behind = (cut + len(symbols) for cut in (*cuts, 0))
        return tuple(cut for cut in behind if cut < self._longest_start)

    @cached_property
    def _longest_start(self) -> int:
        return max((len(end) for end, is_content in zip(self.ends, self.starts_content, strict=True) if is_content),
                   default=0)  # fmt: skip

    @cached_property
    def _may_cross(self) -> Sequence[tuple[int, Symbols]]:
        """The tokens with a last byte of a marker before their own last, or with the last byte of one that content
        begins with."""
        tokens = self.vocabulary.token_bytes
        ids = set[int]()
        for end, is_content in zip(self.ends, self.starts_content, strict=True):
            if is_content and end[-1] >= SPECIAL and len(end) > 1:
                ids.add(end[-1] - SPECIAL)
            elif end[-1] < SPECIAL:
                ids.update(i for i, token in enumerate(tokens) if end[-1] in (token if is_content else token[:-1]))
        return [(i, self.symbols_of_token(i)) for i in sorted(ids)]

    def beginnings_row(self, rest: Symbols) -> bytes:
        """The mask of the tokens that write a beginning of ``rest``, or all of it."""
        return self._row("beginnings", rest)

    def beyond_row(self, rest: Symbols) -> bytes:
        """The mask of the tokens that write all of ``rest`` and more."""
        return self._row("beyond", rest)

    def astray_row(self, rest: Symbols) -> bytes:
        """The mask of the tokens that begin as ``rest`` begins, but do not write a beginning of it."""
        return self._row("astray", rest)

    def _row(self, kind: str, rest: Symbols) -> bytes:
        row = self._rows.get((kind, rest))
        if row is None:
            row = self._rows[kind, rest] = self._packed_ids(self._ids(kind, rest))
        return row

    def _ids(self, kind: str, rest: Symbols) -> Iterable[int]:
        if rest and rest[0] >= SPECIAL:
            return [rest[0] - SPECIAL] if kind == "beginnings" else []
        special_at = next((at for at, symbol in enumerate(rest) if symbol >= SPECIAL), len(rest))
        text = bytes(rest[:special_at])
        tokens = enumerate(self.vocabulary.token_bytes)
        if kind == "beginnings":
            return [i for i, token in tokens if token and text.startswith(token)]
        if kind == "beyond":
            is_all = special_at == len(rest)  # behind a special token a token ends
            return [i for i, token in tokens if is_all and len(token) > len(text) and token.startswith(text)]
        return [i for i, token in tokens if token[:1] == text[:1] and not text.startswith(token)]

    def _packed_ids(self, ids: Iterable[int]) -> bytes:
        allowed = np.zeros(32 * self.vocabulary.num_mask_words, dtype=np.bool_)
        allowed[list(ids)] = True
        return _packed(allowed)


def bind(
    parser: str | ReasoningFormat,
    end_markers: tuple[str, ...],
    vocabulary: Vocabulary,
    content_starts: tuple[str, ...] = (),
) -> BoundFormat:
    """The format called ``parser`` for ``vocabulary``, made once.

    Raises ``InvalidInputError`` for an unknown name, and ``VocabularyError`` for markers that it cannot write.
    """
    reasoning_format = format_of(parser, vocabulary)
    # On the vocabulary itself, since a bound format holds its vocabulary.
    known = vocabulary.__dict__.setdefault("_constrain_reasoning", {})
    key = (reasoning_format, end_markers, content_starts)
    bound: BoundFormat | None = known.get(key)
    if bound is None:
        bound = known[key] = BoundFormat(reasoning_format, end_markers, content_starts, vocabulary)
    return bound


def _check_needs(reasoning_format: ReasoningFormat, vocabulary: Vocabulary) -> None:
    missing = [name for name in reasoning_format.needs if name not in vocabulary.special_tokens]
    if missing:
        raise VocabularyError(
            f"the vocabulary has no special token {missing[0]!r}, so its model is of another family; build it from the "
            "model's tokenizer, or pass special_tokens={name: id}"
        )


def _writable(text: str, symbols: Symbols, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The tokens of a marker; ``VocabularyError`` unless the vocabulary can write it outside of its stop tokens."""
    try:
        token_ids = canonical_tokens(symbols, vocabulary)
    except VocabularyError as exc:
        raise VocabularyError(f"the vocabulary cannot write the marker {text!r}: {exc}") from exc
    if not set(token_ids).isdisjoint(vocabulary.stop_token_ids):
        raise InvalidInputError(f"the marker {text!r} holds a stop token, which would end the output")
    return token_ids


def _packed(allowed: npt.NDArray[np.bool_]) -> bytes:
    return np.packbits(allowed, bitorder="little").tobytes()
