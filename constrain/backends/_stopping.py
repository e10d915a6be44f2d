"""What every backend's grammar shares: our own count, the stop tokens, and the checks at the door.

A library adapter derives from :class:`StoppingGrammar` and implements the *text part* only: it never sees a stop token,
a special token, an id outside the vocabulary, or a call after termination.
"""

import codecs
import ctypes
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from constrain.backends._settled import settled_tokens
from constrain.bitmask import RowDoor
from constrain.errors import InvalidInputError, VocabularyError
from constrain.grammar import Grammar, RowState
from constrain.per_vocabulary import once_per_vocabulary
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class _Ids:
    """What the bookkeeping needs of a vocabulary, computed once."""

    size: int
    not_text: frozenset[int]
    stops: frozenset[int]
    num_bytes: int
    num_head: int
    stop_row: bytes
    zero_row: bytes
    zero_head: bytes
    door: RowDoor


class StoppingGrammar(Grammar):
    """A grammar whose text part is a library's.

    The text is what the constraint speaks of; every stop id of the vocabulary is legal exactly when the text may end.
    The library underneath is never told of stop tokens, so its own idea of termination plays no part. Special tokens
    are no text, but for ``named_token_ids``: those that the constraint names.

    To implement, all before termination and with ids of text only:

    - ``_accept_text(token_ids)``: advance over the longest legal prefix of a non-empty list, return its length;
    - ``_validate_text(token_ids)``: the same answer, and no change;
    - ``_rollback_text(num_tokens)``: undo that many (at least 1, at most those accepted);
    - ``_fill_row(bitmask, row, address)``: write all W words of the row, with the bits of the legal text tokens, and
      those of *all* stop ids if the text may end; nothing else. ``address`` is that of the row's first byte; the
      arguments have been checked, so a raw write of ``4 * W`` bytes is safe. Return the state of the row where that
      is known, and None to have it found out;
    - ``_may_end()``: whether the text accepted so far is complete;
    - ``_forced_bytes()``: the bytes that every continuation starts with; ``b""`` if none, or if the text may end;
    - ``_reset_text()``: back to the empty text;
    - ``_fork_text(twin)``: give ``twin``, a bare copy of this object's class, its own text state (every attribute that
      the subclass has added). The base has been copied already.
    """

    def __init__(self, vocabulary: Vocabulary, named_token_ids: frozenset[int] = frozenset()) -> None:
        self._vocabulary = vocabulary
        self._ids = _ids_of(vocabulary)
        self._not_text = self._ids.not_text - named_token_ids if named_token_ids else self._ids.not_text
        self._num_text = 0
        self._terminated = False

    @abstractmethod
    def _accept_text(self, token_ids: Sequence[int]) -> int: ...

    @abstractmethod
    def _validate_text(self, token_ids: Sequence[int]) -> int: ...

    @abstractmethod
    def _rollback_text(self, num_tokens: int) -> None: ...

    @abstractmethod
    def _fill_row(self, bitmask: torch.Tensor, row: int, address: int) -> RowState | None: ...

    @abstractmethod
    def _may_end(self) -> bool: ...

    @abstractmethod
    def _forced_bytes(self) -> bytes: ...

    @abstractmethod
    def _reset_text(self) -> None: ...

    @abstractmethod
    def _fork_text(self, twin: Self) -> None: ...

    @property
    def num_accepted(self) -> int:
        return self._num_text + self._terminated

    @property
    def is_terminated(self) -> bool:
        return self._terminated

    def accept(self, token_ids: Sequence[int]) -> int:
        if self._terminated:
            return 0
        ids = self._ids
        if len(token_ids) == 1 and 0 <= (token_id := token_ids[0]) < ids.size and token_id not in self._not_text:
            # One token of text: nearly every call, and the library underneath takes half a microsecond.
            count = self._accept_text(token_ids)
            self._num_text += count
            return count
        length = self._text_length(token_ids)
        count = self._accept_text(_prefix(token_ids, length)) if length else 0
        self._num_text += count
        if count == length < len(token_ids) and token_ids[length] in self._ids.stops and self._may_end():
            self._terminated = True
            count += 1
        return count

    def validate(self, token_ids: Sequence[int]) -> int:
        if self._terminated:
            return 0
        length = self._text_length(token_ids)
        text = _prefix(token_ids, length)
        count = self._validate_text(text) if length else 0
        if count == length < len(token_ids) and token_ids[length] in self._ids.stops and self._may_end_after(text):
            count += 1
        return count

    def rollback(self, num_tokens: int) -> None:
        if not 0 <= num_tokens <= self.num_accepted:
            raise InvalidInputError(f"cannot roll back {num_tokens} tokens: {self.num_accepted} are accepted")
        if num_tokens and self._terminated:
            self._terminated = False
            num_tokens -= 1
        if num_tokens:
            self._rollback_text(num_tokens)
            self._num_text -= num_tokens

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> RowState:
        ids = self._ids
        address = ids.door.row_address(bitmask, row)
        if self._terminated:
            ctypes.memmove(address, ids.stop_row, ids.num_bytes)
            return RowState.CONSTRAINED
        state = self._fill_row(bitmask, row, address)
        if state is not None:
            return state
        # Copying the row costs a quarter of a microsecond, tensor.any() five: half of a mask of xgrammar's. Mostly the
        # lowest ids, the single bytes, decide.
        if ctypes.string_at(address, ids.num_head) != ids.zero_head:
            return RowState.CONSTRAINED
        return RowState.DEAD_END if ctypes.string_at(address, ids.num_bytes) == ids.zero_row else RowState.CONSTRAINED

    def forced_tokens(self) -> list[int]:
        if self._terminated:
            return []
        forced = self._forced_bytes()
        if not forced:
            return []
        try:
            # A decoder of its own drops an incomplete last character, and raises where a token has split the first.
            text = codecs.getincrementaldecoder("utf-8")().decode(forced)
            proposal = self._vocabulary.encode(text)
        except (UnicodeDecodeError, VocabularyError):
            return []
        proposal = self._cut_to_text(proposal, forced)
        return settled_tokens(self, self._vocabulary, proposal[: self.validate(proposal)])

    def reset(self) -> None:
        self._reset_text()
        self._num_text = 0
        self._terminated = False

    def fork(self) -> Self:
        twin = type(self).__new__(type(self))
        twin._vocabulary, twin._ids, twin._not_text = self._vocabulary, self._ids, self._not_text
        twin._num_text, twin._terminated = self._num_text, self._terminated
        self._fork_text(twin)
        return twin

    def _text_length(self, token_ids: Sequence[int]) -> int:
        """The length of the longest prefix that is text: ids of the vocabulary, none of them special."""
        size, not_text = self._ids.size, self._not_text
        for length, token_id in enumerate(token_ids):
            if not 0 <= token_id < size or token_id in not_text:
                return length
        return len(token_ids)

    def _may_end_after(self, text: Sequence[int]) -> bool:
        if not text:
            return self._may_end()
        count = self._accept_text(text)
        assert count == len(text), (count, text)
        may_end = self._may_end()
        self._rollback_text(count)
        return may_end

    def _cut_to_text(self, proposal: list[int], forced: bytes) -> list[int]:
        """The longest prefix of ``proposal`` that writes a prefix of ``forced``, and nothing that is no text."""
        offset = 0
        for length, token_id in enumerate(proposal):
            token = self._vocabulary.token_bytes[token_id] if 0 <= token_id < self._ids.size else b""
            if not token or not forced.startswith(token, offset):
                return proposal[:length]
            offset += len(token)
        return proposal


def _prefix(token_ids: Sequence[int], length: int) -> Sequence[int]:
    return token_ids if length == len(token_ids) else token_ids[:length]


@once_per_vocabulary
def _ids_of(vocabulary: Vocabulary) -> _Ids:
    num_bytes = 4 * vocabulary.num_mask_words
    num_head = min(64, num_bytes)
    return _Ids(
        size=vocabulary.size,
        not_text=vocabulary.special_token_ids,
        stops=frozenset(vocabulary.stop_token_ids),
        num_bytes=num_bytes,
        num_head=num_head,
        stop_row=sum(1 << i for i in vocabulary.stop_token_ids).to_bytes(num_bytes, "little"),
        zero_row=bytes(num_bytes),
        zero_head=bytes(num_head),
        door=RowDoor(vocabulary.num_mask_words),
    )
