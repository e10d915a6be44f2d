"""The grammars of formats as regular expressions, of whole texts, in the syntax of Python's ``re``."""

from constrain.schema.idn_patterns import idn_domain, idn_hostname

# RFC 3339.
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
DATE = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_HOUR, _MINUTE, _FRACTION = r"(?:[01][0-9]|2[0-3])", r"[0-5][0-9]", r"(?:\.[0-9]+)?"
_USUAL = rf"{_HOUR}:{_MINUTE}:[0-5][0-9]{_FRACTION}(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"


def _leap_minutes() -> str:
    """Leap seconds as far as the minutes say whether they are the last of a day in UTC."""
    forms = []
    for minute in range(60):
        utc = "|[Zz]" if minute == 59 else ""
        shifts = rf"(?:\+{_HOUR}:{(minute + 1) % 60:02}|-{_HOUR}:{59 - minute:02}{utc})"
        forms.append(rf"{minute:02}:60{_FRACTION}{shifts}")
    return rf"{_HOUR}:(?:{'|'.join(forms)})"


def _leap_hours() -> str:
    """The same, as far as the hours say."""
    forms = []
    for hour in range(24):
        utc = "|[Zz]" if hour == 23 else ""
        after = rf"(?:\+{(hour + 1) % 24:02}:{_MINUTE}|-{23 - hour:02}:{_MINUTE}{utc})"
        within = rf"(?:\+{hour:02}|-{23 - hour:02}):{_MINUTE}"
        forms.append(rf"{hour:02}:(?:59:60{_FRACTION}{after}|(?:[0-4][0-9]|5[0-8]):60{_FRACTION}{within})")
    return f"(?:{'|'.join(forms)})"


TIMES = f"(?:{_USUAL}|{_leap_minutes()})", f"(?:{_USUAL}|{_leap_hours()})"
"""Both must match: neither remembers hours and minutes."""

# RFC 3986 and RFC 3987.
_UCS = (
    "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef"
    + "".join(f"{chr(plane << 16)}-{chr((plane << 16) + 0xFFFD)}" for plane in range(1, 14))
    + "\U000e1000-\U000efffd"
)
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd"
OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_H16 = r"[0-9A-Fa-f]{1,4}"
IPV4 = rf"(?:{OCTET}\.){{3}}{OCTET}"


def _references(more: str, private: str) -> tuple[str, str]:
    """The patterns of a whole URI and of a relative one, with ``more`` characters, and ``private`` ones in a query."""
    plain = rf"A-Za-z0-9\-._~!$&'()*+,;={more}"
    encoded = r"%[0-9A-Fa-f]{2}"
    segment = rf"(?:[{plain}:@]|{encoded})"
    literal = rf"\[(?:{IPV6}|[vV][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+)\]"
    authority = rf"//(?:(?:[{plain}:]|{encoded})*@)?(?:{literal}|(?:[{plain}]|{encoded})*)(?::[0-9]*)?(?:/{segment}*)*"
    rooted = rf"/(?:{segment}+(?:/{segment}*)*)?"
    tail = rf"(?:\?(?:{segment}|[/?{private}])*)?(?:\#(?:{segment}|[/?])*)?"
    whole = rf"[A-Za-z][A-Za-z0-9+.\-]*:(?:{authority}|{rooted}|{segment}+(?:/{segment}*)*)?{tail}"
    first = rf"(?:[{plain}@]|{encoded})+"  # without a colon, which would end a scheme
    relative = rf"(?:{authority}|{rooted}|{first}(?:/{segment}*)*)?{tail}"
    return whole, relative


def _ipv6() -> str:
    last = rf"(?:{_H16}:{_H16}|{IPV4})"
    forms = [rf"(?:{_H16}:){{6}}{last}", rf"::(?:{_H16}:){{5}}{last}"]
    for before in range(5):
        head = rf"(?:(?:{_H16}:){{0,{before}}}{_H16})?::"
        forms.append(head + rf"(?:{_H16}:){{{4 - before}}}{last}")
    forms += [rf"(?:(?:{_H16}:){{0,5}}{_H16})?::{_H16}", rf"(?:(?:{_H16}:){{0,6}}{_H16})?::"]
    return "(?:" + "|".join(forms) + ")"


IPV6 = _ipv6()
URI, URI_RELATIVE = _references("", "")
IRI, IRI_RELATIVE = _references(_UCS, _PRIVATE)

# RFC 6570.
_VARIABLE = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(?::[1-9][0-9]{0,3}|\*)?"
TEMPLATE = (
    rf"(?:[!\#$&-;=?@A-Z\[\]_a-z~{_UCS}{_PRIVATE}]|%[0-9A-Fa-f]{{2}}"
    rf"|\{{[+\#./;?&=,!@|]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
)

# ISO 8601 as RFC 3339 has it; RFC 1123; RFC 6901, and its draft for relative ones; RFC 9562.
_DURATION_TIME = r"T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
_DURATION_DATE = r"(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"
DURATION = rf"P(?:{_DURATION_DATE}(?:{_DURATION_TIME})?|{_DURATION_TIME}|[0-9]+W)"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?"
HOSTNAME = rf"{_LABEL}(?:\.{_LABEL})*"
POINTER = r"(?:/(?:[^~/]|~[01])*)*"
RELATIVE_POINTER = rf"(?:0|[1-9][0-9]*)(?:\#|{POINTER})"
UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

# RFC 5321 and RFC 6531.
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-" + "{more}]+"
_QUOTED = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e{more}]|\\[\x20-\x7e])*"'
LITERAL = rf"\[(?:{IPV4}|IPv6:{IPV6})\]"


def _local(more: str) -> str:
    atom, quoted = _ATOM.replace("{more}", more), _QUOTED.replace("{more}", more)
    return rf"(?:{atom}(?:\.{atom})*|{quoted})"


LOCAL, LOCAL_WIDE = _local(""), _local("\u0080-\U0010ffff")
"""What stands before the @ of an address, up to 64 bytes of it; the second is that of RFC 6531."""


def language_of(name: str) -> tuple[str, ...]:
    """Patterns that every text of the format ``name`` matches, each from its start to its end; none for ``regex``.

    That is all that is asked of most, but for ``MAX_LENGTHS`` and for the 64 bytes before an @. Of host names with a
    Unicode form (``xn--``, and all of ``idn-hostname``), and of what has one in it, these know the characters, their
    order and the direction of writing, but neither Punycode nor the normal form.
    """
    if name == "idn-hostname":
        return (idn_hostname(),)
    if name == "idn-email":
        return (rf"{LOCAL_WIDE}@(?:{LITERAL}|{idn_domain()})",)
    return _LANGUAGES.get(name, ())


MAX_LENGTHS = {"hostname": 253, "idn-hostname": 253, "email": 318, "idn-email": 318}
"""The most characters of a text, where there is a limit that its patterns do not say."""

_LANGUAGES: dict[str, tuple[str, ...]] = {
    "date": (DATE,),
    "time": TIMES,
    "date-time": tuple(f"{DATE}[Tt]{time}" for time in TIMES),
    "duration": (DURATION,),
    "uri": (URI,),
    "uri-reference": (f"(?:{URI}|{URI_RELATIVE})",),
    "iri": (IRI,),
    "iri-reference": (f"(?:{IRI}|{IRI_RELATIVE})",),
    "uri-template": (TEMPLATE,),
    "hostname": (HOSTNAME,),
    "email": (rf"{LOCAL}@(?:{LITERAL}|{HOSTNAME})",),
    "ipv4": (IPV4,),
    "ipv6": (IPV6,),
    "json-pointer": (POINTER,),
    "relative-json-pointer": (RELATIVE_POINTER,),
    "uuid": (UUID,),
}
