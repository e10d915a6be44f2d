"""Where references lead."""

import pytest

from constrain.schema import DRAFT_7, DRAFT_2019_09, load_graph


def target(schema, *tokens, keyword="$ref", **options):
    node = load_graph(schema, **options).root
    return (node.child(*tokens) if tokens else node).references[keyword]


@pytest.mark.parametrize(
    ("reference", "pointer"),
    [
        ("#/$defs/a", "/$defs/a"),
        ("#anchor", "/$defs/a"),
        ("#/$defs/x~1y%25", "/$defs/x~1y%"),
        ("inner.json", "/$defs/inner"),
        ("https://example.com/inner.json#/$defs/deep", "/$defs/inner/$defs/deep"),
        ("#/odd/place", "/odd/place"),
        ("https://json-schema.org/draft/2020-12/schema", "https://json-schema.org/draft/2020-12/schema#"),
    ],
)
def test_a_reference_leads_to_the_node_of_its_place(reference, pointer):
    schema = {
        "$id": "https://example.com/root.json",
        "properties": {"p": {"$ref": reference}},
        "odd": {"place": {"type": "null"}},
        "$defs": {
            "a": {"$anchor": "anchor"},
            "x/y%": {},
            "inner": {"$id": "inner.json", "$defs": {"deep": {}}},
        },
    }
    assert target(schema, "properties", "p").pointer == pointer


def test_shared_targets_are_one_node():
    graph = load_graph({"$defs": {"a": {}}, "prefixItems": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]})
    first, second = (graph.root.child("prefixItems", index).references["$ref"] for index in (0, 1))
    assert first is second is graph.root.child("$defs", "a")


def test_a_dynamic_reference_depends_on_the_way_in():
    tree = {
        "$id": "https://example.com/tree",
        "$dynamicAnchor": "node",
        "properties": {"children": {"items": {"$dynamicRef": "#node"}}},
    }
    strict = {
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {"tree": tree},
    }
    entered = load_graph(strict).root.references["$ref"]
    assert entered.child("properties", "children").child("items").references["$dynamicRef"].pointer == ""
    alone = load_graph(tree).root
    assert alone.child("properties", "children").child("items").references["$dynamicRef"] is alone


def test_a_plain_reference_to_a_dynamic_anchor_is_static():
    inner = {"$id": "https://example.com/inner", "$dynamicAnchor": "a", "properties": {"p": {"$ref": "#a"}}}
    outer = {"$id": "https://example.com/outer", "$dynamicAnchor": "a", "$ref": "inner", "$defs": {"i": inner}}
    node = load_graph(outer).root.references["$ref"]
    assert node.child("properties", "p").references["$ref"].pointer == "/$defs/i"


def test_a_recursive_reference_follows_the_recursive_anchors():
    tree = {"$id": "https://e.com/tree", "$recursiveAnchor": True, "items": {"$recursiveRef": "#"}}
    outer = {"$id": "https://e.com/outer", "$recursiveAnchor": True, "$ref": "tree", "$defs": {"t": tree}}
    node = load_graph(outer, dialect=DRAFT_2019_09).root.references["$ref"]
    assert node.child("items").references["$recursiveRef"].pointer == ""


def test_up_to_draft_7_nothing_counts_beside_a_reference():
    schema = {"$ref": "#/definitions/a", "type": "string", "definitions": {"a": {"type": "null"}}}
    assert load_graph(schema, dialect=DRAFT_7).root.keywords == {"$ref": "#/definitions/a"}
    assert load_graph(schema).root.keywords == schema


def test_a_resource_of_another_draft_is_read_by_it():
    schema = {
        "$defs": {"old": {"$schema": DRAFT_7.uri, "$id": "https://e.com/old", "items": [{}]}},
        "properties": {"a": {"$ref": "https://e.com/old"}},
    }
    assert target(schema, "properties", "a").dialect is DRAFT_7


def test_definitions_that_nothing_refers_to_are_not_applied():
    graph = load_graph({"$ref": "#/$defs/a", "$defs": {"a": {"$defs": {"b": {}}}, "c": {"items": {}}}})
    assert {node.pointer for node in graph.nodes if node.applied} == {"", "/$defs/a"}
