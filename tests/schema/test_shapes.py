"""The table of shapes says what the meta-schemas say."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import validators

from constrain.errors import InvalidSchemaError
from constrain.schema import DIALECTS, DRAFT_4, Dialect
from constrain.schema.dialects import dialect_of
from constrain.schema.shapes import check_all_shapes, keywords_with_shape

from .data import each_dialect, needs_suite, suite_cases

METASCHEMA = {
    dialect: validators.validator_for({"$schema": dialect.uri})({"$ref": dialect.uri}) for dialect in DIALECTS
}
# The meta-schemas check these by format or pattern in words of their own, or not at all.
APART = {"$schema", "$vocabulary", "dependencies", "$recursiveRef", "$recursiveAnchor", "$id", "id", "$anchor", "$ref"}


def accepts(schema: object, dialect: Dialect) -> bool:
    try:
        check_all_shapes(schema, dialect)
    except InvalidSchemaError:
        return False
    return True


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from(
        [0.5, 2.5, "string", "array", "name", "", {}, [], [{}], [1], ["a"], ["a", "a"], ["string", "null"]]
    ),
    st.sampled_from([{"a": {}}, {"a": []}, {"a": ["b"]}, {"a": 1}, {"a": True}, {"type": "x"}, [{"type": 1}], [True]]),
)


@each_dialect
@given(data=st.data())
def test_one_keyword_passes_if_the_metaschema_says_so(dialect, data):
    keyword = data.draw(st.sampled_from(sorted((keywords_with_shape(dialect) | set(dialect.positions)) - APART)))
    schema = {keyword: data.draw(values)}
    if dialect is DRAFT_4 and keyword in ("exclusiveMinimum", "exclusiveMaximum"):
        schema[keyword[9:].lower()] = 1
    if keyword == "enum" and schema["enum"] == ["a", "a"]:
        schema["enum"] = ["a"]  # draft 4 forbids it, and nobody is hurt
    if keyword == "required" and schema["required"] == []:
        schema["required"] = ["a"]  # the same
    assert accepts(schema, dialect) == METASCHEMA[dialect].is_valid(schema), schema


@needs_suite
@each_dialect
def test_every_schema_of_the_official_suite_passes(dialect):
    for name, case in suite_cases(dialect, optional=False):
        if "$schema" not in json.dumps(case["schema"]):
            assert accepts(case["schema"], dialect), name


@pytest.mark.parametrize("keyword", ["exclusiveMinimum", "exclusiveMaximum"])
def test_draft_4_wants_the_bound_beside_its_exclusiveness(keyword):
    assert not accepts({keyword: True}, DRAFT_4)
    assert accepts({keyword: True, keyword[9:].lower(): 1}, DRAFT_4)


@pytest.mark.parametrize(
    ("schema", "draft"),
    [
        ({"items": [{}]}, "draft2019-09"),
        ({"minimum": 1, "exclusiveMinimum": True}, "draft4"),
        ({"$id": "#a"}, "draft7"),
    ],
)
def test_an_error_names_the_draft_that_allows_it(schema, draft):
    with pytest.raises(InvalidSchemaError, match=f"{draft} allows it: give .schema or dialect="):
        check_all_shapes(schema, DIALECTS[-1])


def test_what_no_draft_allows_gets_no_such_hint():
    with pytest.raises(InvalidSchemaError) as caught:
        check_all_shapes({"minimum": "1"}, DIALECTS[-1])
    assert "allows it" not in str(caught.value)


@each_dialect
def test_http_and_https_name_the_same_draft(dialect):
    rest = dialect.uri.partition("://")[2]
    for uri in (f"http://{rest}", f"https://{rest}#"):
        assert dialect_of({"$schema": uri}) is dialect
    with pytest.raises(InvalidSchemaError, match="unknown"):
        dialect_of({"$schema": f"urn://{rest}"})
