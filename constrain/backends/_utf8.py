"""Ranges of characters as ranges of UTF-8 bytes."""

from collections.abc import Iterator

ByteRanges = tuple[tuple[int, int], ...]
"""One range for each byte of an encoded character; every combination of their bytes is meant."""

_LAST_OF_LENGTH = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


def byte_ranges(low: int, high: int) -> Iterator[ByteRanges]:
    """The encodings of the code points from ``low`` to ``high``, which span no surrogate."""
    first = 0
    for extra, last in enumerate(_LAST_OF_LENGTH):
        if max(low, first) <= min(high, last):
            yield from _split(max(low, first), min(high, last), extra)
        first = last + 1


def _split(low: int, high: int, extra: int) -> Iterator[ByteRanges]:
    """Cut until every continuation byte is either the same in both ends or free; ``extra`` of them follow the first."""
    for length in range(1, extra + 1):
        tail = (1 << 6 * length) - 1
        if low | tail >= high:
            continue
        if low & tail:
            yield from _split(low, low | tail, extra)
            yield from _split((low | tail) + 1, high, extra)
            return
        if high & tail != tail:
            yield from _split(low, (high & ~tail) - 1, extra)
            yield from _split(high & ~tail, high, extra)
            return
    yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))
