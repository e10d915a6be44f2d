"""``unevaluatedProperties`` and ``unevaluatedItems`` as alternatives with a known set of evaluated names or places.

Which properties count as evaluated depends on which subschemas hold. Each alternative names some that do, as conjuncts
beside the whole schema, and closes the object over what those evaluate. That is exact without saying that the others
fail: whatever they evaluate besides only allows more, and the alternative that names them, too, is there as well. Where
an alternative *drops* what a failing ``if`` would evaluate, the failure is said, so its complement must be known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from constrain.schema.negate import negate
from constrain.schema.normal import Normal, NormalObject, NormalSchema

_MAX_ALTERNATIVES = 48
_MAX_DEPTH = 20
_MAX_BRANCHES = 5


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What is evaluated: everything; or properties by name and pattern; or the first ``num_items`` items."""

    everything: bool = False
    names: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    num_items: int = 0

    def __or__(self, other: "Evaluated") -> "Evaluated":
        return Evaluated(
            self.everything or other.everything,
            self.names | other.names,
            self.patterns | other.patterns,
            max(self.num_items, other.num_items),
        )

    def covers(self, other: "Evaluated") -> bool:
        """Whether ``self`` holds all of ``other``."""
        return self.everything or (self | other == self)


@dataclass(frozen=True, slots=True)
class Alternative:
    """If all ``conjuncts`` hold, ``evaluated`` is evaluated, at least."""

    evaluated: Evaluated
    conjuncts: tuple[NormalSchema, ...] = ()

    def __and__(self, other: "Alternative") -> "Alternative":
        added = [item for item in other.conjuncts if not any(item is known for known in self.conjuncts)]
        return Alternative(self.evaluated | other.evaluated, (*self.conjuncts, *added))


Of = Literal["properties", "items"]
Alternatives = list[Alternative]


def close_unevaluated(normal: Normal, schema: NormalObject, of: Of) -> NormalSchema | None:
    """``schema`` without its unevaluated keyword, and what that comes to; None where it is not known."""
    keyword = f"unevaluated{of.capitalize()}"
    inside = schema[keyword]
    rest = schema.without(keyword)
    alternatives = _alternatives(normal, rest, of, 0)
    if alternatives is None:
        return None
    if not alternatives:
        return False
    alternatives = _without_needless(alternatives)
    closed = [_closed(schema, alternative, inside, of) for alternative in alternatives]
    if len(closed) > 1 or alternatives[0].conjuncts:
        return _conjoined(rest, NormalObject(schema.origin, {"anyOf": closed}))
    return _closed_in_place(rest, alternatives[0].evaluated, inside, of) or _conjoined(rest, closed[0])


def _closed_in_place(rest: NormalObject, known: Evaluated, inside: NormalSchema, of: Of) -> NormalObject | None:
    """Where nothing but the keywords beside it evaluates anything, it is the ordinary keyword."""
    names, patterns = rest.get("properties", {}), rest.get("patternProperties", {})
    if of == "properties" and known == Evaluated(names=frozenset(names), patterns=frozenset(patterns)):
        return NormalObject(rest.origin, {**rest, "additionalProperties": inside})
    if of == "items" and known == Evaluated(num_items=len(rest.get("prefixItems", ()))):
        return NormalObject(rest.origin, {**rest, "items": inside})
    return None


def _closed(schema: NormalObject, alternative: Alternative, inside: NormalSchema, of: Of) -> NormalObject:
    known, closing = alternative.evaluated, NormalObject(schema.origin)
    if of == "items" and not known.everything:
        if known.num_items:
            closing["prefixItems"] = [NormalObject(schema.origin) for _ in range(known.num_items)]
        closing["items"] = inside
    elif not known.everything:
        closing["properties"] = {name: NormalObject(schema.origin) for name in sorted(known.names)}
        if known.patterns:
            closing["patternProperties"] = {name: NormalObject(schema.origin) for name in sorted(known.patterns)}
        closing["additionalProperties"] = inside
    for conjunct in alternative.conjuncts:
        closing = _conjoined(closing, conjunct)
    return closing


def _conjoined(schema: NormalObject, other: NormalSchema) -> NormalObject:
    if isinstance(other, NormalObject) and not set(schema) & set(other) and not _interact(schema, other):
        return NormalObject(schema.origin, {**schema, **other})
    return NormalObject(schema.origin, {**schema, "allOf": [*schema.get("allOf", ()), other]})


def _interact(one: NormalObject, other: NormalObject) -> bool:
    """Whether keywords that read each other would come to stand side by side."""
    groups = ({"properties", "patternProperties", "additionalProperties"}, {"prefixItems", "items"},
              {"contains", "minContains", "maxContains"}, {"if", "then", "else"})  # fmt: skip
    unevaluated = any(keyword.startswith("unevaluated") for keyword in (*one, *other))
    return unevaluated or any(group & set(one) and group & set(other) for group in groups)


def _alternatives(normal: Normal, schema: NormalSchema, of: Of, depth: int) -> Alternatives | None:
    """Alternatives of which one fits every value of ``schema`` exactly, and all fit safely."""
    if not isinstance(schema, NormalObject):
        return [Alternative(Evaluated())]
    if depth > _MAX_DEPTH:
        return None
    own = _own(normal, schema, of)
    if own is None:
        return None
    found: Alternatives = [Alternative(own)]
    for more in _in_place(normal, schema, of, depth):
        if more is None or len(found) * len(more) > _MAX_ALTERNATIVES:
            return None
        found = [one & other for one in found for other in more]
    return found


def _own(normal: Normal, schema: NormalObject, of: Of) -> Evaluated | None:
    """What the keywords of ``schema`` itself evaluate, if it holds."""
    if f"unevaluated{of.capitalize()}" in schema:
        return Evaluated(everything=True)
    if of == "properties":
        names, patterns = schema.get("properties", ()), schema.get("patternProperties", ())
        return Evaluated("additionalProperties" in schema, frozenset(names), frozenset(patterns))
    if "items" in schema:
        return Evaluated(everything=True)
    if "contains" in schema and normal.contains_evaluates is not False:
        # The items that it evaluates are those that it matches.
        matches_all = normal.contains_evaluates and schema["contains"] == {}
        return Evaluated(everything=True) if matches_all else None
    return Evaluated(num_items=len(schema.get("prefixItems", ())))


def _in_place(normal: Normal, schema: NormalObject, of: Of, depth: int) -> Iterator[Alternatives | None]:
    def inner(item: NormalSchema | None) -> Alternatives | None:
        return _alternatives(normal, True if item is None else item, of, depth + 1)

    if "$ref" in schema:
        yield inner(normal.target(schema))
    for item in schema.get("allOf", ()):
        yield inner(item)
    if "anyOf" in schema:
        yield _some_of(schema["anyOf"], [_holding(item, inner(item)) for item in schema["anyOf"]])
    if "oneOf" in schema:
        branches = [_holding(item, inner(item)) for item in schema["oneOf"]]
        yield None if None in branches else [item for branch in branches for item in branch or ()]
    if "if" in schema:
        yield _conditional(normal, schema, inner(schema["if"]), inner(schema.get("then")), inner(schema.get("else")))
    for name, item in schema.get("dependentSchemas", {}).items():
        present = _holding(NormalObject(schema.origin, {"required": [name], "type": "object"}), inner(item))
        yield None if present is None else [Alternative(Evaluated()), *present]


def _holding(schema: NormalSchema, alternatives: Alternatives | None) -> Alternatives | None:
    if alternatives is None or schema is False:
        return None if alternatives is None else []
    return [Alternative(Evaluated(), (schema,)) & item for item in alternatives]


def _some_of(branches: list[NormalSchema], alternatives: list[Alternatives | None]) -> Alternatives | None:
    """Every non-empty choice of ``branches`` that hold."""
    if None in alternatives or len(branches) > _MAX_BRANCHES:
        return None
    found: Alternatives = []
    for count in range(1, len(branches) + 1):
        for chosen in combinations([item or [] for item in alternatives], count):
            found += _product(chosen)
    return found


def _product(chosen: Iterable[Alternatives]) -> Alternatives:
    found = [Alternative(Evaluated())]
    for more in chosen:
        found = [one & other for one in found for other in more]
    return found


def _conditional(
    normal: Normal,
    schema: NormalObject,
    condition: Alternatives | None,
    consequence: Alternatives | None,
    otherwise: Alternatives | None,
) -> Alternatives | None:
    if condition is None or consequence is None or otherwise is None:
        return None
    holds = _holding(schema["if"], [one & other for one in condition for other in consequence])
    assert holds is not None
    if all(item.evaluated == Evaluated() for item in otherwise):
        return [*holds, Alternative(Evaluated())]
    fails = negate(normal, schema["if"])
    if fails is None:
        return None
    return [*holds, *[Alternative(Evaluated(), (fails,)) & item for item in otherwise]]


def _without_needless(alternatives: Alternatives) -> Alternatives:
    """Without those that another one covers: it asks for less and has evaluated more."""
    kept: Alternatives = []
    for item in sorted(alternatives, key=lambda each: len(each.conjuncts)):
        if not any(other.evaluated.covers(item.evaluated) and _asks_less(other, item) for other in kept):
            kept.append(item)
    return kept


def _asks_less(one: Alternative, other: Alternative) -> bool:
    return all(any(item is known for known in other.conjuncts) for item in one.conjuncts)
