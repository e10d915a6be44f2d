"""Patterns of the texts that pydantic's types take: each as wide as is useful, and never wider than the type."""

from collections.abc import Sequence

from constrain.schema.format_patterns import IPV4, OCTET

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE = r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_AMOUNT = r"[0-9]{1,5}"
_SECONDS = r"[0-9]{1,8}(?:\.[0-9]{1,6})?S"
# Years and months have no one length.
_DURATION_TIME = rf"T(?:{_AMOUNT}H(?:{_AMOUNT}M)?(?:{_SECONDS})?|{_AMOUNT}M(?:{_SECONDS})?|{_SECONDS})"


NAIVE_DATETIME = f"^{_DATE}T{_TIME}$"
DURATION = rf"^-?P(?:[0-9]{{1,8}}D(?:{_DURATION_TIME})?|{_DURATION_TIME}|{_AMOUNT}W)$"

_INTEGER = "(?:0|[1-9][0-9]*)"
_FLOAT = r"(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?"
INTEGER = f"^-?{_INTEGER}$"
FLOAT = f"^-?{_FLOAT}$"
COMPLEX = f"^-?{_FLOAT}[+-]{_FLOAT}j$"
FRACTION = "^-?(?:0|[1-9][0-9]{0,29})(?:/[1-9][0-9]{0,29})?$"

_GROUP = "[0-9a-fA-F]{1,4}"
_IPV6 = "|".join(
    [
        f"(?:{_GROUP}:){{7}}{_GROUP}",
        f"(?:{_GROUP}:){{1,7}}:",
        *(f"(?:{_GROUP}:){{1,{7 - count}}}(?::{_GROUP}){{1,{count}}}" for count in range(1, 7)),
        f":(?::{_GROUP}){{1,7}}",
        "::",
    ]
)
_IPV4_INTERFACE = f"{IPV4}/(?:3[0-2]|[12]?[0-9])"
_IPV6_INTERFACE = f"(?:{_IPV6})/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"


def _ipv4_network() -> str:
    """The bits of the host are 0, so that the length of the prefix says which octets may be what."""
    options = [IPV4 + "(?:/32)?"]
    for length in range(32):
        whole, bits = divmod(length, 8)
        step = 1 << (8 - bits)
        octets = [OCTET] * whole + ["(?:" + "|".join(map(str, range(0, 256, step))) + ")"] + ["0"] * (3 - whole)
        options.append(r"\.".join(octets) + f"/{length}")
    return "|".join(options)


def _ipv6_network() -> str:
    """Prefixes of whole hexadecimal digits, those after them as ``::``; and single addresses."""
    options = [f"(?:{_IPV6})(?:/128)?", "::/0"]
    for length in range(4, 116, 4):
        groups, digits = divmod(length - 1, 16)
        digits = digits // 4 + 1
        options.append(f"(?:{_GROUP}:){{{groups}}}[0-9a-fA-F]{{{digits}}}{'0' * (4 - digits)}::/{length}")
    return "|".join(options)


_LABEL = "[A-Za-z0-9]{1,30}(?:-[A-Za-z0-9]{1,30})?"
# Not the reserved arpa, test, local, onion, invalid and localhost, which email-validator refuses.
_TOP_LABEL = "(?:[A-Za-z]{2,3}|[A-Za-z]{6}|info|name|tech|shop|site|club|blog|news|life|work|cloud|store|world)"
_EMAIL = rf"[A-Za-z0-9_+-]{{1,20}}(?:\.[A-Za-z0-9_+-]{{1,20}}){{0,2}}@(?:{_LABEL}\.){{1,3}}{_TOP_LABEL}"

_SIXTY_FOUR = {"+/": "[A-Za-z0-9+/]", "-_": "[A-Za-z0-9_-]"}


def base64_pattern(last_two: str, *, ascii_only: bool) -> str:
    """base64 with the padding it needs; ``last_two`` are the digits 62 and 63, ``ascii_only`` is of what it encodes."""
    any_digit = _SIXTY_FOUR[last_two]
    first, second, third = ("[A-Za-f]", "[A-HQ-Xg-nw-z0-3]", "[ABEFIJMNQRUVYZcdghklopstwx014589]")
    if not ascii_only:
        first = second = third = any_digit
    two, one = f"{first}{second}[AEIMQUYcgkosw048]=", f"{first}[AQgw]=="
    return f"^(?:{first}{second}{third}{any_digit})*(?:{two}|{one})?$"


def decimal_pattern(digits: int | None, places: int | None, *, signed: bool = True) -> str:
    """Decimals as pydantic counts: ``digits`` of all, ``places`` of them after the point at most."""
    sign = "-?" if signed else ""
    if digits is None:
        return rf"^{sign}(0|[1-9][0-9]*)(\.[0-9]{{1,{places}}})?$" if places else f"^{sign}(0|[1-9][0-9]*)$"
    places = min(places or 0, digits)
    if places == digits:
        return rf"^{sign}0\.[0-9]{{1,{places}}}$"
    integer = f"(0|[1-9][0-9]{{0,{digits - places - 1}}})"
    return rf"^{sign}{integer}(\.[0-9]{{1,{places}}})?$" if places else f"^{sign}{integer}$"


def integer_pattern(minimum: int | None) -> str:
    """Integers of at least ``minimum``, which is not negative."""
    if minimum is None:
        return INTEGER
    if minimum == 0:
        return f"^{_INTEGER}$"
    text = str(minimum)
    options = [text, f"[1-9][0-9]{{{len(text)},}}"]
    for index, digit in enumerate(text):
        if digit != "9":
            options.append(f"{text[:index]}[{int(digit) + 1}-9][0-9]{{{len(text) - index - 1}}}")
    return f"^(?:{'|'.join(options)})$"


_USER = "(?:[A-Za-z0-9_.~-]+(?::[A-Za-z0-9_.~-]+)?@)?"
_HOST = rf"(?:{IPV4}|(?:{_LABEL}\.)*[A-Za-z]{{2,20}})"
_PORT = "(?::[1-9][0-9]{0,3})?"
_URL_CHAR = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-F]{2})"
_TAIL = rf"(?:/{_URL_CHAR}*)*(?:\?(?:{_URL_CHAR}|[/?])*)?(?:#(?:{_URL_CHAR}|[/?])*)?"
_COMMON_SCHEMES = ("http", "https", "ftp", "ws", "wss", "ssh", "git", "s3")


def url_pattern(schemes: Sequence[str] | None) -> str:
    """URLs with a host, of ``schemes`` or of common ones; without a host for ``file``."""
    names = [name.replace("+", r"\+").replace(".", r"\.") for name in schemes or _COMMON_SCHEMES if name != "file"]
    options = [f"(?:{'|'.join(names)})://{_USER}{_HOST}{_PORT}{_TAIL}"] if names else []
    if schemes and "file" in schemes:
        options.append(f"file://(?:/{_URL_CHAR}+)+")
    return f"^(?:{'|'.join(options)})$"


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


OF_FORMAT: dict[str, str | None] = {
    "binary": None,
    "path": None,
    "password": None,
    "base64": None,
    "base64url": None,
    "email": _whole(_EMAIL),
    "ipv4network": _whole(_ipv4_network()),
    "ipv4interface": _whole(_IPV4_INTERFACE),
    "ipv6network": _whole(_ipv6_network()),
    "ipv6interface": _whole(_IPV6_INTERFACE),
    "ipvanyaddress": _whole(f"{IPV4}|{_IPV6}"),
    "ipvanynetwork": _whole(f"{_ipv4_network()}|{_ipv6_network()}"),
    "ipvanyinterface": _whole(f"{_IPV4_INTERFACE}|{_IPV6_INTERFACE}"),
    **{
        f"uuid{version}": f"^[0-9a-fA-F]{{8}}-[0-9a-fA-F]{{4}}-{version}[0-9a-fA-F]{{3}}-[89abAB][0-9a-fA-F]{{3}}"
        f"-[0-9a-fA-F]{{12}}$"
        for version in range(1, 9)
    },
}
"""The formats of pydantic's own that stand for a pattern, or (None) for no rule at all."""

OF_KEY_FORMAT: dict[str, str] = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}T{_TIME}{_ZONE}$",
    "time": f"^{_TIME}{_ZONE}$",
    "uuid": "^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "ipv4": _whole(IPV4),
    "ipv6": _whole(_IPV6),
}
"""Standard formats, where only a pattern can stand: as keys."""
