"""Names of general categories, and what they hold."""

import re
import unicodedata

import pytest

from constrain.schema.categories import category, property_names


@pytest.mark.parametrize("name", ["Lu", "gc=Lu", "General_Category=Uppercase_Letter", "Nd", "Cn", "LC", "P", "Any"])
def test_a_category_holds_the_characters_that_unicode_says(name):
    short = {"Uppercase_Letter": "Lu"}.get(name.rpartition("=")[2], name.rpartition("=")[2])
    wanted = {"LC": ("Lu", "Ll", "Lt"), "Any": ("",)}.get(short, (short,))
    held = re.compile(f"[{category(name)}]")
    for code in [*range(0x3000), *range(0xD700, 0xE100), *range(0x1F600, 0x1F700), 0x10FFFF]:
        expected = unicodedata.category(chr(code)).startswith(wanted)
        assert (held.match(chr(code)) is not None) == expected, hex(code)


def test_names_are_those_that_have_a_category():
    assert {"Lu", "gc=Lu", "=Lu", "General_Category=Letter", "ASCII"} <= property_names()
    assert all(category(name) for name in property_names())
    assert category("Script=Greek") is None and category("Greek") is None and category("sc=Lu") is None
