"""The format ``regex``, one character after the other: a regular expression that is still being written.

Groups nest, so that there are as many states as texts lead to.
"""

from functools import cache
from typing import Literal, NamedTuple

from constrain.schema.categories import property_names
from constrain.schema.evaluation.stepping import SteppingAutomaton

Before = Literal["nothing", "atom", "brace", "quantifier", "lazy"]
"""What stands before: nothing that can be repeated, something, a brace that is itself, or how often, and the least."""

_OTHER = 128
"""The class of all characters beyond ASCII."""
_HEX = frozenset("0123456789abcdefABCDEF")
_DIGITS = frozenset("0123456789")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_SETS = frozenset("dDwWsS")
_TOO_MANY = 2**32 - 1
_LONG = "**"
"""Any name of a group with more than one letter: each of its own would be as many states as a vocabulary has words."""


class _Place(NamedTuple):
    """Where a text stands.

    ``mode`` is that of what is begun, and ``word`` its text; ``groups`` has the kind of each open group; ``in_class``
    is inside of brackets, whose last character, as the first of a range to come, is ``low`` (None: there is none), with
    ``dash`` behind it. ``names`` are those of groups, and ``num_groups`` how many there are.
    """

    mode: str = ""
    word: str = ""
    before: Before = "nothing"
    groups: tuple[str, ...] = ()
    in_class: bool = False
    low: int | None = None
    dash: bool = False
    names: frozenset[str] = frozenset()
    num_groups: int = 0


_moved = _Place._replace


class RegexSyntax(SteppingAutomaton[_Place]):
    """The prefixes of all texts that ``ecma.translate_pattern`` takes, and of a few more.

    It knows neither which groups end before a reference names them by number, nor how wide a look-behind is, nor which
    names of more than one letter there are.
    """

    def __init__(self) -> None:
        super().__init__(_Place(), _OTHER + 1)
        _beginnings()  # while compiling, and not at the first step

    def class_of(self, code: int) -> int:
        return min(code, _OTHER)

    def after(self, place: _Place, number: int) -> _Place | None:
        return _after(place, chr(number))

    def is_end(self, place: _Place) -> bool:
        return not place.in_class and not place.groups and place.mode in ("", "{", "1")


def _after(at: _Place, char: str) -> _Place | None:
    """The place behind one more character; None where no regular expression begins so."""
    if at.mode == "{":
        return _after_brace(at, char)
    if at.mode.startswith("("):
        return _after_open(at, char)
    if at.mode == "1":
        if char in _DIGITS:
            return _moved(at, word=at.word + char) if int(at.word + char) <= at.num_groups else None
        return _after(_moved(at, mode="", word=""), char)
    if at.mode:
        return _after_escape(at, char)
    if char == "\\":
        return _moved(at, mode="\\")
    return _in_class(at, char) if at.in_class else _outside(at, char)


def _outside(at: _Place, char: str) -> _Place | None:
    if char == "(":
        return _moved(at, mode="(")
    if char == ")":
        return _moved(at, groups=at.groups[:-1], before="atom") if at.groups else None
    if char == "[":
        return _moved(at, mode="[", in_class=True, low=None, dash=False)
    if char in "|^$":
        return _moved(at, before="nothing")
    if char in "*+?":
        if char == "?" and at.before == "quantifier":
            return _moved(at, before="lazy")
        if char == "+" and at.before == "brace":
            return None
        return _repeated(at, varies=True)
    if char == "{":
        return _moved(at, mode="{", word="")
    return _moved(at, before="brace" if char == "}" else "atom")


def _repeated(at: _Place, *, varies: bool) -> _Place | None:
    if at.before not in ("atom", "brace") or (varies and at.groups[-1:] == ("<",)):
        return None
    return _moved(at, before="quantifier")


def _after_brace(at: _Place, char: str) -> _Place | None:
    """Behind a brace and ``word``, digits with a comma; what is no count is text."""
    word = at.word
    if char in _DIGITS or (char == "," and "," not in word):
        return _moved(at, word=_shortened(word + char))
    plain = _moved(at, mode="", word="", before="atom")
    if char != "}" or not word:
        return _after(plain, char)
    low, comma, high = word.partition(",")
    least = int(low or 0)
    most = int(high) if high else None if comma else least
    if max(least, most or 0) >= _TOO_MANY or (most is not None and most < least):
        return None
    return _repeated(_moved(at, mode="", word=""), varies=most != least)


def _shortened(word: str) -> str:
    """``word`` with the last number of it as short as any that is as large, or too large."""
    head, comma, digits = word.rpartition(",")
    return f"{head}{comma}{min(int(digits), _TOO_MANY)}" if digits else word


def _after_open(at: _Place, char: str) -> _Place | None:
    """Behind a parenthesis: a group of some kind."""
    inside = _moved(at, mode="", word="", before="nothing")
    if at.mode == "(":
        if char == "?":
            return _moved(at, mode="(?")
        return _after(_moved(inside, groups=(*at.groups, "("), num_groups=min(at.num_groups + 1, 99)), char)
    if at.mode == "(?":
        if char == "<":
            return _moved(at, mode="(?<")
        return _moved(inside, groups=(*at.groups, char)) if char in ":=!" else None
    if at.mode == "(?<" and not at.word and char in "=!":
        return _moved(inside, groups=(*at.groups, "<"))
    if char == ">" and at.word:
        if at.word in at.names and at.word != _LONG:
            return None
        names, number = at.names | {at.word}, min(at.num_groups + 1, 99)
        return _moved(inside, groups=(*at.groups, "("), names=names, num_groups=number)
    return _moved(at, word=_LONG if at.word else char) if _goes_on(at.word, char) else None


def _goes_on(name: str, char: str) -> bool:
    """Whether a name may go on so."""
    is_letter = (char.isascii() and char.isalpha()) or char == "_"
    return is_letter or (name != "" and (char in _DIGITS or ord(char) == _OTHER))


def _after_escape(at: _Place, char: str) -> _Place | None:
    """Behind a backslash and ``word``, or behind an opening bracket, where ``^`` says something."""
    done = _moved(at, mode="", word="")
    mode, word = at.mode, at.word + char
    if mode == "[":
        return done if char == "^" else _after(done, char)
    if mode == "\\":
        return _escaped(at, char)
    if mode in "ux":
        if mode == "u" and word == "{":
            return _moved(at, mode="u{")
        if char not in _HEX:
            return None
        return _moved(at, word=word) if len(word) < {"u": 4, "x": 2}[mode] else _character(done, int(word, 16))
    if mode == "u{":
        if char == "}" and at.word:
            return _character(done, int(at.word, 16))
        fits = char in _HEX and len(word) <= 6 and int(word, 16) <= 0x10FFFF
        return _moved(at, word=word) if fits else None
    if mode == "c":
        return _character(done, ord(char.upper()) - 64) if char.isascii() and char.isalpha() else None
    if mode == "p":
        if char == "}":
            return _set(done) if at.word[1:] in property_names() else None
        return _moved(at, word=word) if word in _beginnings() else None
    if char == ">" and at.word:  # \k<name>
        return _moved(done, before="atom") if at.word[1:] in at.names else None
    if not at.word:
        return _moved(at, word="<") if char == "<" and at.names else None
    name = _LONG if at.word[1:] else char
    fits = _goes_on(at.word[1:], char) and (name in at.names or _LONG in at.names)
    return _moved(at, word=f"<{name}") if fits else None


@cache
def _beginnings() -> frozenset[str]:
    """Of the names of properties, behind their brace."""
    return frozenset(f"{{{name[:length]}" for name in property_names() for length in range(len(name) + 1))


def _escaped(at: _Place, char: str) -> _Place | None:
    done = _moved(at, mode="")
    if char in "uxc":
        return _moved(at, mode=char)
    if char in "pP":
        return _moved(at, mode="p")
    if char == "k":
        return None if at.in_class else _moved(at, mode="k")
    if char in _SETS:
        return _set(done)
    if char == "b" or (char == "B" and not at.in_class):
        return _character(done, 8)
    if char in _CONTROLS:
        return _character(done, _CONTROLS[char])
    if char in "123456789":
        fits = not at.in_class and int(char) <= at.num_groups
        return _moved(at, mode="1", word=char, before="atom") if fits else None
    if char.isascii() and char.isalnum():
        return None
    return _character(done, ord(char))


def _in_class(at: _Place, char: str) -> _Place | None:
    if char == "]":
        return _moved(at, in_class=False, before="atom", low=None, dash=False)
    if char == "-" and at.low is not None and not at.dash:
        return _moved(at, dash=True)
    return _character(at, ord(char))


def _character(at: _Place, code: int) -> _Place | None:
    """Behind one character, by its code point."""
    if not at.in_class:
        return _moved(at, before="atom")
    code = min(code, _OTHER)
    if not at.dash:
        return _moved(at, low=code)
    assert at.low is not None
    return _moved(at, low=None, dash=False) if at.low <= code else None


def _set(at: _Place) -> _Place:
    """Behind a set, which inside of brackets is on neither side of a range: a hyphen there is itself."""
    return _moved(at, low=None, dash=False) if at.in_class else _moved(at, before="atom")
