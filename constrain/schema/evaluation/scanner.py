"""RFC 8259, byte by byte: what stands where, and nothing about what it means."""

import re
from abc import ABC, abstractmethod
from codecs import utf_8_decode
from enum import IntEnum
from typing import Any

from constrain.schema.evaluation.characters import ANY_CHARACTER, Ranges, escape_ranges, read_escape, utf8_ranges
from constrain.schema.evaluation.kinds import (
    ARRAY,
    FALSE,
    KIND_OF_BYTE,
    LITERAL_VALUES,
    NULL,
    NUMBERS,
    OBJECT,
    STRING,
    TRUE,
)
from constrain.schema.evaluation.values import MAX_NUMBER_BYTES, exponent_is_bounded

MAX_DEPTH = 200
"""How deep arrays and objects may nest in a text; a deeper one is refused."""


class Mode(IntEnum):
    """What the next byte may begin or go on with, blanks aside."""

    VALUE = 0
    ITEM_OR_END = 1
    NAME_OR_END = 2
    NAME = 3
    COLON = 4
    AFTER = 5
    DONE = 6
    IN_STRING = 7
    IN_NAME = 8
    IN_NUMBER = 9
    IN_LITERAL = 10


_VALUE, _ITEM_OR_END, _NAME_OR_END, _NAME, _COLON, _AFTER, _DONE = range(7)
_IN_STRING, _IN_NAME, _IN_NUMBER, _IN_LITERAL = range(7, 11)

_BLANKS = frozenset(b" \t\r\n")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER_BYTES = re.compile(rb"[0-9+\-.eE]*")
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_BEGUN = re.compile(rb"-?(?:(?:0|[1-9][0-9]*)(?:[eE](?:[+-]?[0-9]*)|\.(?:[0-9]+(?:[eE](?:[+-]?[0-9]*))?)?)?)?")
_LITERALS = {TRUE: b"rue", FALSE: b"alse", NULL: b"ull"}


def is_number(text: bytes) -> bool:
    """Whether ``text`` is a whole number."""
    return _NUMBER.fullmatch(text) is not None


class Scanner(ABC):
    """Splits a growing text; the methods below are told what it holds. False from any of them ends the text.

    ``partial`` holds the bytes of what is not whole yet: a character of UTF-8, an escape, a number; of a literal it is
    the rest that must follow. ``escapes``: the characters that may be written with a backslash.
    """

    def __init__(self, escapes: Ranges = ANY_CHARACTER) -> None:
        self.escapes = escapes
        self.mode: int = _VALUE
        self.partial = b""
        self.offset = 0
        self.literal: Any = None

    def scan(self, data: bytes) -> bool:
        """Go on over ``data``. After False the state is good for nothing but being put back."""
        at, end = 0, len(data)
        base = self.offset
        while at < end:
            mode = self.mode
            if mode in (_IN_STRING, _IN_NAME):
                at = self._scan_string(data, at)
            elif mode == _IN_NUMBER:
                at = self._scan_number(data, at)
            elif mode == _IN_LITERAL:
                at = self._scan_literal(data, at)
            else:
                byte = data[at]
                self.offset = base + at
                if byte not in _BLANKS and not self._scan_structure(mode, byte):
                    return False
                at += 1
            if at < 0:
                return False
        self.offset = base + end
        return True

    def _scan_structure(self, mode: int, byte: int) -> bool:
        if mode == _AFTER:
            if byte == 0x2C:
                self.mode = _VALUE if self.container() == ARRAY else _NAME
                return self.comma()
            return self._end(byte)
        if mode == _COLON:
            self.mode = _VALUE
            return byte == 0x3A
        if mode in (_NAME, _NAME_OR_END):
            if byte == 0x22:
                self.mode = _IN_NAME
                return self.name_begins(mode == _NAME_OR_END)
            return mode == _NAME_OR_END and self._end(byte)
        if mode == _ITEM_OR_END and byte == 0x5D:
            return self._end(byte)
        kind = KIND_OF_BYTE.get(byte)
        if kind is None or mode == _DONE:
            return False
        if not self.value_begins(kind, mode == _ITEM_OR_END):
            return False
        return self._begin(kind, byte)

    def _begin(self, kind: int, byte: int) -> bool:
        if kind == OBJECT:
            self.mode = _NAME_OR_END
        elif kind == ARRAY:
            self.mode = _ITEM_OR_END
        elif kind == STRING:
            self.mode = _IN_STRING
        elif kind in NUMBERS:
            self.mode, self.partial = _IN_NUMBER, bytes((byte,))
            return self.number_so_far(self.partial)
        else:
            self.mode, self.partial, self.literal = _IN_LITERAL, _LITERALS[kind], LITERAL_VALUES[kind]
        return True

    def _end(self, byte: int) -> bool:
        container = self.container()
        if (container == OBJECT and byte == 0x7D) or (container == ARRAY and byte == 0x5D):
            return self.container_ends()
        return False

    def _scan_string(self, data: bytes, at: int) -> int:
        """Returns where it stopped, or -1 for what is no string."""
        end = len(data)
        while at < end:
            partial = self.partial
            if partial[:1] == b"\\":
                at = self._scan_escape(data, at)
                if at < 0:
                    return -1
                continue
            stop = _PLAIN.match(data, at).end()  # type: ignore[union-attr]
            if stop > at:
                chunk = partial + data[at:stop]
                try:
                    text, used = (chunk.decode("ascii"), len(chunk)) if chunk.isascii() else utf_8_decode(chunk)
                except UnicodeDecodeError:
                    return -1
                self.partial = partial = chunk[used:]
                if text and not self.text_goes_on(text):
                    return -1
            if stop == end:
                return end if not partial or self.character_begins(utf8_ranges(partial)) else -1
            if partial:
                return -1
            byte = data[stop]
            at = stop + 1
            if byte == 0x22:
                ended = self.name_ends() if self.mode == _IN_NAME else self.string_ends()
                return at if ended else -1
            if byte != 0x5C:
                return -1
            self.partial = b"\\"
            if at == end and not self.character_begins(escape_ranges(b"\\", self.escapes)):
                return -1
        return at

    def _scan_escape(self, data: bytes, at: int) -> int:
        partial = self.partial
        for stop in range(at, len(data)):
            partial += data[stop : stop + 1]
            read = read_escape(partial)
            if read is True:
                continue
            if read is False or not self._may_escape(read):
                return -1
            self.partial = b""
            return stop + 1 if self.text_goes_on(read) else -1
        self.partial = partial
        return len(data) if self.character_begins(escape_ranges(partial, self.escapes)) else -1

    def _may_escape(self, character: str) -> bool:
        return self.escapes is ANY_CHARACTER or any(low <= ord(character) <= high for low, high in self.escapes)

    def _scan_number(self, data: bytes, at: int) -> int:
        stop = _NUMBER_BYTES.match(data, at).end()  # type: ignore[union-attr]
        text = self.partial = self.partial + data[at:stop]
        if len(text) > MAX_NUMBER_BYTES or _NUMBER_BEGUN.fullmatch(text) is None or not exponent_is_bounded(text):
            return -1
        if stop < len(data):
            return stop if self.end_number() else -1
        return stop if self.number_so_far(text) else -1

    def end_number(self) -> bool:
        """End the number that is open, as any byte but its own does, and the end of the text."""
        text, self.partial = self.partial, b""
        return is_number(text) and self.number_ends(text)

    def _scan_literal(self, data: bytes, at: int) -> int:
        rest = self.partial
        given = data[at : at + len(rest)]
        if not rest.startswith(given):
            return -1
        self.partial = rest[len(given) :]
        if not self.partial and not self.literal_ends(self.literal):
            return -1
        return at + len(given)

    @abstractmethod
    def container(self) -> int | None:
        """The kind of the innermost open container, if any."""

    @abstractmethod
    def value_begins(self, kind: int, is_first: bool) -> bool:
        """A value begins; ``is_first``: it is the first item of an array."""

    @abstractmethod
    def name_begins(self, is_first: bool) -> bool:
        """The name of a property begins; ``is_first``: of the first."""

    @abstractmethod
    def text_goes_on(self, text: str) -> bool:
        """Characters of a string or a name."""

    @abstractmethod
    def character_begins(self, ranges: Ranges) -> bool:
        """One more character of a string or a name is under way, out of ``ranges``."""

    @abstractmethod
    def number_so_far(self, text: bytes) -> bool:
        """A number that may go on."""

    @abstractmethod
    def name_ends(self) -> bool:
        """The quote after a name."""

    @abstractmethod
    def string_ends(self) -> bool:
        """The quote after a string."""

    @abstractmethod
    def number_ends(self, text: bytes) -> bool:
        """A whole number."""

    @abstractmethod
    def literal_ends(self, value: Any) -> bool:
        """``true``, ``false`` or ``null``, as a canonical value."""

    @abstractmethod
    def comma(self) -> bool:
        """Another property or item will follow; the mode says which."""

    @abstractmethod
    def container_ends(self) -> bool:
        """The innermost array or object ends."""
