"""Thinking, then content, as one grammar."""

import ctypes
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from constrain.errors import InvalidInputError, VocabularyError
from constrain.grammar import Grammar, RowState
from constrain.reasoning.markers import canonical_tokens
from constrain.reasoning.thinking import Phase, Thinking, Track


class _State(NamedTuple):
    track: Track
    direct: int  # tokens that the grammar of content without thinking has accepted; -1: this is not such content
    content: int = 0  # tokens that the grammar of content behind thinking has accepted, a marker that is its own first


class ReasoningGrammar(Grammar):
    """The state of an output that may think before its content.

    While thinking, text and the format's own special tokens are legal, but no token that holds the end of a marker and
    more: the boundary is a token boundary. Where thinking is optional, the legal tokens are those that go on with a
    start marker and those that go on with content, until one of both is impossible; a complete start marker decides for
    thinking. Every other special token, padding among them, and the stop tokens are illegal until content.

    A list of immutable states, one for each token up to content, makes rollback exact wherever a window ends; content
    is counted by its own grammar.
    """

    def __init__(self, thinking: Thinking, track: Track, start_content: Callable[[], Grammar]) -> None:
        self._thinking = thinking
        self._start_content = start_content
        self._direct: Grammar | None = None
        self._behind: dict[int, Grammar] = {}  # by the number of the marker that it begins with, -1 for none
        may_be_direct = track.phase is Phase.START and thinking.may_begin_with_content
        self._states = [_State(track, 0 if may_be_direct else -1)]
        self._active: Grammar | None = None  # the content's grammar, once it has begun
        self._settle()

    @property
    def num_accepted(self) -> int:
        return len(self._states) - 1 + self._num_content()

    @property
    def is_terminated(self) -> bool:
        return self._active is not None and self._active.is_terminated

    @property
    def num_before_content(self) -> int | None:
        """How many tokens of the output come before what the content's grammar decides, the marker and white space
        behind it included; None while thinking is not over."""
        if self._active is None:
            return None
        return self.num_accepted - self._active.num_accepted + self._num_kept()

    @property
    def num_settled(self) -> int:
        """Up to the end of thinking, once it has begun; a start marker that is under way may be taken back."""
        last = self._states[-1]
        if last.track.phase is Phase.START or last.direct >= 0:
            return 0
        if last.track.phase < Phase.BEHIND:
            return self.num_accepted
        count = len(self._states) - 1
        while count and self._states[count - 1].track.phase >= Phase.BEHIND:
            count -= 1
        return count

    def value_starts(self) -> list[int]:
        """Those of the content: thinking holds no value."""
        if self._active is None:
            return []
        before, kept = self.num_accepted - self._active.num_accepted, self._num_kept()
        return [before + max(each, kept) for each in self._active.value_starts()]

    def accept(self, token_ids: Sequence[int]) -> int:
        for count, token_id in enumerate(token_ids):
            if self._active is not None:
                return count + self._active.accept(token_ids[count:] if count else token_ids)
            state = self._next(token_id)
            if state is None:
                return count
            self._states.append(state)
            self._settle()
        return len(token_ids)

    def validate(self, token_ids: Sequence[int]) -> int:
        if self._active is not None:
            return self._active.validate(token_ids)
        count = self.accept(token_ids)
        self.rollback(count)
        return count

    def rollback(self, num_tokens: int) -> None:
        if not 0 <= num_tokens <= self.num_accepted:
            raise InvalidInputError(f"cannot roll back {num_tokens} tokens: {self.num_accepted} are accepted")
        if self._active is not None:
            num_content = min(num_tokens, self._num_content())
            if num_content:
                self._active.rollback(num_content)
            num_tokens -= num_content
        if num_tokens:
            del self._states[-num_tokens:]
            self._settle()

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> RowState:
        if self._active is not None:
            return self._active.fill_bitmask(bitmask, row)
        state, bound = self._states[-1], self._thinking.bound
        address = bound.door.row_address(bitmask, row)
        match state.track.phase:
            case Phase.INSIDE:
                words = bound.inside_row(state.track.place, state.track.cuts)
                ctypes.memmove(address, words, len(words))
                return RowState.CONSTRAINED
            case Phase.CLOSING:
                ctypes.memset(address, 0, 4 * bound.vocabulary.num_mask_words)
                token_id = self._thinking.closing_ids[state.track.place]
                ctypes.memset(address + token_id // 8, 1 << token_id % 8, 1)
                return RowState.CONSTRAINED
            case Phase.BEHIND:
                rest = tuple(bound.after_end[state.track.place :])
                known = self._grammar_behind(-1).fill_bitmask(bitmask, row)
                return _combined(bitmask, row, known, [bound.beginnings_row(rest)], [bound.astray_row(rest)])
            case _:
                return self._fill_start(bitmask, row, address, state)

    def forced_tokens(self) -> list[int]:
        if self._active is not None:
            return self._active.forced_tokens()
        state = self._states[-1]
        if state.track.phase is Phase.CLOSING:
            return list(self._thinking.closing_ids[state.track.place :])
        rests = self._thinking.rest_of_start(state.track)
        if state.track.phase is not Phase.START or state.direct >= 0 or len(rests) != 1:
            return []
        try:
            proposal = list(canonical_tokens(rests[0], self._thinking.bound.vocabulary))
        except (UnicodeDecodeError, VocabularyError):
            return []
        return proposal[: self.validate(proposal)]

    def reset(self) -> None:
        self.rollback(self.num_accepted)

    def fork(self) -> "ReasoningGrammar":
        twin = ReasoningGrammar.__new__(ReasoningGrammar)
        twin._thinking, twin._start_content = self._thinking, self._start_content
        twin._direct = self._direct and self._direct.fork()
        twin._behind = {number: grammar.fork() for number, grammar in self._behind.items()}
        twin._states = self._states.copy()
        twin._active = None
        if self._active is not None:
            is_direct = self._active is self._direct
            twin._active = twin._direct if is_direct else twin._behind[twin._begun_by(twin._states[-1].track)]
        return twin

    def _next(self, token_id: int) -> _State | None:
        """The state behind ``token_id``, which a grammar of content has then accepted where it is content's, too."""
        state = self._states[-1]
        track = self._thinking.advance(state.track, token_id)
        if track is None:
            return None
        if state.track.phase is Phase.START:
            if track.phase is not Phase.START and not _is_content(track):
                return _State(track, -1)
            is_direct = state.direct >= 0 and self._grammar_direct().accept([token_id]) == 1
            if _is_content(track) and not is_direct:
                return None
            return _State(track, state.direct + 1 if is_direct else -1)
        if _is_content(track):
            return _State(track, -1, 1) if self._grammar_behind(-1).accept([token_id]) == 1 else None
        return _State(track, -1, self._thinking.num_kept(track))

    def _settle(self) -> None:
        """Bring both grammars of content to where the last state says, and see whether content has begun."""
        state, begun_by = self._states[-1], self._begun_by(self._states[-1].track)
        if self._direct is not None and state.direct >= 0:
            _roll_back_to(self._direct, state.direct)
        for number, grammar in self._behind.items():
            kept = len(self._thinking.bound.end_ids[number]) if number >= 0 else 0
            _roll_back_to(grammar, state.content if number == begun_by else kept)
        self._active = None
        if state.track.phase is Phase.CONTENT:
            self._active = self._grammar_direct() if state.direct >= 0 else self._grammar_behind(begun_by)

    def _begun_by(self, track: Track) -> int:
        """The number of the end marker that content begins with; -1 where it begins with none."""
        return track.ended_by if self._thinking.num_kept(track) else -1

    def _num_kept(self) -> int:
        return self._thinking.num_kept(self._states[-1].track)

    def _num_content(self) -> int:
        """The tokens of content that have no state of their own."""
        if self._active is None:
            return 0
        state = self._states[-1]
        return self._active.num_accepted - (state.direct if state.direct >= 0 else state.content)

    def _grammar_direct(self) -> Grammar:
        if self._direct is None:
            self._direct = self._start_content()
        return self._direct

    def _grammar_behind(self, begun_by: int) -> Grammar:
        grammar = self._behind.get(begun_by)
        if grammar is None:
            grammar = self._behind[begun_by] = self._start_content()
            marker = self._thinking.bound.end_ids[begun_by] if begun_by >= 0 else ()
            num_accepted = grammar.accept(marker)
            assert num_accepted == len(marker), (num_accepted, marker)
        return grammar

    def _fill_start(self, bitmask: torch.Tensor, row: int, address: int, state: _State) -> RowState:
        bound = self._thinking.bound
        rests = self._thinking.rest_of_start(state.track)
        on = [bound.beginnings_row(rest) for rest in rests]
        if state.direct >= 0:
            known = self._grammar_direct().fill_bitmask(bitmask, row)
            return _combined(bitmask, row, known, on, [bound.beyond_row(rest) for rest in rests])
        ctypes.memset(address, 0, 4 * bound.vocabulary.num_mask_words)
        return _combined(bitmask, row, RowState.DEAD_END, on, [])


def _roll_back_to(grammar: Grammar, num_accepted: int) -> None:
    if num_accepted < grammar.num_accepted:
        grammar.rollback(grammar.num_accepted - num_accepted)


def _is_content(track: Track) -> bool:
    """Whether the last token is content's first."""
    return track.phase is Phase.CONTENT and track.place == 1


def _combined(
    bitmask: torch.Tensor, row: int, known: RowState, allowed: list[bytes], forbidden: list[bytes]
) -> RowState:
    """Forbid and allow more in a row that says ``known``, and what it says then."""
    words = bitmask[row].numpy()
    is_less = False
    for each in forbidden:
        mask = np.frombuffer(each, dtype=np.int32)
        is_less = is_less or bool(mask.any())
        words &= ~mask
    for each in allowed:
        words |= np.frombuffer(each, dtype=np.int32)
    if known is RowState.FREE and not is_less:
        return RowState.FREE
    return RowState.CONSTRAINED if words.any() else RowState.DEAD_END
