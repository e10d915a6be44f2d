"""The general categories of Unicode, as ``\\p{...}`` names them in ECMA-262, for the classes of Python's ``re``."""

import sys
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import groupby

_KEYS = ("", "gc", "General_Category")
_LONG_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Punctuation": "P", "punct": "P", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Unassigned": "Cn",
    "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Connector_Punctuation": "Pc",
    "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
}  # fmt: skip


def category(name: str) -> str | None:
    """The inside of a class for what stands between the braces of ``\\p{...}``; None where that is no category."""
    key, _, value = name.rpartition("=")
    return _categories().get(_LONG_NAMES.get(value, value)) if key in _KEYS else None


@cache
def property_names() -> frozenset[str]:
    """What may stand between the braces of ``\\p{...}``."""
    names = {*_LONG_NAMES, *_categories()}
    return frozenset(key + name for key in ("", *(f"{key}=" for key in _KEYS)) for name in names)


def inside_of_class(ranges: Iterable[tuple[int, int]]) -> str:
    """The characters of ``ranges``, by their code points, as a class has them."""
    return "".join(f"\\U{low:08x}" + (f"-\\U{high:08x}" if high > low else "") for low, high in ranges)


@cache
def _categories() -> dict[str, str]:
    """The inside of a class for each general category, and for their groups (``L`` for all letters)."""
    spans: dict[str, list[tuple[int, int]]] = {"Any": [(0, sys.maxunicode)], "ASCII": [(0, 127)]}
    first = 0
    for short, run in groupby(unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)):
        last = first + sum(1 for _ in run) - 1
        for name in (short, short[0], *(("LC",) if short in ("Lu", "Ll", "Lt") else ())):
            spans.setdefault(name, []).append((first, last))
        first = last + 1
    return {name: inside_of_class(members) for name, members in spans.items()}
