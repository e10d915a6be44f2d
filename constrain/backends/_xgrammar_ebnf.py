"""EBNF for xgrammar: printing what we mean, and mending what it prints."""

import json
import re
from collections.abc import Iterable, Iterator

from constrain.backends._xgrammar_repeats import unsupported_repeats
from constrain.errors import BackendError, InvalidGrammarError, Unsupported
from constrain.regex import Alternation, Chars, Concat, Node, Repeat

_LAST = 0x10FFFF
_CLASS_OR_STRING = re.compile(r'(?P<string>"(?:\\.|[^"\\])*")|\[(?P<negated>\^?)(?P<items>(?:\\.|[^\]\\])*)\]')
_ITEM = re.compile(r"\\x[0-9A-Fa-f]{1,2}|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}|\\.|[^\\]", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "0": "\0", "b": "\b", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b"}
_TOKEN_MACRO = re.compile(r"\b(?:Token|ExcludeToken|TokenTagDispatch|AnyTokens)\s*\(")
_OPEN_ESCAPE = re.compile(r' \| \("u"(?: \[A-Fa-f0-9\]){4}\)')


def unsupported_ebnf(text: str) -> list[Unsupported]:
    """What ``text`` uses that xgrammar does, but that breaks a law of grammars."""
    bare = _CLASS_OR_STRING.sub("", text)
    macro = _TOKEN_MACRO.search(bare)
    if macro is not None:
        return [Unsupported(f"{macro[0]}...) puts token ids, special ones too, inside the text")]
    return unsupported_repeats(text)


def choice_ebnf(choices: list[str]) -> str:
    return "root ::= " + " | ".join(_literal(choice) for choice in choices)


def regex_ebnf(node: Node) -> str:
    return f"root ::= {_expression(node)}"


def character_class(ranges: Iterable[tuple[int, int]]) -> str:
    """The class of the characters in ``ranges``, without surrogates."""
    return "[" + "".join(f"{_char(low)}-{_char(high)}" for low, high in _split(ranges)) + "]"


def without_surrogates(text: str) -> str:
    """``text``, printed by xgrammar, with classes that no encoded surrogate matches.

    xgrammar 0.2.9 lets ``[^a]`` match the bytes ED A0 80, which are no UTF-8.
    """

    return _CLASS_OR_STRING.sub(lambda match: match[0] if match["string"] else _mended_class(match), text)


def without_open_escapes(text: str) -> str:
    """``text``, a JSON grammar printed by xgrammar, without ``\\uXXXX`` in its strings.

    They could write a lone surrogate, which is no text.
    """
    mended, count = _OPEN_ESCAPE.subn("", text)
    if not count and "A-Fa-f0-9" in text:
        raise BackendError("xgrammar prints the escapes of JSON strings in a form that this adapter does not know")
    return mended


def _mended_class(match: re.Match[str]) -> str:
    ranges = list(_ranges(match["items"]))
    if match["negated"]:
        ranges = list(_complement(ranges))
    return character_class(ranges)


def _ranges(items: str) -> Iterator[tuple[int, int]]:
    chars = [match[0] for match in _ITEM.finditer(items)]
    at = 0
    while at < len(chars):
        low = high = _code_point(chars[at])
        if at + 2 < len(chars) and chars[at + 1] == "-":
            high = _code_point(chars[at + 2])
            at += 2
        yield low, high
        at += 1


def _code_point(item: str) -> int:
    if len(item) == 1:
        return ord(item)
    return int(item[2:], 16) if len(item) > 2 else ord(_ESCAPED.get(item[1], item[1]))


def _complement(ranges: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    begin = 0
    for low, high in sorted(ranges):
        if begin < low:
            yield begin, low - 1
        begin = max(begin, high + 1)
    if begin <= _LAST:
        yield begin, _LAST


def _split(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for low, high in ranges:
        if low < 0xD800 and high >= 0xD800:
            yield low, 0xD7FF
        if high > 0xDFFF and low <= 0xDFFF:
            yield 0xE000, high
        if high < 0xD800 or low > 0xDFFF:
            yield low, high


def _expression(node: Node) -> str:
    match node:
        case Chars(ranges):
            return character_class(ranges)
        case Concat(parts):
            return "(" + " ".join(map(_expression, parts)) + ")" if parts else '""'
        case Alternation(options):
            return "(" + " | ".join(map(_expression, options)) + ")"
        case Repeat(body, minimum, maximum):
            return f"({_expression(body)}){{{minimum},{'' if maximum is None else maximum}}}"


def _literal(text: str) -> str:
    surrogate = next((char for char in text if 0xD800 <= ord(char) <= 0xDFFF), None)
    if surrogate is not None:
        raise InvalidGrammarError(f"{json.dumps(text)} holds a lone surrogate, which is no character")
    return '"' + "".join(_char(ord(char)) for char in text) + '"'


def _char(code_point: int) -> str:
    return f"\\U{code_point:08X}" if code_point > 0xFFFF else f"\\u{code_point:04X}"
