"""What inspect_schema says of each keyword."""

import json
from typing import Any

import pytest

from constrain import InvalidSchemaError, JsonForm, inspect_schema
from constrain.backends import make_backend
from constrain.vocabulary import Vocabulary

SCHEMA: dict[str, Any] = {
    "title": "T",
    "type": "object",
    "properties": {
        "a": {"type": "string", "not": {"enum": ["x", "y"]}},
        "b": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
        "c": {"type": "integer", "minLength": 2},
    },
}


def enforcement(report: Any) -> dict[str, str]:
    return {entry.pointer: entry.enforcement for entry in report.entries}


def test_every_keyword_has_its_place_and_its_fate() -> None:
    report = inspect_schema(SCHEMA)
    assert enforcement(report) == {
        "/title": "annotation",
        "/type": "grammar",
        "/properties": "grammar",
        "/properties/a/type": "grammar",
        "/properties/a/not": "grammar",
        "/properties/a/not/enum": "grammar",
        "/properties/b/type": "grammar",
        "/properties/b/items": "grammar",
        "/properties/b/items/type": "grammar",
        "/properties/b/uniqueItems": "check",
        "/properties/c/type": "grammar",
        "/properties/c/minLength": "annotation",
    }
    reasons = {entry.pointer: entry.reason for entry in report.entries}
    assert reasons["/properties/a/not"] == "as the complement"
    assert "guides as" in reasons["/properties/b/uniqueItems"]
    assert report.exact and report.backend == "llguidance+checks" and "checks decide" in report.reason


def test_what_nothing_guides_is_a_fallback() -> None:
    report = inspect_schema({"type": "string", "pattern": "(?=a)b|a", "not": {"pattern": "c"}})
    assert enforcement(report)["/pattern"] == "fallback" and enforcement(report)["/not"] == "check"
    assert "fallback" in report.to_text() and report.exact


def test_a_schema_that_no_value_meets_says_so() -> None:
    report = inspect_schema({"not": {}})
    assert not report.exact and "unsatisfiable" in report.reason


def test_what_is_ignored_stands_in_the_report() -> None:
    report = inspect_schema(SCHEMA, backend="llguidance", unsupported="ignore")
    assert [entry.pointer for entry in report.ignored] == ["/properties/b/uniqueItems"]
    assert report.backend == "llguidance" and not report.unsupported and not report.exact
    assert "ignored      /properties/b/uniqueItems" in report.to_text()
    assert json.loads(json.dumps(report.to_json()))["exact"] is False


def test_it_names_the_backend_and_why() -> None:
    report = inspect_schema({"type": "integer"})
    assert report.exact and report.backend == "llguidance" and "first choice" in report.reason
    report = inspect_schema({"type": "integer", "multipleOf": 2}, backend="xgrammar")
    assert [entry.pointer for entry in report.unsupported] == ["/multipleOf"] and report.backend == "xgrammar"
    own = make_backend("llguidance", Vocabulary([b"", b"{", b"}"], stop_token_ids=[0]))
    assert inspect_schema({"type": "object"}, backend=own).backend == "llguidance"


def test_defaults_and_caps_are_listed() -> None:
    report = inspect_schema({}, form=JsonForm(max_whitespace=7), assert_formats=True)
    assert "7" in report.defaults["whitespace"] and "escapes" in " ".join(report.defaults)
    assert report.defaults["formats"].startswith("decide")
    assert inspect_schema({}).defaults["formats"] == "annotations"


def test_formats_and_documents_are_heeded() -> None:
    assert enforcement(inspect_schema({"format": "date"})) == {"/format": "annotation"}
    assert enforcement(inspect_schema({"format": "date"}, assert_formats=True)) == {"/format": "grammar"}
    assert enforcement(inspect_schema({"format": "odd"}, assert_formats=True)) == {"/format": "annotation"}
    assert enforcement(inspect_schema({"format": "hostname"}, assert_formats=True)) == {"/format": "fallback"}
    documents = {"https://example.com/a": {"type": "null"}}
    assert inspect_schema({"$ref": "https://example.com/a"}, documents=documents).exact


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "object", "properties": {"a": {}, "b": {}}}, "/properties"),
        ({"required": ["a"]}, "/required"),
        ({"items": {"enum": [1, {"a": 1, "b": 2}]}}, "/items/enum"),
    ],
)
def test_a_free_key_order_alone_is_refused_where_it_is_not_exact(schema: Any, pointer: str) -> None:
    report = inspect_schema(schema, backend="llguidance", form=JsonForm(key_order="free"))
    assert pointer in [entry.pointer for entry in report.unsupported if "key_order" in entry.reason]
    assert inspect_schema(schema).exact and inspect_schema(schema, form=JsonForm(key_order="free")).exact


def test_what_is_no_schema_raises() -> None:
    with pytest.raises(InvalidSchemaError):
        inspect_schema({"type": "integre"})
