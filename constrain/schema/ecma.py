"""Regular expressions of JSON Schema (ECMA-262, flag u) in Python's ``re``, for searching with ``re.search``.

``\\d`` and ``\\w`` are ASCII, ``$`` is the very end, ``.`` stops at four line ends, ``\\p{...}`` knows the general
categories. What has no equivalent is refused by name.
"""

import re
import sys
from functools import lru_cache

from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.regex import complement, matched_ranges
from constrain.schema.categories import category, inside_of_class

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
    brackets: _Brackets | None = None
    for match in _TOKEN.finditer(pattern):
        kind, text = match.lastgroup or "", match.group()
        if brackets is not None:
            if text == "]":
                out.append(brackets.closed())
                brackets = None
            else:
                brackets.add(match, kind)
        elif text == "[":
            brackets = _Brackets()
        elif kind == "other":
            out.append({"$": r"\Z", ".": r"[^\n\r\u2028\u2029]"}.get(text, text))
        else:
            out.append(_translate(match, kind, in_class=False))
    if brackets is not None:
        raise InvalidGrammarError(f"{pattern!r} is no regular expression: a bracket is not closed")
    return _checked(pattern, "".join(out))


class _Brackets:
    """What stands between brackets, for Python.

    A hyphen beside a set is itself, as it is without flag u (Annex B). One that makes no range is escaped, since Python
    warns of two in a row.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._is_negated = self._may_begin_range = self._has_hyphen = False

    def add(self, match: "re.Match[str]", kind: str) -> None:
        """One more token."""
        text = match.group()
        if kind in ("other", "group", "flags", "foreign"):  # of which each character is itself
            for char in text:
                self._add_plain(char)
        elif kind == "property" or (kind == "escaped" and text[1].lower() in _CLASSES):
            self._keep_hyphen()
            self._parts.append(_translate(match, kind, in_class=True))
            self._may_begin_range = False
        else:
            self._add_character(_translate(match, kind, in_class=True))

    def closed(self) -> str:
        """All of it; an empty class matches nothing, and its complement everything."""
        self._keep_hyphen()
        inner = "".join(self._parts)
        if not inner:
            return r"[\s\S]" if self._is_negated else "(?!)"
        return f"[{'^' if self._is_negated else ''}{inner}]"

    def _add_plain(self, char: str) -> None:
        if char == "^" and not self._parts and not self._is_negated:
            self._is_negated = True
        elif char == "-" and self._may_begin_range and not self._has_hyphen:
            self._has_hyphen = True
        else:
            self._add_character("\\" + char if char in "[&~|-" else char)

    def _add_character(self, python: str) -> None:
        self._parts.append("-" + python if self._has_hyphen else python)
        self._may_begin_range, self._has_hyphen = not self._has_hyphen, False

    def _keep_hyphen(self) -> None:
        if self._has_hyphen:
            self._parts.append(r"\-")
        self._has_hyphen = False


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
        if in_class:
            raise InvalidGrammarError(f"{match.group()} names a group, and stands in brackets", position=match.start())
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
    return inside_of_class(complement(matched_ranges(str(op), argument, re.UNICODE)))


def _category(name: str, match: "re.Match[str]") -> str:
    inner = category(name)
    if inner is None:
        raise UnsupportedGrammarError(
            f"the property {match.group()} is no general category, and others are unknown here"
        )
    return inner


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
