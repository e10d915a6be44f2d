"""Characters that are not whole yet."""

import itertools

from constrain.schema.evaluation.characters import escape_ranges, read_escape, utf8_ranges


def members(ranges):
    return {code for low, high in ranges for code in range(low, high + 1)}


def test_bytes_of_utf8_become_exactly_the_characters_that_begin_so():
    for character in "\x80é߿ࠀ€\ud7ff\ue000\uffff𐀀😀\U000ffffe\U0010ffff":
        encoded = character.encode()
        for length in range(max(1, len(encoded) - 2), len(encoded)):
            begun = encoded[:length]
            rests = itertools.product(range(0x80, 0xC0), repeat=len(encoded) - length)
            wholes = (begun + bytes(rest) for rest in rests)
            decoded = {whole.decode(errors="ignore") for whole in wholes} - {""}
            assert members(utf8_ranges(begun)) == {ord(text) for text in decoded if len(text) == 1}, begun


def test_escapes_become_exactly_the_characters_that_begin_so():
    assert read_escape(b"\\n") == "\n" and read_escape(b"\\/") == "/" and read_escape(b"\\x") is False
    assert read_escape(b"\\u00e") is True and members(escape_ranges(b"\\u00e")) == set(range(0xE0, 0xF0))
    assert read_escape(b"\\u00E9") == "é" and read_escape(b"\\u00g") is False
    assert members(escape_ranges(b"\\ud83d\\ude0")) == set(range(0x1F600, 0x1F610))
    assert read_escape(b"\\ud83d\\ude00") == "😀"
    assert members(escape_ranges(b"\\ud8")) == set(range(0x10000, 0x50000))


def test_half_of_a_surrogate_pair_is_refused_as_soon_as_it_is_one():
    assert read_escape(b"\\ud83d") is True
    for begun in (b"\\ud83dx", b"\\ud83d\\n", b"\\ud83d\\u0", b"\\ud83d\\ud8", b"\\udc", b"\\ude00"):
        assert read_escape(begun) is False
    for digits in map("".join, itertools.product("0d8cf", repeat=3)):
        assert read_escape(b"\\u" + digits.encode()) is bool(escape_ranges(b"\\u" + digits.encode()))
