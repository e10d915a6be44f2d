"""JSON schemas for llguidance: what it must not be given, and what it must be given instead.

llguidance refuses by itself most of what it cannot do. Here stand the holes that it does not know of; each has a test
in ``tests/backends/test_llguidance.py`` that shows the hole, and that fails when the library closes it.
"""

import json
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from constrain.backends._json_schema import each_keyword
from constrain.backends._llguidance_pattern import rust_pattern
from constrain.errors import Unsupported, UnsupportedGrammarError
from constrain.grammar_spec import JsonForm

if TYPE_CHECKING:
    from constrain.schema.inventory import KeywordUse
    from constrain.schema.rewrite import Rewritten

MAX_MULTIPLE = 10_000
"""The largest multipleOf: llguidance 1.9.1 spends 3 to 16 us a unit while compiling, whatever its limits say."""

MAX_DEPTH = 100
"""How deep schemas may nest; llguidance's own parser stops between 62 and 120."""

MAX_NUMBER = 2**53
"""No larger number stands in a bound, const or enum: llguidance 1.9.1 computes with doubles and 64 bits, lets
neighbours through, and its process dies where it cuts off both bounds of a range."""

_REFUSED = frozenset({
    "not", "if", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames", "dependentRequired",
    "dependentSchemas", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip

# ipv6 and email are narrower than their RFCs, which loses texts and lets none through.
_OWN_FORMATS = frozenset({"ipv4", "ipv6", "uri", "uuid", "duration", "email"})

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
ENFORCED_FORMATS = _OWN_FORMATS | _NARROWED_FORMATS.keys()
"""The formats that are enforced; not one lets a text through that its standard refuses."""

_WHITESPACE = r"[\x20\x0A\x0D\x09]"


def unsupported_schema(schema: "Rewritten") -> list[Unsupported]:
    """What llguidance would get wrong in ``schema``, beyond what it refuses by itself."""
    found = list(each_keyword(schema, schema_support))
    for pointer, depth in schema.depths():
        if depth > MAX_DEPTH:
            return [Unsupported(f"the schema nests deeper than {MAX_DEPTH} levels", pointer)]
    found += _unsupported_bounds(schema)
    found += slow_multiples(schema)
    return found


def slow_multiples(schema: "Rewritten") -> Iterator[Unsupported]:
    """The first multipleOf, where all together take llguidance too long."""
    multiples = [use for use in schema.uses if use.effective and use.keyword == "multipleOf"]
    if multiples and _units([Fraction(str(use.value)) for use in multiples]) > MAX_MULTIPLE:
        reason = f"multiples that repeat only after more than {MAX_MULTIPLE} units take llguidance too long"
        yield multiples[0].unsupported(reason)


def schema_support(use: "KeywordUse") -> Unsupported | None:
    """Whether llguidance enforces one keyword exactly, or refuses it by itself: None. Otherwise, why not."""
    value = use.value
    if use.keyword == "false" and not use.node.pointer:
        return use.unsupported("the schema is false: no value is valid")
    if use.keyword == "dependencies":
        return use.unsupported(
            "later drafts call it dependentRequired and dependentSchemas; or name draft 7 in $schema"
        )
    if use.keyword in _REFUSED:
        return use.unsupported(f"{use.keyword} is not implemented")
    if use.keyword == "$ref" and "/patternProperties/" in value:
        return use.unsupported("a reference into patternProperties, whose keys are written in another way")
    if use.keyword in _NUMBERS and _has_large_number(value):
        return use.unsupported(f"{use.keyword} with a number beyond 2**53, which is rounded or cut off")
    if use.keyword == "minProperties" and value > max(1, len(use.siblings.get("required", ()))):
        # An object may repeat a key that no schema lists, and each time counts.
        return use.unsupported("minProperties could be met by one key written twice")
    if use.keyword == "format" and value not in ENFORCED_FORMATS:
        return use.unsupported(f"format {value!r} is not enforced exactly")
    if use.keyword in _WRITTEN and _has_unwritable(value, keys_only=use.keyword.endswith("roperties")):
        # \u escapes are off, so that an escaped key cannot slip past `properties`.
        return use.unsupported("a control character or a lone surrogate, which could only be written as a \\u escape")
    patterns = [value] if use.keyword == "pattern" else value if use.keyword == "patternProperties" else ()
    for pattern in patterns:
        problem = _pattern_problem(pattern) or _set_problem(pattern)
        if problem is not None:
            return use.unsupported(f"{use.keyword} {pattern!r}: {problem}")
    return None


def has_unwritable_text(schema: "Rewritten") -> bool:
    """Whether a keyword asks for a character that only a ``\\u`` escape can write."""
    return any(
        use.keyword in _WRITTEN and _has_unwritable(use.value, keys_only=use.keyword.endswith("roperties"))
        for use in schema.uses
        if use.effective
    )


def _unsupported_bounds(schema: "Rewritten") -> Iterator[Unsupported]:
    """Integral exclusive bounds that a fraction of the same unit could meet from the other side.

    llguidance 1.9.1 takes 1 for ``{"exclusiveMinimum": 1, "maximum": 1.5}``. Bounds of different places may come
    together, so that all are looked at; beside ``"type": "integer"`` they are right.
    """
    uses = [use for use in schema.uses if use.effective and use.keyword in _BOUNDS and _may_be_fraction(use)]
    for use in uses:
        if use.keyword.startswith("exclusive") and use.value == int(use.value):
            others, toward = _OPPOSITE[use.keyword]
            if any(each.keyword in others and _within_unit(use.value, each.value, toward) for each in uses):
                yield use.unsupported(f"{use.keyword} {use.value} where another bound is a fraction of the same unit")


def _within_unit(exclusive: float, other: float, toward: int) -> bool:
    return other != int(other) and 0 < (other - exclusive) * toward < 1


def _has_large_number(value: Any) -> bool:
    stack = [value]
    while stack:
        place = stack.pop()
        if isinstance(place, int | float) and abs(place) > MAX_NUMBER:
            return True
        if isinstance(place, dict | list):
            stack.extend(place.values() if isinstance(place, dict) else place)
    return False


def _may_be_fraction(use: "KeywordUse") -> bool:
    names = use.node.keywords.get("type", "number")
    return "number" in ([names] if isinstance(names, str) else names)


_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
_NUMBERS = _BOUNDS | {"const", "enum"}
_OPPOSITE = {
    "exclusiveMinimum": (("maximum", "exclusiveMaximum"), 1),
    "exclusiveMaximum": (("minimum", "exclusiveMinimum"), -1),
}


def json_grammar(schema: "Rewritten", form: JsonForm, *, escapes: bool = False) -> str:
    """A Lark grammar of the values of ``schema``; ``escapes`` lets characters be written as ``\\u0041``, too."""
    # json.dumps, never the caller's own text: llguidance pastes it unparsed, and a second grammar could ride along.
    data = json.loads(json.dumps(schema.schema))
    root: dict[str, Any] = {} if data is True else data
    narrowed = [use.node.pointer for use in schema.uses if use.keyword == "format" and use.value in _NARROWED_FORMATS]
    # Deepest first, since the keys of patternProperties are on the way.
    patterned = {use.node.pointer for use in schema.uses if use.keyword in ("pattern", "patternProperties")}
    spelled = sorted(patterned, key=lambda pointer: pointer.count("/"), reverse=True)
    for pointer, change_ in [*((each, _narrow_) for each in narrowed), *((each, _spell_out_) for each in spelled)]:
        change_(_at(root, pointer))
    root["x-guidance"] = _options(form, escapes)
    return f"start: %json {json.dumps(root)}\n"


def _at(root: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        root = root[int(name)] if isinstance(root, list) else root[name]
    return root


_WRITTEN = ("properties", "patternProperties", "required", "const", "enum")

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


_QUANTIFIER = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")


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
        elif char == "{":
            match = _QUANTIFIER.match(pattern, at)
            if match is None:
                return "a brace that begins no quantifier is not read alike everywhere"
            at = match.end()
            continue
        elif char == "[":
            in_class = True
            at += pattern.startswith("[^", at)
            if pattern.startswith("]", at + 1):
                return "a set that begins with ] is not read alike everywhere"
        elif pattern.startswith("(?", at) and not pattern.startswith("(?:", at):
            return "look-arounds, named groups and flags"
        at += 1
    return "it does not end its set" if in_class else None


def _set_problem(pattern: str) -> str | None:
    """Why ``rust_pattern`` cannot spell out the sets of ``pattern``; None if it can."""
    try:
        rust_pattern(pattern)
    except UnsupportedGrammarError as exc:
        return str(exc)
    return None


def _spell_out_(schema: dict[str, Any]) -> None:
    """The patterns of one schema in Rust's syntax."""
    if isinstance(schema.get("pattern"), str):
        schema["pattern"] = rust_pattern(schema["pattern"])
    if isinstance(schema.get("patternProperties"), dict):
        spelled: dict[str, Any] = {}
        for pattern, value in schema["patternProperties"].items():
            key = rust_pattern(pattern)
            while key in spelled:  # two patterns that mean the same
                key = f"(?:{key})"
            spelled[key] = value
        schema["patternProperties"] = spelled


def _narrow_(schema: dict[str, Any]) -> None:
    """A pattern in the place of a format that is too wide."""
    pattern = _NARROWED_FORMATS[schema.pop("format")]
    # Beside a pattern of its own this one needs a place of its own; llguidance intersects them.
    if "pattern" in schema:
        schema["allOf"] = [*schema.get("allOf", ()), {"pattern": pattern}]
    else:
        schema["pattern"] = pattern


def _options(form: JsonForm, escapes: bool) -> dict[str, Any]:
    # Without "u": \u0066oo would be another spelling of the key foo, which `properties` does not see.
    options: dict[str, Any] = {"json_allowed_escapes": '"\\bfnrt', "whitespace_flexible": form.whitespace == "flexible"}
    if escapes:
        options |= {"json_allowed_escapes": '"\\bfnrtu', "json_allow_general_unicode_escapes": form.escapes == "any"}
    if form.whitespace == "flexible":
        options["whitespace_pattern"] = f"{_WHITESPACE}{{0,{form.max_whitespace}}}"
    elif form.whitespace == "canonical":
        options |= {"item_separator": ", ", "key_separator": ": "}
    return options


def _units(multiples: list[Fraction]) -> int:
    """After how many units of the last digit all of ``multiples`` meet again; trailing zeros cost nothing."""
    scale = math.lcm(*(multiple.denominator for multiple in multiples))
    together = math.lcm(*(int(multiple * scale) for multiple in multiples)) or 1
    while together % 10 == 0:
        together //= 10
    return together
