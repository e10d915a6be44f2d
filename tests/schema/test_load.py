"""What is a schema and what is not, and that every error names its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrain.errors import ConstrainError, InvalidSchemaError, LimitExceededError, UnsupportedGrammarError
from constrain.schema import DRAFT_4, Documents, SchemaLimits, load_graph, parse_schema

from .data import bench_cases, each_dialect, needs_bench, needs_suite, suite_cases, suite_documents


def pointer_of(schema, **options):
    with pytest.raises(InvalidSchemaError) as caught:
        parse_schema(schema, **options)
    assert (caught.value.pointer or "/") in str(caught.value)
    return caught.value.pointer


def test_text_and_data_give_the_same_plain_copy():
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2.5, None, "é", [True]]}}}
    parsed = parse_schema(schema)
    assert parsed == schema == parse_schema(json.dumps(schema))
    assert parsed is not schema and parsed["properties"] is not schema["properties"]
    assert list(parsed) == list(schema)


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), ("{", 1), ('{"a":1,}', 7), ("{'a':1}", 1), ('{"type":"string"} x', 18)],
)
def test_text_that_is_no_json_names_the_position(text, position):
    with pytest.raises(InvalidSchemaError, match="not JSON") as caught:
        parse_schema(text)
    assert caught.value.position == position


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"string","type":"object"}',
        '{"const":NaN}',
        '{"const":Infinity}',
        "1",
        '"string"',
        "[]",
    ],
)
def test_text_that_is_json_but_no_schema_is_refused(text):
    with pytest.raises(InvalidSchemaError):
        parse_schema(text)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"x", object(), {1: 2}, "\ud800", 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_data_that_json_cannot_hold_names_its_place(value):
    assert pointer_of({"properties": {"a/b": {"const": value}}}) == "/properties/a~1b/const"


def test_a_number_that_a_float_would_round_is_refused_or_kept_exactly():
    assert parse_schema('{"const":9007199254740993.0}') == {"const": 9007199254740993}
    with pytest.raises(InvalidSchemaError, match="digits"):
        parse_schema('{"maximum":0.12345678901234567890123}')


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "strin"}, "/type"),
        ({"properties": {"a": {"minLength": -1}}}, "/properties/a/minLength"),
        ({"properties": {"a": 1}}, "/properties/a"),
        ({"properties": []}, "/properties"),
        ({"anyOf": []}, "/anyOf"),
        ({"anyOf": [{}, 3]}, "/anyOf/1"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"required": ["a", "a"]}, "/required"),
        ({"items": [{}]}, "/items"),
        ({"not": 1}, "/not"),
        ({"pattern": "("}, "/pattern"),
        ({"patternProperties": {"[": {}}}, "/patternProperties/["),
        ({"$schema": "https://example.com/mine"}, "/$schema"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}}}, "/$defs/a/$ref"),
        ({"$ref": "#/enum/0", "enum": ["x"]}, "/$ref"),
        ({"$dynamicRef": "#nowhere"}, "/$dynamicRef"),
        ({"$ref": "https://example.com/other.json"}, "/$ref"),
    ],
)
def test_what_a_draft_forbids_is_refused_with_its_pointer(schema, pointer):
    assert pointer_of(schema) == pointer


def test_an_unknown_dialect_names_the_supported():
    with pytest.raises(InvalidSchemaError, match=r"draft-07.*2020-12"):
        parse_schema({"$schema": "http://json-schema.org/draft-03/schema#"})


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [{"$ref": "#/nowhere"}], "const": {"$ref": 3}, "default": {"type": 1}, "examples": [{"$ref": 1}]},
        {"properties": {"$ref": {"type": "string"}, "properties": {"type": "object"}, "$id": {}, "enum": False}},
        {"x-unknown": {"$ref": "#/nowhere", "type": 7}},
    ],
)
def test_only_subschemas_are_read_as_schemas(schema):
    assert parse_schema(schema) == schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"anyOf": [{"type": "string"}, {"$ref": "#"}]},
        {"$defs": {"a": {"allOf": [{"not": {"$ref": "#/$defs/a"}}]}}, "$ref": "#/$defs/a"},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
    ],
)
def test_references_without_progress_are_refused(schema):
    with pytest.raises(InvalidSchemaError, match="circle"):
        parse_schema(schema)


def test_recursion_through_items_and_properties_is_fine():
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}, "properties": {"b": {"$ref": "#"}}}}}
    assert parse_schema(schema) == schema


def nested(depth, leaf="{}"):
    return '{"items":' * depth + leaf + "}" * depth


@pytest.mark.parametrize("depth", [300, 5_000, 100_000])
def test_deep_text_and_deep_data_end_in_a_limit_error(depth):
    with pytest.raises(LimitExceededError):
        parse_schema(nested(depth))
    data = {}
    for _ in range(depth):
        data = {"items": data}
    with pytest.raises(LimitExceededError, match="max_depth"):
        parse_schema(data)
    while data:  # taken apart from outside: freeing it at once recurses
        data = data.pop("items")


def test_data_inside_itself_and_shared_data_end_in_a_limit_error():
    circle = {}
    circle["items"] = circle
    with pytest.raises(LimitExceededError, match="max_depth"):
        parse_schema(circle)
    bomb = {"type": "string"}
    for _ in range(40):
        bomb = {"anyOf": [bomb, bomb]}
    with pytest.raises(LimitExceededError, match="max_values"):
        parse_schema(bomb)


def test_a_reference_bomb_counts_each_subschema_once():
    defs = {
        f"a{i}": {"items": {"$ref": f"#/$defs/a{i + 1}"}, "contains": {"$ref": f"#/$defs/a{i + 1}"}} for i in range(40)
    }
    graph = load_graph({"$ref": "#/$defs/a0", "$defs": {**defs, "a40": {"type": "string"}}})
    assert len(graph.nodes) == 1 + 41 + 80


def test_a_long_chain_of_references_does_not_recurse():
    defs = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(3000)}
    load_graph({"$ref": "#/$defs/a0", "$defs": {**defs, "a3000": {}}})


@pytest.mark.parametrize(
    ("limit", "schema"),
    [
        ("max_bytes", json.dumps({"title": "x" * 2000})),
        ("max_subschemas", {"properties": {f"a{i}": {} for i in range(200)}}),
        ("max_pattern_bytes", {"pattern": "a" * 600}),
        ("max_repetition", {"pattern": "((a{1,99}){1,99}){1,99}"}),
        ("max_repetition", {"minItems": 5000, "items": {"minLength": 5000}}),
        ("max_multiple_of", {"multipleOf": 9007199254740993}),
    ],
)
def test_each_limit_is_named(limit, schema):
    limits = SchemaLimits(max_bytes=1000, max_subschemas=100, max_pattern_bytes=500, max_repetition=10_000)
    with pytest.raises(LimitExceededError, match=limit):
        parse_schema(schema, limits=limits)


def test_a_pattern_beyond_python_is_unsupported_with_its_place():
    with pytest.raises(UnsupportedGrammarError) as caught:
        parse_schema({"properties": {"a": {"pattern": r"\p{Script=Greek}"}}})
    assert [(item.pointer, item.keyword) for item in caught.value.unsupported] == [("/properties/a/pattern", "pattern")]


def test_registered_documents_are_bundled_and_the_result_stands_alone():
    documents = {
        "https://example.com/item.json": {"$ref": "more.json#/$defs/name"},
        "https://example.com/more.json": {"$defs": {"name": {"type": "string"}, "unused": {}}},
        "https://example.com/never.json": {"type": "null"},
    }
    schema = {"items": {"$ref": "https://example.com/item.json"}}
    bundled = parse_schema(schema, documents=documents)
    assert parse_schema(bundled) == bundled
    assert set(bundled["$defs"]) == {"https://example.com/item.json", "https://example.com/more.json"}
    assert "$defs" not in schema


def test_a_bad_document_is_reported_where_a_reference_leads_there():
    documents = Documents({"https://example.com/bad.json": {"properties": 3}})
    assert parse_schema({}, documents=documents) == {}
    pointer = pointer_of({"$ref": "https://example.com/bad.json"}, documents=documents)
    assert pointer == "https://example.com/bad.json#/properties"


def test_a_dialect_given_from_outside_is_named_in_the_result():
    schema = {"exclusiveMinimum": True, "minimum": 3}
    assert parse_schema(schema, dialect=DRAFT_4) == {"$schema": DRAFT_4.uri, **schema}


json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "$ref", "$id", "id", "enum", "anyOf", "#", "$defs"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(json_data)
def test_any_data_gives_a_schema_or_a_typed_error(data):
    try:
        parsed = parse_schema(data)
    except ConstrainError:
        return
    assert parse_schema(json.dumps(parsed)) == parsed


@needs_suite
@each_dialect
@pytest.mark.parametrize("optional", [False, True])
def test_the_official_suite_loads_but_for_custom_dialects(dialect, optional):
    refused = {}
    for name, case in suite_cases(dialect, optional=optional):
        try:
            load_graph(case["schema"], documents=suite_documents(), dialect=dialect)
        except ConstrainError as exc:
            refused[name] = str(exc)
    assert {name.partition("#")[0] for name in refused} <= {"vocabulary.json", "optional/format-assertion.json"}
    assert all("dialect" in message for message in refused.values())


@needs_bench
def test_every_schema_of_the_collection_loads():
    refused = {}
    for case in bench_cases():
        try:
            load_graph(case["schema"])
        except ConstrainError as exc:
            refused[case["name"]] = str(exc)
    assert not refused
