"""The complement of a schema as a schema, where one exists that says exactly that.

``not`` has no grammar. But the values outside ``{"type": "object", "required": ["a"]}`` are those of other types and
the objects without ``a``: by De Morgan's laws, keyword by keyword. A keyword whose complement no schema says
(``pattern``, ``multipleOf``, ``items``) gives None.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from constrain.schema.normal import Normal, NormalObject, NormalSchema
from constrain.schema.proofs import ALL_TYPES, as_type, disjoint, kind_of, kinds_of_type

_MAX_DEPTH = 12
_MAX_BRANCHES = 64
_PLAIN = re.compile(r"[^\x00-\x1f\x7f\ud800-\udfff]*")

# Keywords that are read together: their complement is that of the group.
_GROUPS = (
    ("properties", "patternProperties", "additionalProperties"),
    ("prefixItems", "items"),
    ("contains", "minContains", "maxContains"),
    ("if", "then", "else"),
)
_KINDS_ABOUT = {"string": frozenset({"string"}), "number": frozenset({"integer", "fraction"}),
                "array": frozenset({"array"}), "object": frozenset({"object"})}  # fmt: skip


def negate(
    normal: Normal, schema: NormalSchema, within: frozenset[str] = ALL_TYPES, depth: int = 0
) -> NormalSchema | None:
    """A schema that accepts a value of the kinds ``within`` if and only if ``schema`` refuses it.

    What it says of other values is open. None where no such schema is known.
    """
    if not isinstance(schema, NormalObject):
        return NormalObject("")
    if depth > _MAX_DEPTH:
        return None
    within &= ALL_TYPES
    branches: list[NormalSchema] = []
    for part in _parts(schema):
        outside = _negated_part(normal, part, within, depth)
        if outside is None:
            return None
        if outside is not False:
            branches.append(_from(schema, outside))
    return _any_of(schema, branches)


def _parts(schema: NormalObject) -> list[NormalObject]:
    """One schema for each keyword, or group of keywords, of ``schema``."""
    grouped = {keyword: group for group in _GROUPS for keyword in group}
    names = dict.fromkeys(grouped.get(keyword, (keyword,)) for keyword in schema)
    return [schema.only(*group) for group in names]


def _negated_part(normal: Normal, part: NormalObject, within: frozenset[str], depth: int) -> NormalSchema | None:
    keyword = next(iter(part))
    value = part[keyword]

    def inner(item: NormalSchema) -> NormalSchema | None:
        return negate(normal, item, within, depth + 1)

    match keyword:
        case "type":
            return _typed(within - kinds_of_type(value))
        case "const" | "enum":
            return _outside_values([value] if keyword == "const" else value, within)
        case "$ref":
            return inner(normal.target(part))
        case "not":
            inside: NormalSchema = value
            return inside
        case "allOf":
            return _joined("anyOf", [inner(item) for item in value])
        case "anyOf":
            return _joined("allOf", [inner(item) for item in value])
        case "oneOf":
            pairs = [(a, b) for n, a in enumerate(value) for b in value[n + 1 :]]
            exclusive = all(disjoint(normal, a, b) for a, b in pairs)
            return _joined("allOf", [inner(item) for item in value]) if exclusive else None
        case "if" | "then" | "else" if "if" in part:
            return _negated_condition(part, inner)
        case "required":
            absent = [NormalObject("", {"properties": {name: False}}) for name in value]
            return _about("object", within, _joined("anyOf", absent))
        case "properties" if len(part) == 1:
            return _about(
                "object", within, _joined("anyOf", [_has(normal, name, value[name], depth) for name in value])
            )
        case "prefixItems" if len(part) == 1:
            items = [_has_item(normal, index, item, depth) for index, item in enumerate(value)]
            return _about("array", within, _joined("anyOf", items))
        case "dependentRequired":
            broken = [
                NormalObject("", {"required": [name], "properties": {other: False}})
                for name, others in value.items() for other in others if other != name
            ]  # fmt: skip
            return _about("object", within, _joined("anyOf", broken))
        case _ if len(part) == 1:
            return _negated_bound(keyword, value, within)
    return None


def _negated_condition(part: NormalObject, inner: Callable[[NormalSchema], NormalSchema | None]) -> NormalSchema | None:
    """Of if-then-else: the condition and not then, or not the condition and not else."""
    condition = part["if"]
    branches: list[NormalSchema | None] = []
    if "then" in part:
        branches.append(_joined("allOf", [condition, inner(part["then"])]))
    if "else" in part:
        branches.append(_joined("allOf", [inner(condition), inner(part["else"])]))
    return _joined("anyOf", branches)


_BOUNDS: dict[str, tuple[str, str, int]] = {
    "minimum": ("number", "exclusiveMaximum", 0), "maximum": ("number", "exclusiveMinimum", 0),
    "exclusiveMinimum": ("number", "maximum", 0), "exclusiveMaximum": ("number", "minimum", 0),
    "minLength": ("string", "maxLength", -1), "maxLength": ("string", "minLength", 1),
    "minItems": ("array", "maxItems", -1), "maxItems": ("array", "minItems", 1),
    "minProperties": ("object", "maxProperties", -1), "maxProperties": ("object", "minProperties", 1),
}  # fmt: skip


def _negated_bound(keyword: str, value: Any, within: frozenset[str]) -> NormalSchema | None:
    if keyword not in _BOUNDS:
        return None
    about, opposite, step = _BOUNDS[keyword]
    bound = value + step
    if step == -1 and bound < 0:
        return False
    return _about(about, within, NormalObject("", {opposite: bound}))


def _has(normal: Normal, name: str, schema: NormalSchema, depth: int) -> NormalSchema | None:
    """Objects whose property ``name`` is there, and outside ``schema``."""
    outside = negate(normal, schema, ALL_TYPES, depth + 1)
    if outside is None or outside is False:
        return outside
    return NormalObject("", {"required": [name], "properties": {name: outside}})


def _has_item(normal: Normal, index: int, schema: NormalSchema, depth: int) -> NormalSchema | None:
    outside = negate(normal, schema, ALL_TYPES, depth + 1)
    if outside is None or outside is False:
        return outside
    return NormalObject(
        "", {"minItems": index + 1, "prefixItems": [*(NormalObject("") for _ in range(index)), outside]}
    )


def _about(name: str, within: frozenset[str], schema: NormalSchema | None) -> NormalSchema | None:
    """``schema`` for values of one type only."""
    allowed = as_type(within & _KINDS_ABOUT[name])
    if schema is None or schema is False or allowed == []:
        return schema if schema is None else False
    if allowed is None or not isinstance(schema, NormalObject):
        return None
    if "anyOf" in schema:
        return NormalObject("", {"type": allowed, "anyOf": schema["anyOf"]})
    return NormalObject("", {"type": allowed, **schema})


def _typed(allowed: frozenset[str]) -> NormalSchema | None:
    names = as_type(allowed)
    if names is None:
        return None
    return NormalObject("", {"type": names}) if names else False


def _outside_values(values: list[Any], within: frozenset[str]) -> NormalSchema | None:
    """All values of ``within`` but ``values``."""
    untouched = within - {kind_of(value) for value in values}
    if "integer" in within - untouched or "fraction" in within - untouched:
        untouched -= {"integer", "fraction"}
    branches: list[NormalSchema] = []
    for kind in within - untouched:
        own = [value for value in values if kind_of(value) == kind]
        if kind == "boolean":
            left = [value for value in (True, False) if value not in [item for item in own if isinstance(item, bool)]]
            branches += [NormalObject("", {"enum": left})] if left else []
        elif kind == "string":
            pattern = _other_strings(own)
            if pattern is None:
                return None
            branches.append(NormalObject("", {"type": "string", "pattern": pattern}))
        elif kind in ("object", "array"):
            return None
    numbers = [value for value in values if kind_of(value) in ("integer", "fraction")]
    if numbers and within & {"integer", "fraction"}:
        name = as_type(within & {"integer", "fraction"})
        if name is None:
            return None
        branches += _between(sorted(set(numbers)), name)
    if untouched:
        typed = _typed(untouched)
        if typed is None:
            return None
        branches.append(typed)
    return _any_of(NormalObject(""), branches)


def _between(numbers: list[Any], name: list[str]) -> list[NormalSchema]:
    """The intervals between ``numbers``, in their order."""
    bounds = [None, *numbers, None]
    gaps: list[NormalSchema] = []
    for low, high in pairwise(bounds):
        gap: dict[str, Any] = {"type": name}
        gap |= {} if low is None else {"exclusiveMinimum": low}
        gap |= {} if high is None else {"exclusiveMaximum": high}
        if not (name == ["integer"] and low is not None and high is not None and high - low <= 1):
            gaps.append(NormalObject("", gap))
    return gaps


def _other_strings(strings: list[str]) -> str | None:
    """A pattern of all strings but ``strings``; None where one of them has a character that patterns must escape."""
    if len(strings) > 50 or not all(_PLAIN.fullmatch(text) for text in strings):
        return None
    return f"^{_other_than(frozenset(strings))}$"


def _other_than(strings: frozenset[str]) -> str:
    """Branch by the first character: none, another one, or one of these and then something else."""
    heads = sorted({text[0] for text in strings if text})
    branches = [] if "" in strings else [""]
    known = "".join(_literal(head) for head in heads)
    branches.append((f"[^{known}]" if heads else "[\\s\\S]") + "[\\s\\S]*")
    for head in heads:
        branches.append(_literal(head) + _other_than(frozenset(text[1:] for text in strings if text[:1] == head)))
    return "(?:" + "|".join(branches) + ")"


def _literal(char: str) -> str:
    # Not a backslash: \< is a word boundary in the regular expressions of Rust.
    return f"\\x{ord(char):02x}" if char.isascii() and not char.isalnum() else char


def _joined(keyword: str, schemas: Sequence[NormalSchema | None]) -> NormalSchema | None:
    if any(item is None for item in schemas):
        return None
    known = [item for item in schemas if item is not None]
    if keyword == "anyOf":
        return _any_of(NormalObject(""), [item for item in known if item is not False])
    if False in known:
        return False
    kept = [item for item in known if item]
    return kept[0] if len(kept) == 1 else NormalObject("", {"allOf": kept} if kept else {})


def _any_of(like: NormalObject, branches: list[NormalSchema]) -> NormalSchema | None:
    if len(branches) > _MAX_BRANCHES:
        return None
    if len(branches) <= 1:
        return branches[0] if branches else False
    return NormalObject(like.origin, {"anyOf": branches})


def _from(schema: NormalObject, made: NormalSchema) -> NormalSchema:
    if isinstance(made, NormalObject) and not made.origin:
        made.origin = schema.origin
    return made
