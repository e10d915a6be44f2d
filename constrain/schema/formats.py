"""The formats that the drafts define, as predicates on texts.

``jsonschema`` 4.26 checks most of them only where other packages are installed, ``regex`` as Python's, and of an email
that it has an @. Those here are the grammars of the RFCs that the drafts name; the tables of IDNA are those of the
package ``idna``, where it is installed, and host names that ask for them are refused where it is not.
"""

import re
import unicodedata
from collections.abc import Callable
from datetime import date
from functools import lru_cache

from jsonschema import FormatChecker

from constrain.errors import ConstrainError
from constrain.schema.ecma import translate_pattern

FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri"}
    | {
        "uri-reference",
        "iri",
        "iri-reference",
        "uuid",
        "uri-template",
        "json-pointer",
        "relative-json-pointer",
        "regex",
    }
)
"""Those that some draft defines. Any other says nothing, in every draft."""

Predicate = Callable[[str], bool]


def checker_of(name: str) -> Predicate | None:
    """Whether a text has the format ``name``; None where nothing here can tell."""
    if name in _OWN:
        return _OWN[name]
    return _of_jsonschema(name) if name in _JSONSCHEMA.checkers and name in FORMATS else None


_JSONSCHEMA = FormatChecker()


def _of_jsonschema(name: str) -> Predicate:
    return lambda text: bool(_JSONSCHEMA.conforms(text, name))


def _matcher(pattern: str) -> Predicate:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


# RFC 3339, whose leap seconds are the last of a day in UTC.
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9]|60)(?:\.[0-9]+)?(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))"
)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text) if text.isascii() else None
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or 2000, month, day)  # 0000 is a leap year, and none of Python's
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    match = _TIME.fullmatch(text) if text.isascii() else None
    if match is None:
        return False
    hour, minute, second, sign, hours, minutes = match.groups()
    shift = (int(hours) * 60 + int(minutes)) * (-1 if sign == "+" else 1) if sign else 0
    return second != "60" or (int(hour) * 60 + int(minute) + shift) % 1440 == 1439


def _is_date_time(text: str) -> bool:
    return text[10:11] in ("T", "t") and _is_date(text[:10]) and _is_time(text[11:])


# RFC 3986 and RFC 3987.
_UCS = (
    "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd"
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_H16 = r"[0-9A-Fa-f]{1,4}"


def _references(more: str, private: str) -> tuple[str, str]:
    """The patterns of a whole URI and of a relative one, with ``more`` characters, and ``private`` ones in a query."""
    plain = rf"A-Za-z0-9\-._~!$&'()*+,;={more}"
    encoded = r"%[0-9A-Fa-f]{2}"
    segment = rf"(?:[{plain}:@]|{encoded})"
    literal = rf"\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
    authority = rf"//(?:(?:[{plain}:]|{encoded})*@)?(?:{literal}|(?:[{plain}]|{encoded})*)(?::[0-9]*)?(?:/{segment}*)*"
    rooted = rf"/(?:{segment}+(?:/{segment}*)*)?"
    tail = rf"(?:\?(?:{segment}|[/?{private}])*)?(?:\#(?:{segment}|[/?])*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:{authority}|{rooted}|{segment}+(?:/{segment}*)*)?{tail}"
    first = rf"(?:[{plain}@]|{encoded})+"  # without a colon, which would end a scheme
    relative = rf"(?:{authority}|{rooted}|{first}(?:/{segment}*)*)?{tail}"
    return whole, relative


def _ipv6() -> str:
    last = rf"(?:{_H16}:{_H16}|(?:{_OCTET}\.){{3}}{_OCTET})"
    forms = [rf"(?:{_H16}:){{6}}{last}", rf"::(?:{_H16}:){{5}}{last}"]
    for before in range(5):
        head = rf"(?:(?:{_H16}:){{0,{before}}}{_H16})?::"
        forms.append(head + rf"(?:{_H16}:){{{4 - before}}}{last}")
    forms += [rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}", rf"(?:(?:{_H16}:){{0,6}}{_H16})?::"]
    return "(?:" + "|".join(forms) + ")"


_IPV6 = _ipv6()
_URI, _URI_RELATIVE = _references("", "")
_IRI, _IRI_RELATIVE = _references(_UCS, _PRIVATE)

# RFC 6570.
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\*)?"
_TEMPLATE = (
    rf"(?:[!\#$&-;=?@A-Z\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+\#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)

# ISO 8601 as RFC 3339 has it; RFC 1123; RFC 6901.
_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"
_DURATION = rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
_HOSTNAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_POINTER = r"(?:/(?:[^~/]|~[01])*)*"


# RFC 5321 and RFC 6531.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-" + "{more}]+"
_QUOTED = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e{more}]|\\[\x20-\x7e])*"'
_LITERAL = rf"\[(?:(?:{_OCTET}\.){{3}}{_OCTET}|IPv6:{_IPV6})\]"


def _is_hostname(text: str) -> bool:
    if _HOSTNAME.fullmatch(text) is None or not text.isascii():
        return False
    return "xn--" not in text.lower() or _is_idn_hostname(text)


def _is_idn_hostname(text: str) -> bool:
    if "idn-hostname" not in _JSONSCHEMA.checkers or text[-1:] in ("", ".", "\u3002", "\uff0e", "\uff61"):
        return False
    labels = re.split("[.\u3002\uff0e\uff61]", text)
    starts = [unicodedata.bidirectional(label[:1] or " ") for label in labels]
    is_rightward = not any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for char in text)
    if not is_rightward and not set(starts) <= {"L", "R", "AL"}:
        return False  # RFC 5893, of a name as a whole
    return bool(_JSONSCHEMA.conforms(text, "idn-hostname"))


def _is_any_hostname(text: str) -> bool:
    return _is_hostname(text) or _is_idn_hostname(unicodedata.normalize("NFC", text))


def _is_mailbox(text: str, local: "re.Pattern[str]", is_host: Predicate) -> bool:
    name, at, domain = text.rpartition("@")
    if not at or local.fullmatch(name) is None or len(name.encode("utf-8", "surrogatepass")) > 64:
        return False
    return _ADDRESS.fullmatch(domain) is not None or is_host(domain)


_ADDRESS = re.compile(_LITERAL)


def _local(more: str) -> "re.Pattern[str]":
    atom, quoted = _ATOM.replace("{more}", more), _QUOTED.replace("{more}", more)
    return re.compile(rf"{atom}(?:\.{atom})*|{quoted}")


_LOCAL, _LOCAL_WIDE = _local(""), _local("\u0080-\U0010ffff")


@lru_cache(maxsize=1024)
def _is_regex(text: str) -> bool:
    try:
        translate_pattern(text)
    except ConstrainError:
        return False
    return True


_OWN: dict[str, Predicate] = {
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_date_time,
    "duration": _matcher(_DURATION),
    "uri": _matcher(_URI),
    "uri-reference": _matcher(f"{_URI}|{_URI_RELATIVE}"),
    "iri": _matcher(_IRI),
    "iri-reference": _matcher(f"{_IRI}|{_IRI_RELATIVE}"),
    "uri-template": _matcher(_TEMPLATE),
    "hostname": _is_hostname,
    "idn-hostname": _is_idn_hostname,
    "email": lambda text: _is_mailbox(text, _LOCAL, _is_hostname),
    "idn-email": lambda text: _is_mailbox(text, _LOCAL_WIDE, _is_any_hostname),
    "json-pointer": _matcher(_POINTER),
    "relative-json-pointer": _matcher(rf"(?:0|[1-9][0-9]*)(?:\#|{_POINTER})"),
    "regex": _is_regex,
    "uuid": _matcher(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"),
}
