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
from constrain.schema import format_patterns as patterns
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


_HOSTNAME, _ADDRESS = re.compile(patterns.HOSTNAME), re.compile(patterns.LITERAL)
_LOCAL, _LOCAL_WIDE = re.compile(patterns.LOCAL), re.compile(patterns.LOCAL_WIDE)


def _is_hostname(text: str) -> bool:
    if len(text) > 253 or _HOSTNAME.fullmatch(text) is None:
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
    "duration": _matcher(patterns.DURATION),
    "uri": _matcher(patterns.URI),
    "uri-reference": _matcher(f"{patterns.URI}|{patterns.URI_RELATIVE}"),
    "iri": _matcher(patterns.IRI),
    "iri-reference": _matcher(f"{patterns.IRI}|{patterns.IRI_RELATIVE}"),
    "uri-template": _matcher(patterns.TEMPLATE),
    "hostname": _is_hostname,
    "idn-hostname": _is_idn_hostname,
    "email": lambda text: _is_mailbox(text, _LOCAL, _is_hostname),
    "idn-email": lambda text: _is_mailbox(text, _LOCAL_WIDE, _is_any_hostname),
    "json-pointer": _matcher(patterns.POINTER),
    "relative-json-pointer": _matcher(patterns.RELATIVE_POINTER),
    "regex": _is_regex,
    "uuid": _matcher(patterns.UUID),
}
