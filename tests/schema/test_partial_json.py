"""What a growing JSON text holds so far."""

import json

from constrain.schema.partial_json import PartialJson


def test_values_grow_and_come_only_when_they_change() -> None:
    reader = PartialJson()
    pieces = ['{"a', '": ', "-", "1", "2, ", '"b": "x\\', "u00e9", '", "c": tr', "ue", " }"]
    assert [reader.feed(piece) for piece in pieces] == [
        {},
        None,
        None,
        {"a": -1},
        {"a": -12},
        {"a": -12, "b": "x"},
        {"a": -12, "b": "xé"},
        None,
        {"a": -12, "b": "xé", "c": True},
        None,
    ]


def test_nothing_is_read_from_a_text_that_has_not_begun() -> None:
    reader = PartialJson()
    assert [reader.feed(piece) for piece in (" ", "-", "1")] == [None, None, -1]


def test_one_character_at_a_time_ends_with_the_whole_value() -> None:
    value = {"text": 'quote " and \\ and \n 😀', "list": [1, -2.5, 1e300, None, True, {"deep": [[]]}], "": {}}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        reader, last = PartialJson(), None
        for character in text:
            last = reader.feed(character) or last
        assert last == value


def test_a_value_handed_out_belongs_to_the_caller() -> None:
    reader = PartialJson()
    first = reader.feed("[1")
    first.append("mine")
    assert reader.feed(", 2") == [1, 2]
