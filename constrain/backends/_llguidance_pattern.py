"""Patterns of a JSON schema for llguidance, every set of characters spelled out.

llguidance 1.9.1 reads a pattern as Rust's ``regex``, whose ``\\s``, ``\\d``, ``\\p`` and ``.`` are not ECMA-262's, and
carries it over to the JSON text of a string. Sets that hold nearly all control characters come out wrong there: they
let quotes and backslashes through that they do not hold. So sets become explicit ranges, without the characters that
could only be written as ``\\u`` escapes, which are off.
"""

import re
from functools import lru_cache

from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.regex import Chars, parse_regex

UNWRITABLE = ((0x00, 0x07), (0x0B, 0x0B), (0x0E, 0x1F), (0x7F, 0x7F))
"""Characters that this backend writes in no string (surrogates are no characters at all)."""

_SET = re.compile(
    r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}"  # one character in two escapes
    r"|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[pP]\{\w+\}|.)"
    r"|\[(?:\\.|[^\]\\])*\]"
    r"|\.",
    re.DOTALL,
)


@lru_cache(maxsize=4096)
def rust_pattern(pattern: str) -> str:
    """``pattern``, ECMA-262 that ``_llguidance_json`` lets through, in Rust's syntax with explicit sets.

    Raises ``UnsupportedGrammarError`` where a set holds nothing that can be written.
    """
    return _SET.sub(lambda match: _spelled_out(match.group()), pattern)


def _spelled_out(characters: str) -> str:
    from constrain.schema.ecma import translate_pattern

    try:
        node = parse_regex(translate_pattern(characters))
    except InvalidGrammarError as exc:
        raise UnsupportedGrammarError(f"{characters!r} holds no character") from exc
    assert isinstance(node, Chars), (characters, node)
    writable = _without(list(node.ranges), UNWRITABLE)
    if not writable:
        raise UnsupportedGrammarError(f"{characters!r} could only be written as a \\u escape")
    return "[" + "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in writable) + "]"


def _without(ranges: list[tuple[int, int]], holes: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    for low, high in holes:
        below = [(first, min(last, low - 1)) for first, last in ranges]
        cut = below + [(max(first, high + 1), last) for first, last in ranges]
        ranges = sorted({(first, last) for first, last in cut if first <= last})
    return ranges
