"""The exact validator: nothing invalid passes, nothing valid is refused."""

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrain.errors import ConstrainError, InvalidValueError
from constrain.schema import DRAFT_7, Validator
from constrain.schema.exact import is_multiple
from constrain.schema.validate import read_value

from .data import bench_cases, each_dialect, needs_bench, needs_suite, suite_cases, suite_documents

# Optional tests of what no draft since makes an assertion: contents, and `dependencies` after it was taken out.
ONLY_ANNOTATED = ("content.json", "dependencies-compatibility.json")


def is_valid(schema, text, **options):
    return Validator(schema, **options).error(text) is None


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"multipleOf": 0.1}, "0.3", True),
        ({"multipleOf": 0.01}, "4.35", True),
        ({"multipleOf": 0.01}, "19.99", True),
        ({"multipleOf": 0.01}, "19.991", False),
        ({"multipleOf": 0.1}, "1e400", True),
        ({"multipleOf": 3}, "1e999999999", False),
        ({"multipleOf": 0.5}, "1e-999999999", False),
        ({"multipleOf": 7}, "-0.0", True),
        ({"type": "integer"}, "1e400", True),
        ({"type": "integer"}, "1.50e1", True),
        ({"type": "integer"}, "1.5", False),
        ({"type": "integer"}, "9" * 5000, True),
        ({"const": 9007199254740993}, "9007199254740993.0", True),
        ({"const": 9007199254740993}, "9007199254740992.0", False),
        ({"maximum": 0.3}, "0.3", True),
        ({"maximum": 0.3}, "0.30000000000000001", False),
        ({"uniqueItems": True}, "[[0],[false],[0]]", False),
        ({"uniqueItems": True}, '[1,true,[1],[true],"1"]', True),
        ({"uniqueItems": True}, '[{"a":1,"b":2},{"b":2.0,"a":1}]', False),
        ({"patternProperties": {"": {}}, "additionalProperties": False}, '{"a":1}', True),
        ({"patternProperties": {"^(a)\\1$": {}, "^(b)\\1$": {}}, "additionalProperties": False}, '{"bb":1}', True),
        ({"patternProperties": {"\\d": {"type": "null"}, "[0-9]": {"enum": [1]}}}, '{"1":null}', False),
        ({"pattern": "^\\d$"}, '"1\\n"', False),
        ({"maxLength": 1}, '"\\ud83d\\ude00"', True),
        ({"properties": {"a": {"const": 2}}}, '{"a":1,"a":2}', True),  # of a repeated key the last one counts
        ({"properties": {"a": {"const": 2}}}, '{"a":2,"a":1}', False),
        ({}, "NaN", False),
        ({}, "1 2", False),
    ],
)
def test_the_verdict_is_exact(schema, text, expected):
    assert is_valid(schema, text) is expected


def test_references_stay_exact_and_lead_through_patterns():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "patternProperties": {"^\\d$": {"multipleOf": 0.1}},
        "properties": {"again": {"$ref": "#"}, "one": {"$ref": "#/patternProperties/^%5Cd$"}},
    }
    assert is_valid(schema, '{"again":{"1":0.3},"one":0.3}')
    assert not is_valid(schema, '{"again":{"1":0.35}}')
    assert not is_valid(schema, '{"one":0.35}')
    assert is_valid(schema, '{"again":{"1\\n":0.35}}')


def test_a_failure_says_where_and_that_it_is_a_bug():
    with pytest.raises(InvalidValueError, match=r"bug of constrain.*at /a/0: .*'x'"):
        Validator({"properties": {"a": {"items": {"type": "null"}}}}).check('{"a":["x"]}')


def test_a_deep_value_ends_in_an_answer():
    assert Validator({"items": {"$ref": "#"}}).error("[" * 5000 + "]" * 5000) is not None


def test_formats_decide_only_if_asked():
    assert is_valid({"format": "ipv4"}, '"x"')
    assert not is_valid({"format": "ipv4"}, '"x"', assert_formats=True)
    assert Validator({"format": "no-such"}, assert_formats=True).unchecked_formats == ["no-such"]


def test_it_never_fetches(monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *args: pytest.fail("a network access"))
    with pytest.raises(ConstrainError, match="nothing is ever fetched"):
        Validator({"$ref": "https://example.com/schema.json"})


def test_registered_documents_are_left_as_they_are():
    documents = {"https://example.com/a.json": {"pattern": "^\\d$", "multipleOf": 0.5}}
    before = json.dumps(documents)
    assert not is_valid({"$ref": "https://example.com/a.json"}, '"١"', documents=documents)
    assert json.dumps(documents) == before


decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9)


@given(decimals, decimals.filter(lambda number: number > 0))
def test_is_multiple_agrees_with_fractions(value, divisor):
    assert is_multiple(value, divisor) == ((Fraction(value) / Fraction(divisor)).denominator == 1)


@pytest.mark.parametrize(("text", "value"), [("1e400", 10**400), ("1.5", 1.5), ("1e5000", Decimal("1e5000"))])
def test_large_numbers_are_read_without_loss(text, value):
    assert read_value(text) == value and type(read_value(text)) is type(value)


def test_regular_expressions_as_a_format_are_those_of_ecma():
    validator = Validator({"format": "regex"}, assert_formats=True)
    for text, valid in ((r'"\\cA"', True), ('"a[]"', True), (r'"\\a"', False), ('"("', False), ("7", True)):
        assert (validator.error(text) is None) == valid, text


def test_the_stock_validators_are_not_changed():
    from jsonschema import Draft7Validator, validators

    Validator({}, dialect=DRAFT_7)
    assert validators.validator_for({"$schema": DRAFT_7.uri}) is Draft7Validator


@needs_suite
@each_dialect
@pytest.mark.parametrize("optional", [False, True])
def test_every_verdict_of_the_official_suite(dialect, optional):
    wrong = []
    for name, case in suite_cases(dialect, optional=optional):
        if name.startswith("optional/format") or any(file in name for file in ONLY_ANNOTATED):
            continue
        try:
            validator = Validator(case["schema"], documents=suite_documents(), dialect=dialect)
        except ConstrainError:
            continue  # test_load lists them
        for test in case["tests"]:
            if (validator.error(json.dumps(test["data"])) is None) != test["valid"]:
                wrong.append((name, test["description"]))
    assert not wrong


@needs_bench
def test_every_verdict_of_the_collection_where_its_formats_are_known():
    wrong = []
    for case in bench_cases():
        validators = [Validator(case["schema"], assert_formats=asserted) for asserted in (False, True)]
        if validators[1].unchecked_formats:
            continue
        for number, test in enumerate(case["tests"]):
            if test["valid"] not in [validator.error(json.dumps(test["data"])) is None for validator in validators]:
                wrong.append((case["name"], number))
    assert not wrong
