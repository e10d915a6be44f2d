"""From tokens to the events of a stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from constrain.grammar_spec import GrammarSpec
from constrain.output_reader import OutputReader
from constrain.reasoning.compiled import CompiledReasoning, compile_reasoning
from constrain.request import Request
from constrain.result import GenerationResult, NewTokens
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """What one or a few tokens added.

    text:
        New text, in whole characters; the texts of all events together, less what was taken back, are ``result.text``.
    token_ids:
        The tokens since the last event. A token that ends inside a character waits for the next event.
    reasoning:
        New thinking, where the request has ``reasoning``; all together they are ``result.reasoning``.
    retracted:
        Characters to take back from the end of the text so far, before ``text`` is added: a dead end led back behind
        them. 0 in nearly all events, and in all of a stream made with ``stable=True``.
    retracted_tokens:
        As many tokens to take back, before ``token_ids`` are added.
    partial:
        For JSON, the value so far as plain data, where this event changed it: an unfinished string or number counts
        as far as it goes. Else None. For ``list[User]`` and the like,
        ``TypeAdapter(list[User]).validate_python(event.partial, experimental_allow_partial=True)`` makes objects of it.
    result:
        How it ended: on the last event, and on no other.
    """

    text: str
    token_ids: tuple[int, ...]
    reasoning: str = ""
    retracted: int = 0
    retracted_tokens: int = 0
    partial: Any = None
    result: GenerationResult | None = None


class StreamPieces:
    """Makes events of what an engine hands out for one request."""

    def __init__(self, request: Request, vocabulary: Vocabulary) -> None:
        self._reader = _reader_of(request, vocabulary)
        self._text_reader = self._reader.text_reader()
        self._stops = request.params.stop
        self._ids: list[int] = []
        self._read = _Texts()  # what the tokens say
        self._shown = _Texts()  # what events have said
        self._num_shown_ids = 0
        self._num_valid_ids = 0  # of those shown, how many still stand
        self._makes_json = isinstance(request.constraint, GrammarSpec) and request.constraint.kind in (
            "json_schema",
            "json_object",
        )
        self._partial = self._new_partial()

    def event(self, new: NewTokens) -> StreamEvent | None:
        """The event of new tokens; None while they make no whole character."""
        if new.start < len(self._ids):
            self._go_back(new.start)
        self._feed(new.token_ids)
        return self._event(_Texts(self._without_stops(self._read.text), self._read.reasoning), None)

    def last_event(self, result: GenerationResult) -> StreamEvent:
        """The event that carries the result, and whatever text was not handed out yet."""
        common = _num_common(self._ids, result.token_ids)
        if common < len(self._ids):
            self._go_back(common)
        self._ids += result.token_ids[common:]
        event = self._event(_Texts(result.text, result.reasoning or ""), result)
        assert event is not None
        return event

    def _feed(self, token_ids: Sequence[int]) -> None:
        piece = self._text_reader.feed(token_ids)
        self._ids += token_ids
        self._read = _Texts(self._read.text + piece.text, self._read.reasoning + piece.reasoning)

    def _go_back(self, num_tokens: int) -> None:
        self._num_valid_ids = min(self._num_valid_ids, num_tokens)
        kept = self._ids[:num_tokens]
        self._text_reader, self._ids, self._read = self._reader.text_reader(), [], _Texts()
        self._feed(kept)

    def _event(self, now: "_Texts", result: GenerationResult | None) -> StreamEvent | None:
        before = self._shown
        kept = len(before.text) if now.text.startswith(before.text) else _num_common(before.text, now.text)
        retracted, text = len(before.text) - kept, now.text[kept:]
        # Thinking is never taken back by parts: no grammar holds it, so no dead end lies in it.
        reasoning = now.reasoning[len(before.reasoning) :]
        if not (text or reasoning or retracted) and result is None:
            return None
        self._shown = now
        event = StreamEvent(
            text=text,
            token_ids=tuple(self._ids[self._num_valid_ids :]),
            reasoning=reasoning,
            retracted=retracted,
            retracted_tokens=self._num_shown_ids - self._num_valid_ids,
            partial=self._partial_value(text, retracted, now.text),
            result=result,
        )
        self._num_shown_ids = self._num_valid_ids = len(self._ids)
        return event

    def _partial_value(self, text: str, retracted: int, whole: str) -> Any:
        if retracted:
            self._partial = self._new_partial()
            return None if self._partial is None else self._partial.feed(whole)
        return self._partial.feed(text) if self._partial is not None and text else None

    def _new_partial(self) -> Any:
        if not self._makes_json:
            return None
        from constrain.schema.partial_json import PartialJson

        return PartialJson()

    def _without_stops(self, text: str) -> str:
        """``text`` without an end that may be the beginning of a stop string."""
        held = 0
        for stop in self._stops:
            most = min(len(stop) - 1, len(text))
            held = max(held, next((size for size in range(most, 0, -1) if text.endswith(stop[:size])), 0))
        return text[: len(text) - held]


@dataclass(frozen=True, slots=True)
class _Texts:
    text: str = ""
    reasoning: str = ""


def _reader_of(request: Request, vocabulary: Vocabulary) -> OutputReader:
    """Knows of the constraint what a text needs: whether there is thinking. It may still be compiling."""
    if isinstance(request.constraint, CompiledReasoning):
        return OutputReader(vocabulary, request.constraint)
    if request.reasoning is None or request.reasoning.in_reasoning:
        return OutputReader(vocabulary)
    return OutputReader(vocabulary, compile_reasoning(None, vocabulary, request.reasoning, request.prompt_ids))


def _num_common(left: Sequence[object], right: Sequence[object]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
