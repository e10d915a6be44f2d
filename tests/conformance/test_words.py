"""The words that walks may try."""

from constrain.conformance.case import Case, Instance
from constrain.conformance.words import words_of


def test_patterns_and_valid_instances_give_words():
    schema = {
        "properties": {"a": {"pattern": r"^date-time(foo|ba\.r)[0-9]+$"}, "pattern": {"type": "null"}},
        "patternProperties": {"^x_": True},
    }
    instances = (Instance({"a": 'say "b"', "n": [1.5, True]}, True), Instance("never", False))
    words = words_of(Case("i", "f", "c", "g", "n", schema, instances))
    assert {"date-time", "foo", "ba.r", "x_", 'say \\"b\\"', "1.5"} <= set(words)
    assert "never" not in words and "true" not in words and "" not in words
