"""Every rewriting rule is an equivalence: the same values are valid before and after."""

import json
import random
from contextlib import suppress
from functools import cache
from typing import Any

import pytest

from constrain.errors import ConstrainError, InvalidSchemaError, LimitExceededError, Unsupported
from constrain.schema import DRAFT_4, DRAFT_7, DRAFT_2019_09, Dialect, parse_schema
from constrain.schema.negate import negate
from constrain.schema.normal import NormalObject, normalise
from constrain.schema.rewrite import Rewritten, rewritten
from constrain.schema.rules import RULES
from constrain.schema.validate import Validator

from .data import bench_cases, each_dialect, needs_bench, needs_suite, suite_cases, suite_documents
from .random_schemas import instances, random_schema

CONDITION = "alternatives with and without the condition"
EXCLUDING = "anyOf with branches that exclude each other"
ITEMS = "a closed array of the evaluated items"
CLOSED = "a closed object of the evaluated properties"
ALTERNATIVES = "alternatives with and without the property"
TAKEN_OUT: list[tuple[str, Any]] = [
    (CLOSED, {"properties": {"a": True}, "unevaluatedProperties": False}),
    (
        CLOSED,
        {"properties": {"a": True}, "patternProperties": {"^aa": True}, "unevaluatedProperties": {"type": "null"}},
    ),
    (CLOSED, {"allOf": [{"properties": {"a": True}}], "properties": {"b": True}, "unevaluatedProperties": False}),
    (
        CLOSED,
        {
            "$ref": "#/$defs/x",
            "unevaluatedProperties": False,
            "$defs": {"x": {"properties": {"a": {"type": "integer"}}}},
        },
    ),
    (
        CLOSED,
        {
            "anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": True}, "required": ["b"]}],
            "unevaluatedProperties": False,
        },
    ),
    (
        CLOSED,
        {
            "oneOf": [
                {"properties": {"a": {"type": "null"}}, "required": ["a"]},
                {"properties": {"b": True}, "required": ["b"]},
            ],
            "unevaluatedProperties": False,
        },
    ),
    (
        CLOSED,
        {
            "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
            "then": {"properties": {"b": True}},
            "unevaluatedProperties": False,
        },
    ),
    (
        CLOSED,
        {
            "if": {"required": ["a"]},
            "then": {"properties": {"a": True}},
            "else": {"properties": {"b": True}},
            "unevaluatedProperties": False,
        },
    ),
    (
        CLOSED,
        {
            "dependentSchemas": {"a": {"properties": {"b": True}}},
            "properties": {"a": True},
            "unevaluatedProperties": False,
        },
    ),
    (CLOSED, {"not": {"not": {"properties": {"a": True}}}, "unevaluatedProperties": False}),
    (CLOSED, {"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False, "maxProperties": 1}),
    (ITEMS, {"prefixItems": [True], "unevaluatedItems": False}),
    (ITEMS, {"anyOf": [{"prefixItems": [{"const": 1}]}, {"prefixItems": [True, True]}], "unevaluatedItems": False}),
    (ITEMS, {"allOf": [{"items": {"type": ["integer", "null"]}}], "unevaluatedItems": False}),
    (CONDITION, {"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": ["integer", "array"]}}),
    (CONDITION, {"if": {"properties": {"a": {"const": "a"}}, "required": ["a"]}, "then": {"required": ["b"]}}),
    (CONDITION, {"if": {"minimum": 1}, "else": {"type": "null"}}),
    ("the complement", {"not": {"type": ["string", "number"]}}),
    ("the complement", {"not": {"enum": ["a", "ab", "", 1, 1.5, True, None]}}),
    ("the complement", {"type": "integer", "not": {"enum": [0, 1]}}),
    ("the complement", {"not": {"required": ["a", "b"]}}),
    ("the complement", {"not": {"anyOf": [{"maximum": 1}, {"type": "object", "properties": {"a": {"type": "null"}}}]}}),
    ("the complement", {"not": {"prefixItems": [{"const": 1}], "minItems": 1}}),
    ("the complement", {"not": {"if": {"type": "string"}, "then": {"maxLength": 1}, "else": {"type": "array"}}}),
    (ALTERNATIVES, {"dependentRequired": {"a": ["b", "c"], "b": []}}),
    (ALTERNATIVES, {"dependentSchemas": {"a": {"maxProperties": 1}, "b": False}}),
    ("a closed object of the names", {"propertyNames": {"enum": ["a", 1]}, "maxProperties": 1}),
    ("a closed object of the names", {"propertyNames": {"pattern": "^a"}, "properties": {"a": {"type": "null"}}}),
    ("a closed object of the names", {"propertyNames": {"type": "string", "minLength": 2}}),
    ("a closed object of the names", {"propertyNames": {"type": "integer"}}),
    ("counts and places of items", {"contains": True, "maxContains": 1}),
    ("counts and places of items", {"contains": {"const": 1}, "minContains": 0, "maxItems": 1}),
    ("counts and places of items", {"contains": {"const": 1}, "maxItems": 2}),
    ("counts and places of items", {"contains": {"type": "string"}, "minContains": 0, "maxContains": 0}),
    ("counts and places of items", {"contains": False}),
    ("all arrays of distinct items", {"uniqueItems": True, "maxItems": 1}),
    (
        "all arrays of distinct items",
        {"type": "array", "uniqueItems": True, "items": {"enum": [1, True, "a"]}, "minItems": 1},
    ),
    (
        "all arrays of distinct items",
        {"type": "array", "uniqueItems": True, "prefixItems": [{"type": "boolean"}], "items": False},
    ),
    (EXCLUDING, {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
    (EXCLUDING, {"oneOf": [{"minimum": 2}, {"maximum": 1}], "type": "number"}),
    (EXCLUDING, {"oneOf": [{"minimum": 0}, {"maximum": 1}]}),
    (EXCLUDING, {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}),
    (
        EXCLUDING,
        {
            "type": "object",
            "required": ["a"],
            "oneOf": [{"properties": {"a": {"const": c}, "b": {"type": t}}} for c, t in ((1, "null"), ("a", "string"))],
        },
    ),
]
KEPT: list[Any] = [
    {"not": {"type": "integer"}},
    {"not": {"pattern": "^a"}},
    {"not": {"items": {"type": "null"}}},
    {"not": {"const": [1]}},
    {"if": {"multipleOf": 2}, "then": {"minimum": 1}},
    {"if": {"pattern": "a"}, "then": {"maxLength": 1}},
    {"contains": {"const": 1}},
    {"contains": {"const": 1}, "maxItems": 2, "minContains": 2},
    {"type": "array", "uniqueItems": True},
    {"uniqueItems": True, "items": {"type": "boolean"}},
    {"oneOf": [{"pattern": "^a"}, {"minLength": 2}], "type": "string"},
    {"propertyNames": {"pattern": "a", "maxLength": 2}},
    {"contains": {"type": "string"}, "unevaluatedItems": False},
    {
        "if": {"pattern": "a"},
        "then": {"properties": {"a": True}},
        "else": {"properties": {"b": True}},
        "unevaluatedProperties": False,
    },
]
TEXTS = [json.dumps(value) for value in instances()]


@cache
def verdicts(schema_text: str) -> list[bool]:
    validator = Validator(schema_text)
    return [validator.error(text) is None for text in TEXTS]


def assert_equivalent(schema: Any) -> Rewritten:
    text = json.dumps(schema)
    result = rewritten(text)
    validator = Validator(json.dumps(result.schema))
    for instance, verdict in zip(TEXTS, verdicts(text), strict=True):
        assert (validator.error(instance) is None) == verdict, (instance, result.schema)
    return result


@pytest.mark.parametrize(("rule", "schema"), TAKEN_OUT)
def test_a_rule_takes_its_keyword_out_and_changes_no_verdict(rule: str, schema: Any) -> None:
    result = assert_equivalent(schema)
    assert rule in result.rules.values()
    keywords = {each.keyword for each in RULES if each.name in result.rules.values()}
    assert not keywords & {use.keyword for use in result.uses if use.effective}
    assert len(set(verdicts(json.dumps(schema)))) == 2, "the instances do not try this schema"


def test_every_rule_is_tried() -> None:
    assert {rule for rule, _ in TAKEN_OUT} == {rule.name for rule in RULES}


@pytest.mark.parametrize("schema", KEPT)
def test_what_no_schema_says_exactly_is_kept(schema: Any) -> None:
    result = assert_equivalent(schema)
    assert {use.keyword for use in result.uses} & {rule.keyword for rule in RULES}


@pytest.mark.parametrize("block", range(10))
def test_random_schemas_keep_their_verdicts(block: int) -> None:
    for seed in range(15 * block, 15 * block + 15):
        schema = random_schema(random.Random(seed))
        try:
            Validator(schema)
        except InvalidSchemaError:
            continue
        assert_equivalent(schema)


@needs_suite
@each_dialect
def test_the_suite_keeps_its_verdicts(dialect: Dialect) -> None:
    for name, case in suite_cases(dialect, optional=False):
        try:
            text = json.dumps(parse_schema(case["schema"], documents=suite_documents(), dialect=dialect))
        except ConstrainError:
            continue  # test_load lists them
        validator = Validator(json.dumps(rewritten(text).schema))
        for test in case["tests"]:
            assert (validator.error(json.dumps(test["data"])) is None) == test["valid"], (name, test["description"])


@needs_bench
def test_the_collection_keeps_its_verdicts() -> None:
    for case in bench_cases()[::7]:
        text = json.dumps(case["schema"])
        before, after = Validator(text), Validator(json.dumps(rewritten(text).schema))
        for test in case["tests"]:
            data = json.dumps(test["data"])
            assert (before.error(data) is None) == (after.error(data) is None), case["name"]


@pytest.mark.parametrize(
    ("schema", "dialect", "expected"),
    [
        ({"minimum": 1, "exclusiveMinimum": True}, DRAFT_4, {"exclusiveMinimum": 1}),
        ({"exclusiveMaximum": True, "maximum": 1.0}, DRAFT_4, {"exclusiveMaximum": 1}),
        ({"items": [{}, False], "additionalItems": {"type": "null"}}, DRAFT_7, {"items": False, "prefixItems": [{}]}),
        ({"items": {}, "additionalItems": False}, DRAFT_7, {}),
        ({"title": "x", "minLength": 2.0, "x-guidance": {}, "format": "date"}, DRAFT_7, {"minLength": 2}),
        ({"$ref": "#/definitions/a", "type": "null", "definitions": {"a": {"const": 1.0}}}, DRAFT_7,
         {"$ref": "#/$defs/0", "$defs": {"0": {"const": 1}}}),
        ({"$recursiveAnchor": True, "items": {"$recursiveRef": "#"}}, DRAFT_2019_09,
         {"items": {"$ref": "#/$defs/0"}, "$defs": {"0": {"items": {"$ref": "#/$defs/0"}}}}),
    ],
)  # fmt: skip
def test_every_draft_comes_to_one_form(schema: Any, dialect: Dialect, expected: Any) -> None:
    assert rewritten(json.dumps(parse_schema(schema, dialect=dialect))).schema == expected


def test_contains_evaluates_items_since_2020_12_only() -> None:
    schema = {"contains": True, "unevaluatedItems": False}
    assert rewritten(json.dumps(schema)).schema == {"minItems": 1}
    old = {"$schema": DRAFT_2019_09.uri, **schema}
    validator = Validator(json.dumps(rewritten(json.dumps(old)).schema))
    assert validator.error("[1]") is not None and validator.error("1") is None


def test_what_is_refused_is_named_at_its_own_place() -> None:
    result = rewritten(json.dumps({"properties": {"a/b": {"oneOf": [{"pattern": "a"}, {"if": {"pattern": "b"}}]}}}))
    kept = next(use for use in result.uses if use.keyword == "oneOf")
    assert result.at_home(kept.unsupported("x")) == Unsupported("x", "/properties/a~1b/oneOf", "oneOf")
    made = rewritten(json.dumps({"if": {"type": "object"}, "then": {"not": {"pattern": "a"}}}))
    kept = next(use for use in made.uses if use.keyword == "not")
    assert made.at_home(kept.unsupported("x")).pointer == "/then/not"


def test_rewriting_is_bounded() -> None:
    schema: Any = {"const": "x"}
    for name in "abcdefghijkl":
        schema = {"oneOf": [{"properties": {name: schema}}, {"properties": {f"{name}1": schema}}]}
    with suppress(LimitExceededError):
        rewritten(json.dumps(schema))


def test_the_complement_of_the_complement_is_the_schema() -> None:
    from constrain.schema import inventory, load_graph

    for schema in ({"type": "string", "minLength": 1}, {"enum": [True, 1]}, {"required": ["a"], "minProperties": 1}):
        graph = load_graph(schema)
        normal = normalise(graph, inventory(graph))
        once = negate(normal, normal.root)
        assert isinstance(once, NormalObject)
        twice = negate(normal, once)
        assert verdicts(json.dumps(twice)) == verdicts(json.dumps(schema))
