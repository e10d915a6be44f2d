"""Every keyword at every place, and what becomes of it."""

import json

import pytest

from constrain.schema import (
    DRAFT_4,
    DRAFT_7,
    inventory,
    load_graph,
    schema_report,
    unsupported_keywords,
)

from .data import each_dialect, needs_suite, suite_cases, suite_documents


def uses_of(schema, **options):
    return {use.pointer: use for use in inventory(load_graph(schema, **options))}


def test_every_keyword_of_every_subschema_is_listed_once():
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"a": {"type": "string", "minLength": 1}, "b": False, "c": True},
        "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}],
        "$defs": {"x": {"const": 1}},
    }
    uses = inventory(load_graph(schema))
    assert len({use.pointer for use in uses}) == len(uses)
    assert {use.pointer: use.category for use in uses} == {
        "/$schema": "annotation",
        "/properties": "applicator",
        "/properties/a/type": "assertion",
        "/properties/a/minLength": "assertion",
        "/properties/b": "assertion",
        "/anyOf": "applicator",
        "/anyOf/0/$ref": "applicator",
        "/anyOf/1/$ref": "applicator",
        "/$defs": "annotation",
        "/$defs/x/const": "assertion",
    }


def test_a_use_shows_its_surroundings():
    use = uses_of({"type": ["string", "integer"], "minLength": 2, "pattern": "a"})["/minLength"]
    assert use.value == 2 and use.has_type and use.about == "string"
    assert use.types == {"string", "integer", "number"}
    assert use.siblings == {"type": ["string", "integer"], "pattern": "a"}
    assert str(use.unsupported("dropped beside pattern")) == "at /minLength: dropped beside pattern"
    assert not uses_of({"minLength": 2})["/minLength"].has_type


@pytest.mark.parametrize(
    ("schema", "pointer", "reason"),
    [
        ({"title": "x"}, "/title", "describes"),
        ({"format": "date"}, "/format", "annotation unless"),
        ({"type": "integer", "minLength": 1}, "/minLength", "strings only"),
        ({"then": {"type": "null"}}, "/then", "without if"),
        ({"maxContains": 1}, "/maxContains", "without contains"),
        ({"minItems": 0}, "/minItems", "allows everything"),
        ({"uniqueItems": False}, "/uniqueItems", "default"),
        ({"additionalProperties": True}, "/additionalProperties", "allows everything"),
        ({"minLenght": 3}, "/minLenght", "not a keyword of draft2020-12, which ignores it"),
        ({"additionalItems": False}, "/additionalItems", "one of draft4, draft6, draft7"),
        ({"$defs": {"a": {"type": "null"}}}, "/$defs/a/type", "nothing refers to"),
    ],
)
def test_what_constrains_nothing_says_why(schema, pointer, reason):
    use = uses_of(schema)[pointer]
    assert not use.effective
    assert reason in use.reason


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "integer", "minimum": 1}, "/minimum"),
        ({"not": True}, "/not"),
        ({"contains": True}, "/contains"),
        ({"enum": []}, "/enum"),
        ({"dependencies": {"a": ["b"]}}, "/dependencies"),
        ({"anyOf": [True]}, "/anyOf"),
        ({"allOf": [{"if": {"properties": {"a": True}}}], "unevaluatedProperties": False}, "/allOf/0/if"),
        ({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, "/allOf/0/additionalProperties"),
    ],
)
def test_what_constrains_something_is_effective(schema, pointer):
    assert uses_of(schema)[pointer].effective


def test_the_draft_decides():
    assert uses_of({"$ref": "#/definitions/a", "type": "null", "definitions": {"a": {}}}, dialect=DRAFT_7)[
        "/type"
    ].reason.startswith("ignored beside $ref")
    assert uses_of({"const": 1}, dialect=DRAFT_4)["/const"].category == "unknown"
    assert uses_of({"const": 1}, dialect=DRAFT_7)["/const"].category == "assertion"


def test_formats_are_assertions_if_asked():
    graph = load_graph({"format": "date"})
    assert [use.category for use in inventory(graph, assert_formats=True)] == ["assertion"]


def test_a_report_says_what_enforces_each_keyword():
    uses = inventory(load_graph({"type": "string", "not": {"const": "a"}, "pattern": "b", "title": "T"}))
    dropped = unsupported_keywords(
        uses, lambda use: use.unsupported("dropped") if use.keyword in ("not", "pattern") else None
    )
    report = schema_report(uses, dropped, backend="demo", reason="the only one", checked={"/not"}, defaults={"cap": 3})
    assert {entry.pointer: entry.enforcement for entry in report.entries} == {
        "/type": "grammar",
        "/not": "check",
        "/not/const": "check",
        "/pattern": "unsupported",
        "/title": "annotation",
    }
    assert not report.exact and [entry.pointer for entry in report.unsupported] == ["/pattern"]
    assert json.loads(json.dumps(report.to_json()))["keywords"][1]["reason"] == "dropped"
    text = report.to_text()
    assert text.startswith("backend: demo (the only one)\ncap: 3\nunsupported  /pattern")
    assert "1 annotation," in text and "1 keyword is not enforced" in text


@needs_suite
@each_dialect
def test_a_schema_of_ineffective_keywords_only_accepts_everything(dialect):
    """The promise behind ``effective``: what it leaves out cannot refuse a value."""
    num_schemas = 0
    for name, case in suite_cases(dialect, optional=False):
        if name.startswith("vocabulary"):
            continue
        graph = load_graph(case["schema"], documents=suite_documents(), dialect=dialect)
        if not any(use.effective for use in inventory(graph)):
            num_schemas += 1
            assert all(test["valid"] for test in case["tests"]), name
    assert num_schemas > 3
