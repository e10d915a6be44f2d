"""Keys are brought into the order of the schema, and nothing else changes."""

import json

import pytest

from constrain.conformance.order import in_schema_order
from constrain.schema import DRAFT_7, load_graph

AB = {"properties": {"a": {}, "b": {}}}
BA = {"properties": {"b": {}, "a": {}}}


@pytest.mark.parametrize(
    ("schema", "instance", "ordered"),
    [
        (AB, {"x": 0, "b": 1, "a": 2}, {"a": 2, "b": 1, "x": 0}),
        ({"$ref": "#/$defs/d", "$defs": {"d": AB}}, {"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ({"allOf": [{"properties": {"c": {}}}, AB]}, {"b": 1, "a": 2, "c": 3}, {"c": 3, "a": 2, "b": 1}),
        ({"anyOf": [{"type": "string"}, {"required": ["z"], **BA}, AB]}, {"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ({"oneOf": [{"properties": {"k": {"const": 1}, "a": {}}}, {"properties": {"a": {}, "k": {"const": 2}}}]},
         {"k": 2, "a": 0}, {"a": 0, "k": 2}),
        ({"items": AB}, [{"b": 1, "a": 2}], [{"a": 2, "b": 1}]),
        ({"prefixItems": [AB], "items": BA}, [{"b": 1, "a": 2}] * 2, [{"a": 2, "b": 1}, {"b": 1, "a": 2}]),
        ({"properties": {"p/q": AB}}, {"p/q": {"b": 1, "a": 2}}, {"p/q": {"a": 2, "b": 1}}),
        ({"additionalProperties": AB}, {"k": {"b": 1, "a": 2}}, {"k": {"a": 2, "b": 1}}),
        ({"enum": [{"b": 1, "a": 2}]}, {"a": 2, "b": 1}, {"b": 1, "a": 2}),
        ({"required": ["b", "a"]}, {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"properties": {"b": {"$ref": "#"}, "a": {}}}, {"a": 1, "b": {"a": 1, "b": {}}},
         {"b": {"b": {}, "a": 1}, "a": 1}),
        (True, {"b": 1, "a": 2}, {"b": 1, "a": 2}),
    ],
)  # fmt: skip
def test_keys_come_in_the_order_of_the_schema(schema, instance, ordered):
    assert json.dumps(in_schema_order(instance, load_graph(schema))) == json.dumps(ordered)


def test_beside_a_reference_nothing_counts_up_to_draft_7():
    schema = {"properties": {"p": {"$ref": "#/definitions/d", **BA}}, "definitions": {"d": AB}}
    ordered = in_schema_order({"p": {"b": 1, "a": 2}}, load_graph(schema, dialect=DRAFT_7))
    assert list(ordered["p"]) == ["a", "b"]
