"""Where an output stands in its thinking: an automaton over tokens, without any grammar."""

from enum import IntEnum
from typing import NamedTuple

from constrain.errors import InvalidInputError, VocabularyError
from constrain.reasoning.bound import BoundFormat
from constrain.reasoning.markers import Symbols


class Phase(IntEnum):
    """The parts of an output, in their order."""

    START = 0
    """It may yet be that a start marker is being written."""
    INSIDE = 1
    """Thinking."""
    CLOSING = 2
    """The budget is spent: the closing sequence, token by token."""
    BEHIND = 3
    """The white space behind the end marker."""
    CONTENT = 4
    """Thinking is over, or there was none."""


class Track(NamedTuple):
    """A state. Immutable and small, so that going back is to remember one."""

    phase: Phase
    place: int = 0
    """START: symbols of the start marker written, -1 where it is none. INSIDE: place of the matcher. CLOSING: index of
    the next token. BEHIND: bytes of white space written. CONTENT: 1 where the last symbol or token is the content's."""
    skip: int = -1
    """START: symbols of the skip marker written, -1 where it is none."""
    num_thought: int = 0
    """INSIDE, CLOSING: tokens thought, the beginning of an end marker among them."""
    under_way: int = 0
    """INSIDE: how many of the last tokens are a beginning of the closing marker."""
    ended_by: int = -1
    """BEHIND, CONTENT: the number of the end marker; -1 where there was no thinking."""
    cuts: tuple[int, ...] = ()
    """INSIDE: where tokens began, as :meth:`BoundFormat.cuts_behind` says."""


class Thinking:
    """The rules of one request: a format, whether thinking is required, and its budget.

    **Budget.** It counts the output's tokens behind the start marker, up to the closing sequence. At the last of them
    the closing sequence (``phrase_ids``, then the closing marker's own tokens) begins, and is written to its end. Where
    the model is in the midst of the closing marker at that moment, by the marker's own tokens, it finishes that one
    instead: no marker is begun twice. So thinking takes at most budget + len(closing sequence) tokens.
    """

    def __init__(
        self, bound: BoundFormat, *, required: bool = False, budget: int | None = None, phrase_ids: tuple[int, ...] = ()
    ) -> None:
        self.bound = bound
        self.budget = budget
        self.closing_ids = (*phrase_ids, *bound.closing_ids)
        self.num_phrase = len(phrase_ids)
        self.may_begin_with_content = not required and not bound.skip
        """Whether an output may be content from its first token."""
        self._first = Track(Phase.START, 0, 0 if bound.skip and not required else -1)
        self._fall = _borders(bound.closing_ids)

    def begin(self, prompt_track: Track) -> Track:
        """The state before the first token of an output, behind a prompt that leaves ``prompt_track``."""
        if prompt_track.phase is Phase.START:
            return self._inside(0, 0, 0) if self.bound.format.implicit_start else self._first
        return self._inside(prompt_track.place, 0, 0) if prompt_track.phase is Phase.INSIDE else prompt_track

    def advance(self, track: Track, token_id: int) -> Track | None:
        """The state behind ``token_id``; None where it is illegal, as any token is that holds a boundary inside.

        Not for content. Where the token is content's first, the answer is CONTENT with ``place`` 1, and whoever knows
        the content's grammar decides.
        """
        if not 0 <= token_id < self.bound.vocabulary.size:
            return None
        if track.phase is Phase.CLOSING:
            return self._closed_by_one(track) if token_id == self.closing_ids[track.place] else None
        symbols = self.bound.symbols_of_token(token_id)
        if track.phase is Phase.INSIDE:
            if not self.bound.is_thought[token_id]:
                return None
            place, count = self.bound.matcher.walk(track.place, symbols)
            found = self.bound.matcher.found[place]
            if found is None:
                cuts = self.bound.cuts_behind(track.cuts, place, symbols)
                return self.count_token(track._replace(place=place, cuts=cuts), token_id)
            return self.behind(found) if self.bound.is_boundary(place, count, symbols, track.cuts) else None
        last = len(symbols) - 1
        for at, symbol in enumerate(symbols):
            new = self.step(track, symbol)
            if new.phase is not track.phase and at < last:
                # Between START and CONTENT there is no boundary: all that was written is content.
                is_content = new.phase is Phase.CONTENT and new.place and (track.phase is Phase.START or not at)
                return new if is_content else None
            if at and track.phase is Phase.BEHIND and new.place and new.phase is Phase.CONTENT:
                return None
            track = new
        return track

    def step(self, track: Track, symbol: int) -> Track:
        """The state behind one symbol of a token, wherever the boundaries lie. Not for CLOSING."""
        bound = self.bound
        match track.phase:
            case Phase.START:
                start, skip = _on(bound.start, track.place, symbol), _on(bound.skip, track.skip, symbol)
                if start == len(bound.start):
                    return self._inside(0, 0, 0)
                if skip == len(bound.skip):
                    return self.behind(-1)
                return track._replace(place=start, skip=skip) if max(start, skip) > 0 else Track(Phase.CONTENT, 1)
            case Phase.INSIDE:
                place = bound.matcher.step(track.place, symbol)
                found = bound.matcher.found[place]
                return track._replace(place=place) if found is None else self.behind(found)
            case Phase.BEHIND:
                if symbol != bound.after_end[track.place]:
                    return Track(Phase.CONTENT, 1, ended_by=track.ended_by)
                return self.behind(track.ended_by, track.place + 1)
            case _:
                return track

    def count_token(self, track: Track, token_id: int) -> Track:
        """``track``, INSIDE before and behind ``token_id``, with that token counted."""
        if self.budget is None:
            return track._replace(num_thought=track.num_thought + 1)
        under_way = self._under_way(track.under_way, token_id)
        return self._inside(track.place, track.num_thought + 1, under_way, track.cuts)

    def rest_of_start(self, track: Track) -> list[Symbols]:
        """What may come next in START: the rest of the start marker, that of the skip marker."""
        rests = ((self.bound.start, track.place), (self.bound.skip, track.skip))
        return [marker[place:] for marker, place in rests if place >= 0]

    def num_kept(self, track: Track) -> int:
        """How many tokens content has behind ``track`` that the end marker wrote, in its canonical tokens."""
        if track.phase is Phase.CONTENT and track.ended_by >= 0 and self.bound.starts_content[track.ended_by]:
            return len(self.bound.end_ids[track.ended_by])
        return 0

    def _inside(self, place: int, count: int, under_way: int, cuts: tuple[int, ...] = ()) -> Track:
        if self.budget is not None and count >= self.budget:
            return Track(Phase.CLOSING, self.num_phrase + under_way if under_way else 0, num_thought=count)
        return Track(Phase.INSIDE, place, num_thought=count, under_way=under_way, cuts=cuts)

    def _closed_by_one(self, track: Track) -> Track:
        place = track.place + 1
        return self.behind(0) if place == len(self.closing_ids) else track._replace(place=place)

    def behind(self, ended_by: int, num_written: int = 0) -> Track:
        """The state after the end marker of that number, and ``num_written`` bytes of the white space behind it."""
        # Where there was no thinking, or its end is the content's beginning, nothing separates it from the content.
        is_content = ended_by < 0 or self.bound.starts_content[ended_by]
        if is_content or num_written == len(self.bound.after_end):
            return Track(Phase.CONTENT, 0, ended_by=ended_by)
        return Track(Phase.BEHIND, num_written, ended_by=ended_by)

    def _under_way(self, under_way: int, token_id: int) -> int:
        marker = self.bound.closing_ids
        while under_way and (under_way == len(marker) or marker[under_way] != token_id):
            under_way = self._fall[under_way - 1]
        return under_way + 1 if marker[under_way] == token_id else 0


def phrase_tokens(bound: BoundFormat, phrase: str) -> tuple[int, ...]:
    """The tokens of the phrase before a forced closing marker.

    Raises ``InvalidInputError`` for a phrase that would end thinking by itself, and ``VocabularyError`` for one that
    the vocabulary cannot write.
    """
    symbols = (*phrase.encode(), *bound.closing)
    place, count = bound.matcher.walk(0, symbols)
    if count < len(symbols) and (found := bound.matcher.found[place]) is not None:
        raise InvalidInputError(
            f"the closing sequence, budget_phrase={phrase!r} first, writes {bound.end_texts[found]!r} before its end"
        )
    try:
        return tuple(bound.vocabulary.encode(phrase)) if phrase else ()
    except VocabularyError as exc:
        raise VocabularyError(f"budget_phrase={phrase!r}: {exc}") from exc


def _on(marker: Symbols, place: int, symbol: int) -> int:
    return place + 1 if 0 <= place < len(marker) and marker[place] == symbol else -1


def _borders(tokens: tuple[int, ...]) -> list[int]:
    """For each beginning of ``tokens``, the length of its longest other end that is a beginning, too."""
    borders = [0] * len(tokens)
    for at in range(1, len(tokens)):
        length = borders[at - 1]
        while length and tokens[at] != tokens[length]:
            length = borders[length - 1]
        borders[at] = length + (tokens[at] == tokens[length])
    return borders
