"""A loose schema accepts everything that the original accepts, rule by rule and all together."""

import json
import random
from contextlib import suppress
from typing import Any

import pytest

from constrain.errors import ConstrainError, LimitExceededError, Unsupported
from constrain.schema.loosening import LOOSE_RULES, LooseSchema, loosened
from constrain.schema.validate import Validator

from ..random_schemas import instances, random_schema

INSTANCES = [json.dumps(instance) for instance in instances()]

_IF_A = {"properties": {"a": {"pattern": "a"}}}
LOOSE: list[tuple[str, Any, Any]] = [
    # (rule, schema, an instance that the loose schema must go on refusing)
    (
        "a closed object of all that may be evaluated",
        {"if": _IF_A, "then": {"properties": {"b": True}}, "else": _IF_A, "unevaluatedProperties": False},
        {"c": 1},
    ),
    (
        "a closed array of all that may be evaluated",
        {"if": {"pattern": "a"}, "else": {"prefixItems": [{"type": "null"}]}, "unevaluatedItems": False},
        [None, 1],
    ),
    (
        "the condition with then, or else alone",
        {"if": {"pattern": "a"}, "then": {"maxLength": 1}, "else": {"type": "null"}},
        "ab",
    ),
    ("the complements that are known", {"not": {"anyOf": [{"pattern": "a"}, {"type": "boolean"}]}}, True),
    ("a closed object of names that may be", {"propertyNames": {"pattern": "^a", "minLength": 2}}, {"b": 1}),
    (
        "a closed object of names that may be",
        {"propertyNames": {"anyOf": [{"pattern": "a"}], "enum": ["a", "b"]}},
        {"c": 1},
    ),
    ("a least number of items", {"contains": {"pattern": "a"}, "minContains": 2}, ["a"]),
    (
        "no more items than values",
        {"uniqueItems": True, "items": {"enum": [1, 2], "minimum": 1}, "contains": {"const": 1}},
        [1, 2, 1],
    ),
    ("anyOf", {"oneOf": [{"type": "string", "pattern": "a"}, {"type": "string", "pattern": "b"}]}, 1),
]


def accepted(schema: Any) -> set[str]:
    validator = Validator(schema if isinstance(schema, bool) else json.dumps(schema))
    return {text for text in INSTANCES if validator.error(text) is None}


def read(schema: Any, **settings: bool) -> LooseSchema:
    return loosened(json.dumps(schema), **settings)


@pytest.mark.parametrize(("name", "schema", "refused"), LOOSE)
def test_a_rule_loosens_and_still_guides(name: str, schema: Any, refused: Any) -> None:
    loose = read(schema)
    assert name in loose.losses.values()
    assert accepted(schema) <= accepted(loose.read.schema)
    assert Validator(json.dumps(loose.read.schema)).error(json.dumps(refused)) is not None


def test_every_rule_is_tried() -> None:
    assert {name for name, _, _ in LOOSE} == {rule.name for rule in LOOSE_RULES}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("exact_rules", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_random_schemas_are_only_loosened(block: int, exact_rules: bool, wide: bool) -> None:
    tried = 0
    for seed in range(40 * block, 40 * block + 40):
        schema = random_schema(random.Random(seed))
        with suppress(ConstrainError):
            valid = accepted(schema)
            loose = read(schema, exact_rules=exact_rules, any_order=wide, any_form=wide)
            assert not {use.keyword for use in loose.read.uses} & {rule.keyword for rule in LOOSE_RULES}
            assert valid <= accepted(loose.read.schema), (seed, schema, loose.read.schema)
            tried += 1
    assert tried > 25


@pytest.mark.parametrize("block", range(4))
def test_whatever_is_dropped_only_loosens(block: int) -> None:
    for seed in range(40 * block, 40 * block + 40):
        rng = random.Random(seed)
        schema = random_schema(rng)
        with suppress(ConstrainError):
            valid = accepted(schema)
            loose: LooseSchema | None = read(schema)
            while loose is not None and isinstance(loose.read.schema, dict):
                uses = [use for use in loose.read.uses if use.effective and use.keyword != "$ref"]
                if not uses:
                    break
                loose = loose.without([rng.choice(uses).unsupported("any")])
                assert loose is None or valid <= accepted(loose.read.schema), (seed, schema, loose.read.schema)


def test_overlapping_patterns_leave_their_union_closed() -> None:
    schema = {"patternProperties": {"^a": {"type": "null"}, "b$": True}, "additionalProperties": False}
    loose = read(schema).without([Unsupported("overlap", "/patternProperties", "patternProperties")])
    assert loose is not None and loose.dropped == {"/patternProperties"}
    assert accepted(loose.read.schema) == accepted({**schema, "patternProperties": {"^a": True, "b$": True}})


def test_branches_have_their_keys_in_one_order() -> None:
    branch = {"properties": {"b": {"type": "string"}}, "required": ["b"]}
    schema = {"anyOf": [{"properties": {"a": {"type": "null"}, "b": True}, "required": ["a"]}, branch]}
    made = read(schema).read.schema
    assert isinstance(made, dict) and list(made["properties"]) == ["a", "b"]
    assert accepted(made) == accepted(schema)
    alone = {"properties": {"a": {}, "b": {}}, "anyOf": [{"properties": {"b": {}}}, {"required": ["b"]}]}
    assert read(alone).read.schema == alone


def test_a_wide_schema_fixes_no_order_and_no_form() -> None:
    listed = {"a": {"type": "integer", "minimum": 1}, "b c": {"const": [1, {"x": "y"}]}}
    schema = {"type": "object", "properties": listed, "required": ["a"], "additionalProperties": False}
    made = read(schema, any_order=True, any_form=True).read.schema
    assert isinstance(made, dict) and made["patternProperties"]["^a$"] == {"type": ["number"]}
    validator = Validator(json.dumps(made))
    assert validator.error('{"b c": [2.0, {"x": "y"}], "a": 0.5}') is None
    for other in ('{"d": 1}', '{"b c": [1, {"x": "z"}]}', '{"b c": [1]}', '{"bxc": 1}', '{"a": "1"}'):
        assert validator.error(other) is not None, other


def test_loosening_is_bounded() -> None:
    schema: Any = {"const": "x"}
    for name in "abcdefghijkl":
        schema = {"oneOf": [{"properties": {name: schema}}, {"properties": {f"{name}1": schema}}]}
    with suppress(LimitExceededError):
        assert len(json.dumps(read(schema).read.schema)) < 2_000_000
