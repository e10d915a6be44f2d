"""What an output means, read from its whole text each time: slow, plain, and without states."""

from dataclasses import dataclass

from constrain import CompiledGrammar
from constrain.reasoning import CompiledFree, ReasoningFormat
from tests.reasoning.tiny import HOLE, SPECIALS, STOPS, vocabulary


@dataclass(frozen=True)
class Reading:
    """A legal output so far. ``content_at``: its first token of content, None while it thinks."""

    reasoning: str
    content_at: int | None


@dataclass(frozen=True)
class Reference:
    """The meaning of a format, for an output behind a prompt that leaves thinking open, or does not."""

    reasoning_format: ReasoningFormat
    compiled: CompiledGrammar | None
    required: bool = False
    is_open: bool = False
    end_markers: tuple[str, ...] = ()
    content_starts: tuple[str, ...] = ()

    def legal(self, prefix: list[int]) -> set[int]:
        """Every id that may follow ``prefix``."""
        return {i for i in range(vocabulary().logits_width) if self.read([*prefix, i]) is not None}

    def read(self, tokens: list[int]) -> Reading | None:
        """The reading of ``tokens``; None where they are illegal."""
        if any(not 0 <= i < vocabulary().size for i in tokens):
            return None
        units = [_units(i) for i in tokens]
        text, bounds = "".join(units), [len("".join(units[:n])) for n in range(len(units) + 1)]
        start, begin = _marker(self.reasoning_format.start), 0
        if not self.is_open:
            if not text.startswith(start):
                may_start = start.startswith(text)
                return Reading("", 0 if tokens else None) if may_start or self._is_bare(tokens) else None
            if len(start) not in bounds:
                return None
            begin = len(start)
        markers = [_marker(each) for each in (self.reasoning_format.end, *self.end_markers, *self.content_starts)]
        ends = [(text.find(each, begin) + len(each), each) for each in markers if each in text[begin:]]
        if not ends:
            return self._thinking(text[begin:], tokens[bounds.index(begin) :])
        end, marker = min(ends)
        if end not in bounds or not _is_thought(tokens[bounds.index(begin) : bounds.index(end)], self._named()):
            return None
        if marker in map(_marker, self.content_starts):
            content_at = end - len(marker)
            if content_at not in bounds or not self._is_content(tokens[bounds.index(content_at) :]):
                return None
            return Reading(text[begin:content_at], bounds.index(content_at))
        rest = text[end:]
        space = self.reasoning_format.after_end
        num_space = max(n for n in range(len(space) + 1) if rest.startswith(space[:n]))
        if end + num_space not in bounds:
            return None
        # Ids without text make no difference to the offsets, so the content begins at the first of equal bounds.
        content_at = bounds.index(end + num_space)
        if not self._is_content(tokens[content_at:]):
            return None
        return Reading(text[begin : end - len(marker)], content_at)

    def _thinking(self, text: str, tokens: list[int]) -> Reading | None:
        return Reading(text, None) if _is_thought(tokens, self._named()) else None

    def _is_bare(self, tokens: list[int]) -> bool:
        return not self.required and self._is_content(tokens)

    def _is_content(self, tokens: list[int]) -> bool:
        compiled = self.compiled or CompiledFree(vocabulary())
        return compiled.start().accept(tokens) == len(tokens)

    def _named(self) -> str:
        texts = (self.reasoning_format.start, self.reasoning_format.end, *self.end_markers, *self.content_starts)
        return "".join(map(_marker, texts))


def _units(token_id: int) -> str:
    """Bytes as characters; an id without text as one character of its own."""
    return vocabulary().token_bytes[token_id].decode() or chr(0xE000 + token_id)


def _marker(text: str) -> str:
    for name in SPECIALS:
        text = text.replace(name, chr(0xE000 + vocabulary().special_tokens[name]))
    return text


def _is_thought(tokens: list[int], named: str) -> bool:
    no_text = {*STOPS, HOLE, *vocabulary().special_tokens.values()}
    return all(i not in no_text or chr(0xE000 + i) in named for i in tokens)
