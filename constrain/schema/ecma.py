"""Regular expressions of JSON Schema (ECMA-262, flag u) in Python's ``re``, for searching with ``re.search``.

``\\d`` and ``\\w`` are ASCII, ``$`` is the very end, ``.`` stops at four line ends, ``\\p{...}`` knows the general
categories. What has no equivalent is refused by name.
"""

import re
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import groupby

from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.regex import complement, matched_ranges

_SPACE = r"\t-\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": _SPACE}
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r", "0": "\0"}
_TOKEN = re.compile(
    r"""\\u\{(?P<braced>[0-9A-Fa-f]{1,6})\}
      | \\u(?P<high>[dD][89abAB][0-9A-Fa-f]{2})\\u(?P<low>[dD][c-fC-F][0-9A-Fa-f]{2})
      | \\u(?P<unit>[0-9A-Fa-f]{4})
      | \\x(?P<byte>[0-9A-Fa-f]{2})
      | \\c(?P<control>[A-Za-z])
      | \\(?P<negated>[pP])\{(?P<property>[A-Za-z_=]+)\}
      | \\k<(?P<back>[^>]*)>
      | \\(?P<number>[1-9][0-9]*)
      | \\(?P<escaped>.)
      | \(\?<(?P<group>[A-Za-z_$][\w$]*)>
      | (?P<flags>\(\?[aiLmsux-]+[:)])
      | (?P<foreign>\(\?(?:P|>|\(|\#)|[*+?}]\+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


@lru_cache(maxsize=4096)
def translate_pattern(pattern: str) -> str:
    """``pattern`` for Python's ``re``.

    Raises ``InvalidGrammarError`` where it is no regular expression, ``UnsupportedGrammarError`` where Python has
    nothing that means the same.
    """
    out: list[str] = []
    in_class = False
    for match in _TOKEN.finditer(pattern):
        kind, text = match.lastgroup, match.group()
        if kind == "other" and in_class:
            in_class = text != "]"
            out.append("\\" + text if text in "[&~|" else text)
        elif kind == "other":
            in_class = text == "["
            out.append({"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", "/": "/"}.get(text, text))
        elif kind in ("group", "flags", "foreign") and in_class:
            out.append(re.sub(r"([\[&~|])", r"\\\1", text))
        else:
            out.append(_translate(match, kind or "", in_class))
    # An empty class matches nothing in ECMA-262, and its complement everything; Python reads on to the next bracket.
    python = "".join(out)
    python = re.sub(r"(?<!\\)((?:\\\\)*)\[\^\]", r"\1[\\s\\S]", python)
    python = re.sub(r"(?<!\\)((?:\\\\)*)\[\]", r"\1(?!)", python)
    return _checked(pattern, python)


def _translate(match: "re.Match[str]", kind: str, in_class: bool) -> str:
    value = match.group(kind)
    if kind in ("braced", "unit", "byte"):
        return _literal(int(value, 16), match)
    if kind == "low":
        return _literal(0x10000 + ((int(match.group("high"), 16) & 0x3FF) << 10 | int(value, 16) & 0x3FF), match)
    if kind == "control":
        return _literal(ord(value.upper()) - 64, match)
    if kind == "property":
        return _class(_category(value, match), match.group("negated") == "P", in_class, match)
    if kind == "back":
        return f"(?P={value})"
    if kind == "number":
        return _numbered(value, in_class, match)
    if kind == "group":
        return f"(?P<{value}>"
    if kind in ("flags", "foreign"):
        raise InvalidGrammarError(f"{match.group()!r} is no syntax of ECMA-262", position=match.start())
    return _escape(value, in_class, match)


def _escape(char: str, in_class: bool, match: "re.Match[str]") -> str:
    if char.lower() in _CLASSES:
        return _class(_CLASSES[char.lower()], char.isupper(), in_class, match)
    if char == "b" and in_class:
        return r"\x08"
    if char in "bB" and not in_class:
        word = _CLASSES["w"]
        edge = f"(?:(?<![{word}])(?=[{word}])|(?<=[{word}])(?![{word}]))"
        return edge if char == "b" else f"(?!{edge})"
    if char in _PLAIN_ESCAPES:
        return _literal(ord(_PLAIN_ESCAPES[char]), match)
    if char.isalnum() and char.isascii():
        # "Identity escapes" of letters are an error under flag u; in Python some mean something else (\A, \Z).
        raise InvalidGrammarError(f"the escape \\{char} is unknown; write {char} alone", position=match.start())
    return re.escape(char)


def _numbered(value: str, in_class: bool, match: "re.Match[str]") -> str:
    if in_class:
        raise InvalidGrammarError(f"{match.group()} names a group, and stands in brackets", position=match.start())
    if len(value) > 2:  # Python would read a character in octal
        raise UnsupportedGrammarError(f"{match.group()} names a group beyond the 99th, which has no equivalent here")
    return f"(?:\\{value})"


def _class(inner: str, negated: bool, in_class: bool, match: "re.Match[str]") -> str:
    if not in_class:
        return f"[{'^' if negated else ''}{inner}]"
    return _complement(inner) if negated else inner


@lru_cache(maxsize=64)
def _complement(inner: str) -> str:
    ((op, argument),) = re._parser.parse(f"[{inner}]")  # type: ignore[attr-defined]
    return _spans(complement(matched_ranges(str(op), argument, re.UNICODE)))


def _category(name: str, match: "re.Match[str]") -> str:
    key, _, value = name.rpartition("=")
    short = _CATEGORY_NAMES.get(value, value)
    if key in ("", "gc", "General_Category") and short in _categories():
        return _categories()[short]
    raise UnsupportedGrammarError(f"the property {match.group()} is no general category, and others are unknown here")


@cache
def property_names() -> frozenset[str]:
    """What may stand between the braces of ``\\p{...}``."""
    names = {*_CATEGORY_NAMES, *_categories()}
    return frozenset(key + name for key in ("", "=", "gc=", "General_Category=") for name in names)


@cache
def _categories() -> dict[str, str]:
    """The inside of a class for each general category, and for their groups (``L`` for all letters)."""
    spans: dict[str, list[tuple[int, int]]] = {"Any": [(0, sys.maxunicode)], "ASCII": [(0, 127)]}
    first = 0
    for category, run in groupby(unicodedata.category(chr(code)) for code in range(sys.maxunicode + 1)):
        last = first + sum(1 for _ in run) - 1
        for name in (category, category[0], *(("LC",) if category in ("Lu", "Ll", "Lt") else ())):
            spans.setdefault(name, []).append((first, last))
        first = last + 1
    return {name: _spans(members) for name, members in spans.items()}


_CATEGORY_NAMES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn", "Spacing_Mark": "Mc",
    "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl",
    "Other_Number": "No", "Punctuation": "P", "punct": "P", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs", "Line_Separator": "Zl",
    "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc", "cntrl": "Cc", "Format": "Cf", "Unassigned": "Cn",
    "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Connector_Punctuation": "Pc",
    "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf", "Other_Punctuation": "Po",
}  # fmt: skip


def _spans(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"\\U{low:08x}" + (f"-\\U{high:08x}" if high > low else "") for low, high in ranges)


def _literal(code: int, match: "re.Match[str]") -> str:
    if code > sys.maxunicode:
        raise InvalidGrammarError(f"{match.group()} is past the last character of Unicode", position=match.start())
    return f"\\U{code:08x}"


def _checked(pattern: str, python: str) -> str:
    try:
        re.compile(python)
    except re.error as exc:
        if "look-behind requires fixed-width" in str(exc):
            raise UnsupportedGrammarError("a look-behind of varying width has no equivalent in Python") from exc
        raise InvalidGrammarError(f"{pattern!r} is no regular expression: {exc.msg}") from exc
    except (OverflowError, RecursionError) as exc:
        raise UnsupportedGrammarError(f"the regular expression is too large for Python: {exc}") from exc
    return python
