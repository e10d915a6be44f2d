"""An output taken apart: thinking and content, at once or as it grows."""

import codecs
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from constrain.reasoning.markers import SPECIAL, Symbols, num_bytes
from constrain.reasoning.thinking import Phase, Thinking, Track


@dataclass(frozen=True, slots=True)
class Split:
    """An output, taken apart.

    reasoning:
        What was thought, without markers.
    text:
        The content.
    end_index:
        How many tokens of the output come before content: thinking, its markers and the white space that may follow
        them, if they are no part of content; 0 where there was no thinking, None where it is not over.
    ended_by:
        The marker that ended thinking; None where there was none, or it is not over.
    """

    reasoning: str
    text: str
    end_index: int | None
    ended_by: str | None = None


@dataclass(frozen=True, slots=True)
class SplitPiece:
    """What some tokens added, in whole characters."""

    reasoning: str
    text: str


class Splitter:
    """Takes an output apart token by token.

    Text that may yet turn out to be a marker is held back; the pieces of all calls, that of ``finish`` included, are
    the ``reasoning`` and the ``text`` of the whole. Also for outputs that no grammar held to their boundaries: a token
    that holds the end of a marker and more is cut inside.
    """

    def __init__(self, thinking: Thinking, track: Track) -> None:
        bound = thinking.bound
        self.end_index: int | None = 0 if track.phase >= Phase.BEHIND else None
        """As in :class:`Split`, so far."""
        self._thinking, self._bound, self._track = thinking, bound, track
        self._num_tokens = 0
        self._pending = bytearray()  # what may belong to a marker
        self._reasoning, self._text = bytearray(), bytearray()  # of the piece that is being made
        self._decoders = [codecs.getincrementaldecoder("utf-8")(errors="replace") for _ in range(2)]
        self._in_header = False
        starts = [end for end, is_content in zip(bound.ends, bound.starts_content, strict=True) if is_content]
        self._origins = deque[int](maxlen=max(map(len, starts), default=0))  # the tokens of the last symbols thought
        # A start marker that is written where it would be understood is no thought.
        is_implied = track.phase is Phase.INSIDE and bound.format.implicit_start
        self._lead = bytes(bound.start) if is_implied and all(each < SPECIAL for each in bound.start) else b""

    @property
    def ended_by(self) -> str | None:
        """As in :class:`Split`, so far."""
        number = self._track.ended_by
        return self._bound.end_texts[number] if number >= 0 else None

    def feed(self, token_ids: Iterable[int]) -> SplitPiece:
        """What the next tokens add."""
        for token_id in token_ids:
            if self._track.phase is Phase.CONTENT:
                self._text += self._bound.vocabulary.decode((token_id,))
            else:
                self._feed_one(token_id)
            self._num_tokens += 1
        return self._piece()

    def finish(self) -> SplitPiece:
        """The rest, where no more tokens come."""
        if self._track.phase is Phase.START:
            self._text += self._pending
            self.end_index = 0
        elif self._track.phase is Phase.INSIDE:
            self._lead = b""
            self._reasoning += self._pending
        self._pending.clear()
        return self._piece(final=True)

    def _piece(self, *, final: bool = False) -> SplitPiece:
        made = (bytes(self._reasoning), bytes(self._text))
        self._reasoning.clear()
        self._text.clear()
        reasoning, text = (decoder.decode(new, final) for decoder, new in zip(self._decoders, made, strict=True))
        return SplitPiece(reasoning, text)

    def _feed_one(self, token_id: int) -> None:
        before = self._track
        if before.phase is Phase.INSIDE and not self._in_header and self._feed_plain_thought(token_id):
            return
        if before.phase is Phase.CLOSING:
            self._feed_closing(token_id)
        else:
            for symbol in self._bound.symbols_of_token(token_id):
                self._feed_symbol(symbol)
            if before.phase is self._track.phase is Phase.INSIDE:
                self._track = self._thinking.count_token(self._track, token_id)
            if self._track.phase is Phase.CLOSING:
                self._start_closing()
        if self.end_index is None and self._track.phase >= Phase.BEHIND:
            is_bare = self._track.ended_by < 0 and self._track.place
            self.end_index = 0 if is_bare else self._num_tokens + 1
            if self._thinking.num_kept(self._track):
                self._begin_content(self._bound.ends[self._track.ended_by])
        elif before.phase is Phase.BEHIND and not (self._track.phase is Phase.CONTENT and self._track.place):
            self.end_index = self._num_tokens + 1  # nothing but white space

    def _feed_plain_thought(self, token_id: int) -> bool:
        """Nearly every token of thinking: text without the end of a marker, within the budget. False for others."""
        token = self._bound.vocabulary.decode((token_id,))
        place, _ = self._bound.matcher.walk(self._track.place, tuple(token))
        if not token or self._bound.matcher.found[place] is not None:
            return False
        self._track = self._thinking.count_token(self._track._replace(place=place), token_id)
        self._origins.extend([self._num_tokens] * len(token))
        self._pending += token
        if self._track.phase is Phase.CLOSING:
            self._start_closing()
        else:
            self._release(min(self._bound.matcher.held[place], len(self._pending)))
        return True

    def _feed_closing(self, token_id: int) -> None:
        new = self._thinking.advance(self._track, token_id)
        if new is None:  # an output that kept no budget: thinking goes on without one
            self._thinking, self._track = Thinking(self._bound), Track(Phase.INSIDE)
            self._feed_one(token_id)
            return
        if self._track.place < self._thinking.num_phrase:
            self._pending += self._bound.vocabulary.decode((token_id,))
            self._release(0)
        self._origins.extend([self._num_tokens] * len(self._bound.symbols_of_token(token_id)))
        self._track = new

    def _begin_content(self, marker: Symbols) -> None:
        """Content begins with the marker that has just ended thinking. The text of the token behind it comes later."""
        self.end_index = self._origins[-len(marker)] if len(self._origins) >= len(marker) else 0
        self._text[:0] = bytes(symbol for symbol in marker if symbol < SPECIAL)

    def _start_closing(self) -> None:
        """What is held back is thought, but for a closing marker under way."""
        self._lead = b""
        num_written = self._track.place - self._thinking.num_phrase
        held = self._bound.vocabulary.decode(self._bound.closing_ids[: max(num_written, 0)])
        self._release(0 if self._in_header else min(len(held), len(self._pending)))
        self._pending.clear()

    def _feed_symbol(self, symbol: int) -> None:
        old, new = self._track, self._thinking.step(self._track, symbol)
        self._track = new
        if old.phase is Phase.INSIDE:
            self._feed_thought(symbol, new)
        elif old.phase is Phase.START:
            self._pending += bytes([symbol]) if symbol < SPECIAL else b""
            if new.phase is Phase.CONTENT and new.place:
                self._text += self._pending
            if new.phase is not Phase.START:
                self._pending.clear()
        elif symbol < SPECIAL and (old.phase is Phase.CONTENT or (new.phase is Phase.CONTENT and new.place)):
            self._text.append(symbol)

    def _feed_thought(self, symbol: int, new: Track) -> None:
        bound = self._bound
        self._origins.append(self._num_tokens)
        if symbol in bound.header_starts:
            self._in_header = True
        elif symbol in bound.header_ends:
            self._in_header = False
            if new.phase is Phase.INSIDE:
                return
        elif symbol < SPECIAL and not self._in_header:
            self._pending.append(symbol)
        if new.phase is Phase.INSIDE:
            self._release(min(bound.matcher.held[new.place], len(self._pending)))
            return
        # The marker is complete; what of it is a header was not kept.
        marker = bound.ends[new.ended_by]
        kept = next((at for at, each in enumerate(marker) if each in bound.header_starts), len(marker))
        self._release(min(num_bytes(marker[:kept]), len(self._pending)))
        self._pending.clear()

    def _release(self, num_held: int) -> None:
        """Hand out what is pending but for its last bytes."""
        cut = len(self._pending) - num_held
        if self._lead:
            begun = bytes(self._pending)
            if self._lead.startswith(begun):  # not yet known, or exactly the start marker
                if begun == self._lead:
                    self._pending.clear()
                    self._lead = b""
                return
            skipped = len(self._lead) if begun.startswith(self._lead) else 0
            self._lead = b""
            del self._pending[:skipped]
            cut = max(cut - skipped, 0)
        self._reasoning += self._pending[:cut]
        del self._pending[:cut]
