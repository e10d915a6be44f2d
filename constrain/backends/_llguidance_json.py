"""JSON schemas for llguidance: what it must not be given, and what it must be given instead.

llguidance refuses by itself most of what it cannot do. Here stand the holes that it does not know of; each has a test
in ``tests/backends/test_llguidance.py`` that shows the hole, and that fails when the library closes it.
"""

import json
import math
import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Any

from constrain.backends._schema_walk import Schema, reachable_schemas
from constrain.errors import Unsupported
from constrain.grammar_spec import JsonForm

MAX_MULTIPLE = 10_000
"""The largest multipleOf: llguidance 1.9.1 spends 3 to 16 us a unit while compiling, whatever its limits say."""

MAX_DEPTH = 100
"""How deep schemas may nest; llguidance's own parser stops between 62 and 120."""

_REFUSED = (
    "not", "if", "contains", "uniqueItems", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies",
    "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef",
)  # fmt: skip

# ipv6 and email are narrower than their RFCs, which loses texts and lets none through.
_ENFORCED_FORMATS = frozenset({"ipv4", "ipv6", "uri", "uuid", "duration", "email"})

_YEAR = r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
_LEAP_YEAR = r"(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    rf"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
# llguidance 1.9.1 takes 29 February of any year and leap seconds at any time; these take only what RFC 3339 does (less
# the year 0, leap seconds and more than six digits of a fraction, which Python's datetime does not read either).
_NARROWED_FORMATS = {"date": f"^{_DATE}$", "time": f"^{_TIME}$", "date-time": f"^{_DATE}T{_TIME}$"}

_WHITESPACE = r"[\x20\x0A\x0D\x09]"


def unsupported_schema(schema: Any) -> list[Unsupported]:
    """What llguidance would get wrong in ``schema``, beyond what it refuses by itself."""
    if schema is False:
        return [Unsupported("the schema is false: no value is valid")]
    if not isinstance(schema, dict):
        return []
    found: list[Unsupported] = []
    multiples: list[Fraction] = []
    reach = reachable_schemas(schema)
    # Where references cannot be followed nothing can be rewritten safely, so that these formats stay too wide.
    formats = _ENFORCED_FORMATS | _NARROWED_FORMATS.keys() if reach.exact else _ENFORCED_FORMATS
    for place in reach.places:
        if place.depth > MAX_DEPTH:
            return [Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", place.pointer)]
        found.extend(_unsupported_here(place.pointer, place.schema, formats))
        multiple = place.schema.get("multipleOf")
        if _is_number(multiple):
            multiples.append(Fraction(str(multiple)))
    if multiples and _units(multiples) > MAX_MULTIPLE:
        reason = f"multiples that repeat only after more than {MAX_MULTIPLE} units take llguidance too long"
        found.append(Unsupported(reason, keyword="multipleOf"))
    return found


def json_grammar(schema: Any, form: JsonForm) -> str:
    """A Lark grammar of the values of ``schema``, a parsed document that this function may change."""
    root: Schema = {} if schema is True else schema
    reach = reachable_schemas(root)
    for place in reach.places if reach.exact else ():
        _neutralise_(place.schema)
    root["x-guidance"] = _options(form)
    # json.dumps, never the caller's own text: llguidance pastes it unparsed, and a second grammar could ride along.
    return f"start: %json {json.dumps(root)}\n"


def _unsupported_here(pointer: str, schema: Schema, formats: AbstractSet[str]) -> Iterator[Unsupported]:
    for keyword in _REFUSED:
        if keyword in schema and not (keyword == "uniqueItems" and schema[keyword] is False):
            yield Unsupported(f"{keyword} is not implemented", pointer, keyword)
    if "$ref" in schema and pointer and isinstance(schema.get("$id", schema.get("id")), str):
        # Up to draft 7 the $id is ignored, and the reference resolved against another base than llguidance's.
        yield Unsupported("an $id beside $ref means different things in different drafts", pointer, "$id")
    yield from _unsupported_counts(pointer, schema)
    yield from _unsupported_strings(pointer, schema)
    format_name = schema.get("format")
    if isinstance(format_name, str) and format_name not in formats:
        yield Unsupported(f"format {format_name!r} is not enforced exactly", pointer, "format")


def _unsupported_counts(pointer: str, schema: Schema) -> Iterator[Unsupported]:
    minimum = schema.get("minProperties", 0)
    required = schema.get("required", ())
    if _is_number(minimum) and minimum > max(1, len(set(required)) if isinstance(required, list) else 0):
        # An object may repeat a key that no schema lists, and each time counts.
        yield Unsupported("minProperties could be met by one key written twice", pointer, "minProperties")


def _unsupported_strings(pointer: str, schema: Schema) -> Iterator[Unsupported]:
    patterns = [("pattern", schema.get("pattern"))]
    for keyword in ("properties", "patternProperties", "required", "const", "enum"):
        if keyword in schema and _has_unwritable(schema[keyword], keys_only=keyword.endswith("roperties")):
            # \u escapes are off, so that an escaped key cannot slip past `properties`.
            reason = "a control character or a lone surrogate, which could only be written as a \\u escape"
            yield Unsupported(reason, pointer, keyword)
    if isinstance(schema.get("patternProperties"), dict):
        patterns += [("patternProperties", name) for name in schema["patternProperties"]]
    for keyword, pattern in patterns:
        problem = _pattern_problem(pattern) if isinstance(pattern, str) else None
        if problem is not None:
            yield Unsupported(f"{keyword} {pattern!r}: {problem}", pointer, keyword)


_UNWRITABLE = re.compile(r"[\x00-\x07\x0b\x0e-\x1f\x7f\ud800-\udfff]")


def _has_unwritable(value: Any, *, keys_only: bool = False) -> bool:
    stack = [value]
    while stack:
        place = stack.pop()
        if isinstance(place, str):
            if _UNWRITABLE.search(place):
                return True
        elif isinstance(place, dict):
            stack.extend(place)
            if not keys_only:
                stack.extend(place.values())
        elif isinstance(place, list):
            stack.extend(place)
    return False


_ESCAPES = re.compile(r"\\(?:[dDwWsSnrtfv]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|[pP]\{\w+\}|[^A-Za-z0-9])", re.ASCII)


def _pattern_problem(pattern: str) -> str | None:
    """Why Rust's ``regex`` would read ``pattern`` in another way than ECMAScript; None if it reads it alike."""
    at, in_class = 0, False
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            match = _ESCAPES.match(pattern, at)
            if match is None:
                return f"the escape {pattern[at : at + 2]!r} is not read alike everywhere"
            at = match.end()
            continue
        if in_class:
            if char == "[" or pattern[at : at + 2] in ("&&", "--", "~~"):
                return "nested sets and set operations are not ECMAScript's"
            in_class = char != "]"
        elif char == "[":
            in_class = True
            at += pattern.startswith("[^", at)
            if pattern.startswith("]", at + 1):
                return "a set that begins with ] is not read alike everywhere"
        elif pattern.startswith("(?", at) and not pattern.startswith("(?:", at):
            return "look-arounds, named groups and flags"
        at += 1
    return "it does not end its set" if in_class else None


def _neutralise_(schema: Schema) -> None:
    """Take out what switches checks off or changes nothing, and narrow the formats that are too wide."""
    schema.pop("x-guidance", None)
    if schema.get("uniqueItems") is False:
        del schema["uniqueItems"]
    pattern = _NARROWED_FORMATS.get(str(schema.get("format")))
    if pattern is not None:
        del schema["format"]
        # Beside a pattern of its own this one needs a place of its own; llguidance intersects them.
        if "pattern" in schema:
            schema["allOf"] = [*schema.get("allOf", ()), {"pattern": pattern}]
        else:
            schema["pattern"] = pattern


def _options(form: JsonForm) -> dict[str, Any]:
    # Without "u": \u0066oo would be another spelling of the key foo, which `properties` does not see.
    options: dict[str, Any] = {"json_allowed_escapes": '"\\bfnrt', "whitespace_flexible": form.whitespace == "flexible"}
    if form.whitespace == "flexible":
        options["whitespace_pattern"] = f"{_WHITESPACE}{{0,{form.max_whitespace}}}"
    elif form.whitespace == "canonical":
        options |= {"item_separator": ", ", "key_separator": ": "}
    return options


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _units(multiples: list[Fraction]) -> int:
    """After how many units of the last digit all of ``multiples`` meet again; trailing zeros cost nothing."""
    scale = math.lcm(*(multiple.denominator for multiple in multiples))
    together = math.lcm(*(int(multiple * scale) for multiple in multiples)) or 1
    while together % 10 == 0:
        together //= 10
    return together
