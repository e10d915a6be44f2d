"""What the bytes of an unfinished character already say: which characters it can still become."""

from functools import lru_cache

Ranges = tuple[tuple[int, int], ...]

ANY_CHARACTER: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
SIMPLE_ESCAPES = {
    0x22: '"', 0x5C: "\\", 0x2F: "/", 0x62: "\b", 0x66: "\f", 0x6E: "\n", 0x72: "\r", 0x74: "\t",
}  # fmt: skip
CONTROL_ESCAPES: Ranges = ((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C), (0x7F, 0x7F))
SHORT_ESCAPES: Ranges = ((8, 0xA), (0xC, 0xD), (0x22, 0x22), (0x5C, 0x5C))
"""What a backslash may begin where ``\\u`` stands for control characters only, and where it stands for nothing."""
_HEX = frozenset(b"0123456789abcdefABCDEF")


@lru_cache(maxsize=4096)
def utf8_ranges(begun: bytes) -> Ranges:
    """The characters whose UTF-8 form begins with ``begun``: one to three bytes of a longer form, none of it wrong."""
    lead, rest = begun[0], begun[1:]
    length = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    low = lead & (0xFF >> (length + 1))
    for byte in rest:
        low = low << 6 | byte & 0x3F
    shift = 6 * (length - len(begun))
    first, last = low << shift, (low + 1 << shift) - 1
    least = (0x80, 0x800, 0x10000)[length - 2]
    return _without_surrogates(max(first, least), min(last, 0x10FFFF))


@lru_cache(maxsize=4096)
def escape_ranges(begun: bytes, allowed: Ranges = ANY_CHARACTER) -> Ranges:
    """The characters that the escape ``begun`` can become, from ``\\`` to eleven of the twelve bytes of a pair.

    Only those in ``allowed``; empty if it can become none: half a surrogate pair is no character.
    """
    if allowed is not ANY_CHARACTER:
        found = escape_ranges(begun)
        parts = ((max(low, first), min(high, last)) for low, high in found for first, last in allowed)
        return tuple(part for part in parts if part[0] <= part[1])
    if begun in (b"\\", b"\\u"):
        return ANY_CHARACTER
    first, last = _unit_span(begun[2:6])
    ranges = list(_without_surrogates(first, last))
    high_first, high_last = max(first, 0xD800), min(last, 0xDBFF)
    if high_first <= high_last:
        low_first, low_last = _unit_span(begun[8:12])
        low_first, low_last = max(low_first, 0xDC00), min(low_last, 0xDFFF)
        if high_first < high_last:
            ranges.append((surrogate_pair(high_first, 0xDC00), surrogate_pair(high_last, 0xDFFF)))
        elif low_first <= low_last:
            ranges.append((surrogate_pair(high_first, low_first), surrogate_pair(high_first, low_last)))
    return tuple(ranges)


@lru_cache(maxsize=4096)
def read_escape(begun: bytes) -> str | bool:
    """The character that the escape ``begun`` is; True for one that is not at its end, False for one that is none."""
    if len(begun) == 1:
        return True
    if begun[1] != 0x75:
        return SIMPLE_ESCAPES.get(begun[1], False) if len(begun) == 2 else False
    if not _HEX.issuperset(begun[2:6]) or not _HEX.issuperset(begun[8:12]):
        return False
    if not b"\\u".startswith(begun[6:8]) or not escape_ranges(begun):
        return False
    if len(begun) < 6:
        return True
    unit = int(begun[2:6], 16)
    if not 0xD800 <= unit <= 0xDBFF:
        return chr(unit)
    return chr(surrogate_pair(unit, int(begun[8:12], 16))) if len(begun) == 12 else True


def surrogate_pair(high: int, low: int) -> int:
    """The code point that two UTF-16 units are."""
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)


def _unit_span(digits: bytes) -> tuple[int, int]:
    """The first and last UTF-16 unit whose four hexadecimal digits begin with ``digits``."""
    shift = 4 * (4 - len(digits))
    value = int(digits, 16) if digits else 0
    return value << shift, (value + 1 << shift) - 1


def _without_surrogates(first: int, last: int) -> Ranges:
    parts = ((first, min(last, 0xD7FF)), (max(first, 0xE000), last))
    return tuple(part for part in parts if part[0] <= part[1])
