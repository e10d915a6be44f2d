"""What stands before the @ of an address, up to 64 bytes of it, one character after the other (RFC 5321, 4.5.3.1.1)."""

from typing import Literal

from constrain.schema.evaluation.stepping import SteppingAutomaton

Part = Literal["begin", "atom", "dot", "quoted", "escape", "closed", "domain"]
LocalPlace = tuple[Part, int]
"""The part that is open, and the bytes so far."""

_MAX_BYTES = 64
_NEEDED = {"begin": 1, "atom": 0, "dot": 1, "quoted": 1, "escape": 2, "closed": 0, "domain": 0}
"""The bytes before the @ may come."""


class LocalPart(SteppingAutomaton[LocalPlace]):
    """The prefixes of texts with such a part before an @; characters that mean nothing here may be any.

    Each character of ASCII is a class, and then all of two, three and four bytes.
    """

    def __init__(self) -> None:
        super().__init__(("begin", 0), 131)

    def class_of(self, code: int) -> int:
        return code if code < 0x80 else 128 + (code > 0x7FF) + (code > 0xFFFF)

    def after(self, place: LocalPlace, number: int) -> LocalPlace | None:
        part, count = place
        following = _following(part, chr(min(number, 128)))
        if following == "domain":
            return following, 0
        if following is None:
            return None
        count += 1 if number < 128 else number - 126
        return (following, count) if count + _NEEDED[following] <= _MAX_BYTES else None

    def is_end(self, place: LocalPlace) -> bool:
        return place[0] == "domain"


def _following(part: Part, char: str) -> Part | None:
    if part == "domain":
        return "domain"
    if part == "escape":
        return "quoted"
    if part == "quoted":
        return "closed" if char == '"' else "escape" if char == "\\" else "quoted"
    if char == "@":
        return "domain" if part in ("atom", "closed") else None
    if part == "closed":
        return None
    if char == '"':
        return "quoted" if part == "begin" else None
    if char == ".":
        return "dot" if part == "atom" else None
    return "atom"
