"""Finding calls in an output."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NoReturn

from constrain.errors import InvalidInputError, InvalidValueError
from constrain.tags import Marker, Special
from constrain.tools.formats import ToolFormat
from constrain.vocabulary import Vocabulary

_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


@dataclass(frozen=True, slots=True)
class Found:
    """The text before the calls, and the name and the JSON text of the arguments of each call."""

    content: str
    calls: tuple[tuple[str, str], ...]


class CallReader:
    """Reads the calls of some tools in one format.

    An output comes as text or as token ids. In text a special token is its name. In token ids it is told apart from a
    text that only looks like it: in here each special token that the format names is a lone surrogate, which no decoded
    text holds.
    """

    def __init__(self, tool_format: ToolFormat, names: Sequence[str]) -> None:
        self._format = tool_format
        self._names = names
        markers = [tool_format.trigger, tool_format.opening, tool_format.before_name, tool_format.after_name]
        markers += [tool_format.end, tool_format.separator or "", tool_format.closing]
        if tool_format.answer is not None:
            markers += [tool_format.answer.begin, tool_format.answer.end]
        named = {part.token for marker in markers for part in _parts(marker) if isinstance(part, Special)}
        self._stand_ins = {token: chr(0xD800 + n) for n, token in enumerate(sorted(named, key=str))}

    def read(self, output: str | Sequence[int], vocabulary: Vocabulary | None, *, is_complete: bool) -> Found:
        """What ``output`` holds.

        ``is_complete=False``: what is certain of an output that may grow. Otherwise raises
        :class:`~constrain.errors.InvalidValueError` for calls that do not follow the format.
        """
        if isinstance(output, str):
            return _Scan(self._format, self._names, output, {}, is_complete).found()
        if vocabulary is None:
            raise InvalidInputError("token ids say nothing without their vocabulary; pass vocabulary=")
        token_ids = _token_ids(output)
        if token_ids and token_ids[-1] in vocabulary.stop_token_ids:
            # Any stop token may end an output, also where the format has a certain one.
            token_ids, is_complete = token_ids[:-1], True
        stand_ins = {
            token: char
            for token, char in self._stand_ins.items()
            if isinstance(token, int) or token in vocabulary.special_tokens
        }
        text = _spelled(token_ids, vocabulary, stand_ins, is_complete=is_complete)
        return _Scan(self._format, self._names, text, stand_ins, is_complete).found()


def _token_ids(output: object) -> Sequence[int]:
    if isinstance(output, bytes) or not isinstance(output, Sequence):
        raise InvalidInputError(f"an output is a text or token ids, not {type(output).__name__}")
    for token_id in output:
        if type(token_id) is not int and (not isinstance(token_id, Integral) or isinstance(token_id, bool)):
            raise InvalidInputError(f"{token_id!r} in an output: want token ids, which are ints")
    return output


def _spelled(
    token_ids: Sequence[int], vocabulary: Vocabulary, stand_ins: Mapping[str | int, str], *, is_complete: bool
) -> str:
    """The text of ``token_ids``, with a character for each special token of ``stand_ins``."""
    by_id = {
        token if isinstance(token, int) else vocabulary.special_tokens[token]: char for token, char in stand_ins.items()
    }
    pieces, held = [], list[int]()
    for token_id in token_ids:
        if token_id in by_id:
            pieces += [vocabulary.decode(held).decode(errors="replace"), by_id[token_id]]
            held = []
        else:
            held.append(token_id)
    # An output that grows may end inside a character.
    pieces.append(vocabulary.decode(held).decode(errors="replace" if is_complete else "ignore"))
    return "".join(pieces)


def _parts(marker: Marker) -> list[str | Special]:
    return [marker] if isinstance(marker, str | Special) else list(marker)


class _CutShort(Exception):
    """The text ends where more is to come."""


class _Scan:
    def __init__(
        self,
        tool_format: ToolFormat,
        names: Sequence[str],
        text: str,
        stand_ins: Mapping[str | int, str],
        is_complete: bool,
    ) -> None:
        self.format, self.text, self.stand_ins, self.is_complete = tool_format, text, stand_ins, is_complete
        self.at = 0
        # The longest first: a name may begin another.
        begins = {name: self.spelled(tool_format.before_name, name, tool_format.after_name) for name in names}
        self.begins = sorted(begins.items(), key=lambda item: -len(item[1]))

    def spelled(self, *markers: Marker) -> str:
        parts = (part for marker in markers for part in _parts(marker))
        return "".join(
            part if isinstance(part, str) else self.stand_ins.get(part.token, str(part.token)) for part in parts
        )

    def found(self) -> Found:
        trigger, answer = self.spelled(self.format.trigger), self.format.answer
        if answer is not None:
            if self.text.startswith(self.spelled(answer.begin)):
                content, _, _ = self.text[len(self.spelled(answer.begin)) :].partition(self.spelled(answer.end))
                return Found(self.content(content, self.spelled(answer.end)), ())
            trigger = self.spelled(self.format.opening, self.format.before_name)  # other messages may come first
        self.at = self.text.find(trigger)
        if self.at < 0:
            return Found(self.content(self.text, trigger), ())
        content, calls = self.content(self.text[: self.at], ""), list[tuple[str, str]]()
        try:
            for call in self.calls():
                calls.append(call)
        except _CutShort:
            if self.is_complete:
                raise InvalidValueError(f"the output ends inside of a tool call: {self.text[-80:]!r}") from None
        return Found(content, tuple(calls))

    def content(self, text: str, marker: str) -> str:
        """``text`` as it is shown; while it grows, without an end that may begin ``marker``."""
        for length in range(0 if self.is_complete else min(len(marker) - 1, len(text)), 0, -1):
            if text.endswith(marker[:length]):
                text = text[:-length]
                break
        return text.translate({ord(char): str(token) for token, char in self.stand_ins.items()})

    def calls(self) -> Iterator[tuple[str, str]]:
        self.take(self.spelled(self.format.opening))
        while True:
            name = self.begin()
            arguments = self.json()
            self.end(self.format.end)
            yield name, arguments
            separator = None if self.format.separator is None else self.spelled(self.format.separator)
            if separator is None or not self.continues(separator):
                break
            self.at += len(separator)
        self.end(self.format.closing)
        if self.text[self.at :].strip():
            self.refuse("nothing follows the calls")

    def continues(self, separator: str) -> bool:
        """Whether another call stands here, behind ``separator``."""
        rest = self.text[self.at :]
        return any(rest.startswith(separator + begin) for _, begin in self.begins) or (
            bool(rest) and any((separator + begin).startswith(rest) for _, begin in self.begins)
        )

    def begin(self) -> str:
        for name, begin in self.begins:
            if self.text.startswith(begin, self.at):
                self.at += len(begin)
                return name
        if any(begin.startswith(self.text[self.at :]) for _, begin in self.begins):
            raise _CutShort
        self.refuse(f"want a call of {', '.join(sorted(name for name, _ in self.begins))}")

    def json(self) -> str:
        start = self.at
        try:
            _, self.at = _JSON.raw_decode(self.text, start)
        except json.JSONDecodeError as exc:
            if exc.pos >= len(self.text) or not self.is_complete:
                raise _CutShort from exc
            self.refuse("want the arguments as JSON")
        except RecursionError as exc:
            raise InvalidValueError("the arguments of a call nest too deep to be read") from exc
        return self.text[start : self.at]

    def take(self, wanted: str) -> None:
        if not self.text.startswith(wanted, self.at):
            if wanted.startswith(self.text[self.at :]):
                raise _CutShort
            self.refuse(f"want {wanted!r}")
        self.at += len(wanted)

    def end(self, marker: Marker) -> None:
        # A special token that ends an output is often a stop token, which a text does not show.
        parts = _parts(marker)
        is_shown = self.at < len(self.text) or not self.is_complete
        while parts and not is_shown and isinstance(parts[-1], Special):
            parts = parts[:-1]
        self.take(self.spelled(tuple(parts)))

    def refuse(self, wanted: str) -> NoReturn:
        raise InvalidValueError(f"the tool call does not follow the format: {wanted} at {self.text[self.at :][:60]!r}")
