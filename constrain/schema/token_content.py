"""What one token adds to a string that is open."""

from codecs import utf_8_decode
from typing import NamedTuple

from constrain.schema.evaluation.characters import Ranges, escape_ranges, read_escape, utf8_ranges

MAX_CHARACTERS = 256
"""Tokens of that many are not looked at."""


class TokenContent(NamedTuple):
    """``fragment``: the bytes of a character that has begun; ``escaped``: the characters behind a backslash."""

    text: str
    fragment: bytes = b""
    escaped: str = ""

    def is_within(self, escapes: Ranges) -> bool:
        """Whether its escapes are those of characters in ``escapes``, or may be."""
        if self.fragment and not begun_ranges(self.fragment, escapes):
            return False
        return all(any(low <= ord(one) <= high for low, high in escapes) for one in self.escaped)


def begun_ranges(fragment: bytes, escapes: Ranges) -> Ranges:
    """What a character can become that has begun with ``fragment``."""
    return escape_ranges(fragment, escapes) if fragment[:1] == b"\\" else utf8_ranges(fragment)


def content_of(token: bytes) -> TokenContent | None:
    """What ``token`` adds up to a quote; None for what is not looked at: no text, begun escapes, many characters."""
    content, quote, _ = token.partition(b'"')
    if content and min(content) < 0x20:
        return None
    if b"\\" in content:
        return None if b'"' in token else _unescaped(content)
    try:
        text, used = utf_8_decode(content)
    except UnicodeDecodeError:
        return None
    fragment = content[used:]
    if len(text) >= MAX_CHARACTERS or (fragment and (quote or not utf8_ranges(fragment))):
        return None
    return TokenContent(text, fragment)


def _unescaped(content: bytes) -> TokenContent | None:
    parts, escaped, at = [], "", 0
    read: str | bool = ""
    while at < len(content) and read is not True:
        stop = content.find(b"\\", at)
        stop = len(content) if stop < 0 else stop
        parts.append(content[at:stop])
        at, read = stop, stop < len(content)
        while read is True and at < len(content):
            at += 1
            read = read_escape(content[stop:at])
        if read is False and stop < len(content):
            return None
        if isinstance(read, str):
            parts.append(read.encode())
            escaped += read
    try:
        text = b"".join(parts).decode()
    except UnicodeDecodeError:
        return None
    return TokenContent(text, content[stop:] if read is True else b"", escaped) if len(text) < MAX_CHARACTERS else None
