"""Internationalised host names as far as a regular expression knows them: RFC 5892's characters, RFC 5893's order.

The tables are those of the package ``idna``; where it is not installed no such name is valid, and none matches here.
"""

import unicodedata
from collections.abc import Iterable
from functools import cache

from constrain.schema.categories import inside_of_class

_SEPARATORS = ".\u3002\uff0e\uff61"
_NOTHING = "(?!)"
_NO_HYPHENS = "(?!..--)"  # at the third and fourth place, but of an A-label
_PLAIN = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
_A_LABEL = r"[xX][nN]--[A-Za-z0-9\-]{0,58}[A-Za-z0-9]"
_RIGHTWARD = frozenset({"R", "AL", "AN"})
_NEUTRAL = frozenset({"ES", "CS", "ET", "ON", "BN", "NSM"})
# These ask for something beside them (RFC 5892, appendix A); of the others, context and all, the order says enough.
_MIDDLE_DOT, _KERAIA, _GERESH, _NON_JOINER, _JOINER = 0xB7, 0x375, (0x5F3, 0x5F4), 0x200C, 0x200D


@cache
def idn_hostname() -> str:
    """A pattern that each whole text of ``idn-hostname`` matches."""
    by_direction = _by_direction()
    if not by_direction:
        return _NOTHING
    leftward = _label([code for name, codes in by_direction.items() if name not in _RIGHTWARD for code in codes], ())
    begins_left = _label(
        [code for name, codes in by_direction.items() if name not in _RIGHTWARD for code in codes],
        [code for name, codes in by_direction.items() if name != "L" for code in codes],
    )
    ascii_left = rf"(?=[A-Za-z])(?:{_NO_HYPHENS}{_PLAIN}|{_A_LABEL})"
    no_rightward = f"(?:{_NO_HYPHENS}(?:{_PLAIN}|{leftward})|{_A_LABEL})"
    any_of_all = f"(?:{ascii_left}|{_NO_HYPHENS}(?:{begins_left}|{_rightward(by_direction)}))"
    return f"(?:{_joined(no_rightward)}|{_joined(any_of_all)})"


@cache
def idn_domain() -> str:
    """A pattern that each text matches whose normal form (NFC) is a host name of any kind."""
    characters = {code for codes in _by_direction().values() for code in codes}
    parts = {ord(part) for code in characters for part in unicodedata.normalize("NFD", chr(code))}
    found = characters | parts
    for code in range(0x80, 0x110000):
        form = unicodedata.decomposition(chr(code))
        if form and form[0] != "<" and parts.issuperset(map(ord, unicodedata.normalize("NFD", chr(code)))):
            found.add(code)
    inside = _class({code for code in found if code >= 0x80}) + "A-Za-z0-9"
    label = rf"[{inside}](?:[{inside}\-]*[{inside}])?"
    return _joined(label)


def _by_direction() -> dict[str, list[int]]:
    """The characters of labels, ``-`` among them, by their bidirectional class."""
    try:
        from idna import idnadata
    except ImportError:
        return {}
    found: dict[str, list[int]] = {}
    for name in ("PVALID", "CONTEXTJ", "CONTEXTO"):
        for packed in idnadata.codepoint_classes[name]:
            for code in range(packed >> 32, packed & 0xFFFFFFFF):
                found.setdefault(unicodedata.bidirectional(chr(code)), []).append(code)
    found.pop("", None)  # unknown to this version of Unicode, and refused
    return found


def _label(codes: Iterable[int], not_first: Iterable[int]) -> str:
    """A label of ``codes`` that begins with none of ``not_first``, no hyphen and no mark, and ends with no hyphen."""
    inside = set(codes) - {_MIDDLE_DOT, _KERAIA, *_GERESH, _JOINER, 0x2D, 0x6C}
    first = {code for code in inside - set(not_first) if unicodedata.category(chr(code))[0] != "M"} - {_NON_JOINER}
    virama = {code for code in inside if unicodedata.combining(chr(code)) == 9}
    beside = f"l(?:\u00b7l)*|\u0375(?=[{_greek()}])"
    more = f"{beside}|[{_class(virama)}]\u200d"
    return f"(?:[{_class(first)}]|{beside})(?:(?:[{_class(inside)}\\-]|{more})*(?:[{_class(inside)}]|{more}))?"


def _greek() -> str:
    from idna import idnadata

    return _class(code for packed in idnadata.scripts["Greek"] for code in range(packed >> 32, packed & 0xFFFFFFFF))


def _rightward(by_direction: dict[str, list[int]]) -> str:
    """A label that begins with R or AL (RFC 5893, section 2): it has digits of one kind only."""

    def of(*names: str) -> str:
        return _class(code for name in names for code in by_direction.get(name, ()))

    begin, marks = _class(set(by_direction["R"] + by_direction["AL"]) - set(_GERESH)), of("NSM")
    forms = []
    for digits in ("EN", "AN"):
        inside, last = of("R", "AL", digits, *sorted(_NEUTRAL)), of("R", "AL", digits)
        forms.append(f"(?:[{inside}]*[{last}])?[{marks}]*")
    return f"[{begin}](?:{'|'.join(forms)})"


def _joined(label: str) -> str:
    return f"{label}(?:[{_SEPARATORS}]{label})*"


def _class(codes: Iterable[int]) -> str:
    """The inside of a class."""
    spans: list[tuple[int, int]] = []
    for code in sorted(set(codes)):
        if spans and code == spans[-1][1] + 1:
            spans[-1] = spans[-1][0], code
        else:
            spans.append((code, code))
    return inside_of_class(spans)
