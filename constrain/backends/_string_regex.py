"""Strings of JSON as regular expressions.

Each character has one to three spellings: itself, a short escape, or for a control character without one ``\\u00XX``.
So every string can be written, and none that is no text.
"""

import json
import re

from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.regex import (
    Alternation,
    Chars,
    Concat,
    Node,
    Ranges,
    Repeat,
    alternation,
    chars,
    concat,
    parse_regex,
    repeat,
)

_QUOTE = chars([(0x22, 0x22)])
_BACKSLASH = chars([(0x5C, 0x5C)])
_SHORT = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_PLAIN: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF))
ANY_CHARACTER = chars([(0, 0x10FFFF)])


def string_of(node: Node) -> Node:
    """The spellings of the strings that ``node`` matches, quotes included."""
    return concat([_QUOTE, _spelled(node), _QUOTE])


def any_string(shortest: int = 0, longest: int | None = None) -> Node:
    """Strings of that many characters."""
    return string_of(repeat(ANY_CHARACTER, shortest, longest))


def literal(text: str) -> Node:
    """``text`` as it stands."""
    return concat(chars([(ord(char), ord(char))]) for char in text)


def string_literal(text: str) -> Node:
    """The one spelling of ``text`` that ``json.dumps`` gives it."""
    return literal(json.dumps(text, ensure_ascii=False))


def matching_string(pattern: str) -> Node:
    """The strings in which ``pattern``, of ECMA-262, is found.

    Raises ``UnsupportedGrammarError`` or ``InvalidGrammarError`` for what is no regular language, or matches nothing.
    """
    from constrain.schema.ecma import translate_pattern

    return string_of(alternation(_found(option) for option in _options(translate_pattern(pattern))))


def _found(option: str) -> Node:
    """The texts in which ``option``, a pattern without alternatives of its own, is found."""
    starts, ends = option.startswith("^"), _ENDS.search(option) is not None
    body = option[1:] if starts else option
    body = body[:-2] if ends else body
    if any(match.group() in ("^", r"\Z", r"\b", r"\B") for match in _ITEM.finditer(body)):
        raise UnsupportedGrammarError("an anchor or a word boundary inside a pattern")
    anything = repeat(ANY_CHARACTER, 0, None)
    return concat([*([] if starts else [anything]), _parsed(body), *([] if ends else [anything])])


def _parsed(body: str) -> Node:
    """``parse_regex``, which refuses what matches the empty text only."""
    try:
        return parse_regex(body)
    except InvalidGrammarError:
        if re.fullmatch(body, "") is None:
            raise
        return concat(())


_ITEM = re.compile(r"\\.|\[\^?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_ENDS = re.compile(r"(?<!\\)(?:\\\\)*\\Z\Z")


def _options(pattern: str) -> list[str]:
    """``pattern``, cut at the bars that stand in no group."""
    options, depth = [""], 0
    for match in _ITEM.finditer(pattern):
        item = match.group()
        depth += (item == "(") - (item == ")")
        if item == "|" and not depth:
            options.append("")
        else:
            options[-1] += item
    return options


def _spelled(node: Node) -> Node:
    match node:
        case Chars(ranges):
            return _spellings(ranges)
        case Concat(parts):
            return concat(map(_spelled, parts))
        case Alternation(options):
            return alternation(map(_spelled, options))
        case Repeat(body, minimum, maximum):
            return repeat(_spelled(body), minimum, maximum)


def _spellings(ranges: Ranges) -> Node:
    """How one character out of ``ranges`` may be written."""
    plain = [(max(a, low), min(b, high)) for a, b in ranges for low, high in _PLAIN if max(a, low) <= min(b, high)]
    codes = {code for low, high in ranges for code in range(low, min(high, 0x5C) + 1)}
    options: list[Node] = [chars(plain)] if plain else []
    short = [(ord(_SHORT[chr(code)]),) * 2 for code in codes if chr(code) in _SHORT]
    if short:
        options.append(concat([_BACKSLASH, chars(short)]))
    options += [_unicode_escape(high, codes) for high in (0, 1) if any(_is_bare(code, high) for code in codes)]
    return alternation(options)


def _is_bare(code: int, high: int) -> bool:
    return code >> 4 == high and chr(code) not in _SHORT


def _unicode_escape(high: int, codes: set[int]) -> Node:
    digits = "".join(f"{code & 15:x}{code & 15:X}" for code in codes if _is_bare(code, high))
    return concat([literal(f"\\u00{high}"), chars((ord(digit), ord(digit)) for digit in digits)])
