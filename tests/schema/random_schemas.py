"""Random small schemas that crowd the keywords which rewriting rules take apart, and instances that meet them."""

import itertools
import random
from typing import Any

NAMES = ("a", "b", "c")
SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 2, -1, 1.5, "", "a", "b", "aa", "ab", "x")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


def random_schema(rng: random.Random, depth: int = 2) -> Any:
    """One to three keywords, with subschemas down to ``depth``."""
    if depth < 0 or rng.random() < 0.12:
        return rng.choice([True, True, False])
    keywords: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        keywords |= _keyword(rng, depth)
    return keywords


def _keyword(rng: random.Random, depth: int) -> dict[str, Any]:
    def sub() -> Any:
        return random_schema(rng, depth - 1)

    def subs() -> list[Any]:
        return [sub() for _ in range(rng.randint(1, 3))]

    def names() -> list[str]:
        return rng.sample(NAMES, rng.randint(1, 2))

    simple = [
        lambda: {"type": rng.choice(TYPES)},
        lambda: {"type": rng.sample(TYPES, 2)},
        lambda: {"const": rng.choice(SCALARS)},
        lambda: {"enum": rng.sample(SCALARS, 3)},
        lambda: {"required": names()},
        lambda: {rng.choice(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]): rng.choice([0, 1, 1.5])},
        lambda: {
            rng.choice(["minLength", "maxLength", "minItems", "maxItems", "maxProperties"]): rng.choice([0, 1, 2])
        },
        lambda: {"pattern": rng.choice(["^a", "b$", "^a?b?$"])},
    ]
    nested = [
        lambda: {"properties": {name: sub() for name in names()}},
        lambda: {"properties": {name: sub() for name in names()}, "additionalProperties": sub()},
        lambda: {"patternProperties": {"^a": sub()}},
        lambda: {"prefixItems": subs(), "items": sub()},
        lambda: {"items": sub()},
        lambda: {rng.choice(["allOf", "anyOf", "oneOf"]): subs()},
        lambda: {"oneOf": subs()},
        lambda: {"not": sub()},
        lambda: {"if": sub(), "then": sub(), "else": sub()},
        lambda: {"if": sub(), rng.choice(["then", "else"]): sub()},
        lambda: {"dependentRequired": {name: names() for name in names()}},
        lambda: {"dependentSchemas": {name: sub() for name in names()}},
        lambda: {"propertyNames": rng.choice([{"enum": ["a", "b"]}, {"maxLength": 1}, {"pattern": "^a"}, sub()])},
        lambda: {"contains": sub(), **rng.choice([{}, {"minContains": 0}, {"maxContains": 1}, {"minContains": 2}])},
        lambda: {"uniqueItems": True, "type": "array", "items": {"enum": [1, True, "a"]}},
        lambda: {"uniqueItems": True, "maxItems": rng.choice([1, 2])},
        lambda: {"unevaluatedProperties": rng.choice([False, sub()])},
        lambda: {"unevaluatedItems": rng.choice([False, sub()])},
    ]
    return rng.choice(simple if depth == 0 or rng.random() < 0.4 else nested)()


def instances() -> list[Any]:
    """Scalars, short arrays and small objects, nested once."""
    arrays = [list(items) for count in range(3) for items in itertools.product(SCALARS[1:12:2], repeat=count)]
    values = (None, 1, "a", [1], {"a": 1})
    objects = [
        dict(zip(chosen, given, strict=True))
        for count in range(4)
        for chosen in itertools.combinations((*NAMES, "aa"), count)
        for given in itertools.islice(itertools.product(values, repeat=count), 12)
    ]
    deeper = [
        {"a": {"b": 1}},
        {"a": {"a": None, "b": "x"}},
        [{"a": 1}, {}],
        [[], [1, 1]],
        [1, 1, 1],
        [{}, {}, {"b": []}],
    ]
    return [*SCALARS, *arrays, *objects, *deeper]
