"""Checked grammars: their masks are exact, and what they let through is valid."""

import json
import random
from itertools import product
from typing import Any

import pytest
import torch

from constrain.backends.auto import AutoBackend
from constrain.conformance.masks import MaskRow
from constrain.errors import UnsatisfiableGrammarError, UnsupportedGrammarError
from constrain.grammar import Grammar, RowState
from constrain.grammar_spec import JsonForm, json_schema
from constrain.schema.checked import CheckedGrammar
from constrain.vocabulary import Vocabulary


def _tokens() -> list[bytes]:
    """Every byte, and some thousand more, so that tokens are judged together."""
    pieces = ["a", "b", "ab", "x", "é", "日", "1", "0", "-", " ", "\\n", "/", "Z"]
    texts = ["".join(parts) for count in (2, 3) for parts in product(pieces, repeat=count)]
    texts += [f"{text}{end}" for text in ["", *pieces] for end in ('"', '",', '":', '"}', '"]', '": "')]
    structure = [
        '{"',
        '["',
        '","',
        '":"',
        '"}',
        "},",
        "]}",
        "[[",
        "null",
        "true",
        "1.0",
        "12",
        "e5",
        "1e",
        "\n  ",
        '""',
        "b" * 50,
        "a\\\\",
        "\\\\/",
        "x\\\\u00",
        "\\\\u0061",
        '":"","',
        '":null,"ab":',
    ]
    fragments = [b"a\xe6", b"\xe6\x97", b"b\xc3", b"\xf0\x9f\x98"]
    return (
        [bytes([byte]) for byte in range(256)]
        + [text.encode() for text in dict.fromkeys([*texts, *structure])]
        + fragments
    )


VOCABULARY = Vocabulary([b"", *_tokens()], stop_token_ids=[0])
BACKEND = AutoBackend(VOCABULARY)
ROW = MaskRow(VOCABULARY)

_LISTED = {"enum": ["ab", "b1"]}
SCHEMAS: list[tuple[Any, Any]] = [
    ({"type": "array", "uniqueItems": True, "items": {"type": "string"}}, ["ab", "x", "", "é日"]),
    ({"type": "array", "contains": {"const": "ab"}, "items": {"type": ["string", "number"]}}, ["x", "ab", 10, 0.5]),
    ({"propertyNames": {"not": {"const": "ab"}}, "type": "object"}, {"a": "x", "b": 1}),
    (
        {
            "type": "object",
            "patternProperties": {"^a[abx]{1,4}$": {"type": "null"}, "b$": {"type": ["null", "string"]}},
            "additionalProperties": False,
            "minProperties": 2,
        },
        {"ab": None, "xb": "x"},
    ),
    ({"type": "string", "not": {"pattern": "ab"}, "minLength": 2, "maxLength": 6}, "xbax"),
    ({"oneOf": [{"pattern": "^[a-z]+$", "maxLength": 3}, {"pattern": "x", "type": "string"}]}, "abé x"),
    ({"type": "object", "oneOf": [{"required": ["ab"], "minProperties": 2}, {"properties": {"x": _LISTED},
      "additionalProperties": False}]}, {"x": "b1"}),
    ({"type": "number", "not": {"multipleOf": 10}, "if": {"minimum": 5}, "then": {"enum": [12, 101]}}, 101),
    ({"type": "array", "uniqueItems": True, "contains": {"pattern": "b"}, "items": {"type": "string", "anyOf": [
      {"pattern": "^a+$"}, {"maxLength": 2}]}}, ["aaa", "ab", "aa", "b"]),
    ({"type": "object", "properties": {"ab": {"type": "null"}, "abx": {"enum": ["x"]}}, "not": {"required": ["x", "a"]},
      "minProperties": 1}, {"ab": None, "abx": "x", "a": [{"a": 1}], "xb": "x"}),
    ({"type": "array", "items": {"type": "number", "not": {"multipleOf": 3}}, "uniqueItems": True}, [1, 10.5, 20]),
    ({"type": "object", "minProperties": 2, "oneOf": [
      {"properties": {"ab": {"const": kind}}, "patternProperties": {pattern: {"type": "null"}},
       "additionalProperties": False, "required": ["ab"]}
      for kind, pattern in (("a", "^b+$"), ("x", "é|日"), ("é", "^a/"))]}, {"ab": "x", "a日": None, "é": None}),
    ({"type": "array", "items": {"type": "string"}, "contains": {"anyOf": [
      {"enum": ["a/b", "a日", "ab\nb", "é" * 3]}, {"pattern": "^b+$", "minLength": 3}]}}, ["a", "bbbb", "a/b"]),
    ({"type": "array", "items": {"type": "string", "maxLength": 4, "not": {"pattern": "é$"}}, "uniqueItems": True,
      "contains": {"const": "a/"}}, ["a/", "bé1", "日"]),
    ({"type": "object", "patternProperties": {"^ab": False, "[^-abxé1 ]": False, "x$": False}},
     {"bé x1": 1, "a": "日"}),
    ({"type": "string", "not": {"pattern": "[^ab1é]"}, "minLength": 2}, "abé"),
]  # fmt: skip


def started(schema: Any, **options: Any) -> Grammar:
    return BACKEND.compile(json_schema(schema, **options)).start()


def write(grammar: Grammar, text: str) -> bool:
    ids = VOCABULARY.encode(text)
    return grammar.accept([*ids, 0]) == len(ids) + 1


@pytest.mark.parametrize(("schema", "value"), SCHEMAS)
@pytest.mark.parametrize("profile", ["default", "wide"])
def test_the_mask_is_what_one_token_at_a_time_says(schema: Any, value: Any, profile: Any) -> None:
    grammar = started(schema, profile=profile)
    assert isinstance(grammar, CheckedGrammar)
    for token_id in [*VOCABULARY.encode(json.dumps(value, ensure_ascii=False)), 0]:
        state = ROW.fill(grammar)
        allowed = set(ROW.allowed_ids().tolist())
        assert allowed == {other for other in range(VOCABULARY.size) if grammar.validate([other])}
        assert state is RowState.CONSTRAINED and grammar.accept([token_id]) == 1


@pytest.mark.parametrize(("schema", "value"), SCHEMAS)
def test_a_mask_says_nothing_of_what_was_asked_before(schema: Any, value: Any) -> None:
    rng = random.Random(0)
    grammar, ids = started(schema), []
    for _ in range(40):
        ROW.fill(grammar)
        allowed = ROW.allowed_ids()
        token_id = int(rng.choice(allowed[allowed > 0] if len(allowed) > 1 else allowed))
        assert grammar.accept([token_id]) == 1
        ids.append(token_id)
        if rng.random() < 0.4 or grammar.is_terminated:
            ROW.fill(grammar)
            count = rng.randint(1, min(3, len(ids)))
            grammar.rollback(count)
            del ids[-count:]
        ROW.fill(grammar)
        fresh = started(schema)
        assert fresh.accept(ids) == len(ids)
        found = ROW.allowed_ids().tolist()
        ROW.fill(fresh)
        assert found == ROW.allowed_ids().tolist()


def test_verdicts_of_one_string_do_not_reach_another() -> None:
    grammar = started({"type": "array", "items": {"type": "string"}, "contains": {"const": "a"}, "maxItems": 2})
    assert grammar.accept(VOCABULARY.encode('["b')) and grammar.accept(VOCABULARY.encode("b"))
    ROW.fill(grammar)
    closing = VOCABULARY.token_bytes.index(b'"]')
    assert not ROW.allows(closing)
    grammar.rollback(grammar.num_accepted)
    assert grammar.accept(VOCABULARY.encode('["a')) and ROW.fill(grammar) and ROW.allows(closing)
    grammar.reset()
    assert grammar.accept(VOCABULARY.encode('["a", "b')) and ROW.fill(grammar) and ROW.allows(closing)


def test_verdicts_of_one_content_do_not_reach_another() -> None:
    grammar = started({"type": "array", "contains": {"pattern": "^a"}, "items": {"type": "string"}})
    assert isinstance(grammar, CheckedGrammar)
    closing = VOCABULARY.token_bytes.index(b'"]')
    assert grammar.accept(VOCABULARY.encode('["')) == 1
    for text, ends in (("a", True), ("b", False), ("a", True)):
        assert grammar.accept(VOCABULARY.encode(text)) == 1 and ROW.fill(grammar)
        assert ROW.allows(closing) is ends
        grammar.rollback(1)


def test_a_fork_rolls_back_past_where_it_was_made() -> None:
    grammar = started(SCHEMAS[0][0])
    ids = VOCABULARY.encode('["ab","x"')
    assert grammar.accept(ids) == len(ids)
    twin = grammar.fork()
    twin.rollback(len(ids) - 1)
    assert twin.accept(ids[1:]) == len(ids) - 1 and grammar.num_accepted == len(ids)
    assert twin.accept(VOCABULARY.encode(',"ab"]')) < grammar.accept(VOCABULARY.encode(',"b"]'))


def test_open_values_are_counted_in_tokens() -> None:
    grammar = started({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})
    assert isinstance(grammar, CheckedGrammar)
    tokens = [b"{", b'"', b"a", b'":', b" ", b"[", b"1", b",", b'"', b"x"]
    ids = [VOCABULARY.token_bytes.index(token) for token in tokens]
    assert grammar.accept(ids) == len(ids)
    assert grammar.value_starts() == [0, 1, 5, 8]
    grammar.rollback(len(ids) - grammar.value_starts()[-2])
    assert grammar.accept(ids[5:]) == len(ids) - 5


def test_numbers_are_as_long_as_they_may_be() -> None:
    grammar = started({"type": "number", "not": {"multipleOf": 7}})
    digits = "1" * 999
    assert grammar.accept(VOCABULARY.encode(digits)) > 300
    ROW.fill(grammar)
    assert set(ROW.allowed_ids().tolist()) == {t for t in range(VOCABULARY.size) if grammar.validate([t])}


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"not": {}},
        {"enum": []},
        {"type": "string", "not": {"type": "string"}},
        {"allOf": [True, False]},
        {"const": "a", "format": "ipv6"},
        {"enum": ["ab", "b"], "pattern": "^a", "maxLength": 1},
    ],
)
def test_a_schema_that_no_value_meets_is_refused_as_such(schema: Any) -> None:
    with pytest.raises(UnsatisfiableGrammarError):
        BACKEND.compile(json_schema(schema, assert_formats=True))


@pytest.mark.parametrize("profile", ["default", "wide"])
@pytest.mark.parametrize(
    ("name", "text"), [("ipv6", "::ffff:192.168.0.1"), ("time", "23:59:60Z"), ("date-time", "2020-01-01t00:00:00z")]
)
def test_a_form_of_a_format_that_a_constant_asks_for_can_be_written(name: str, text: str, profile: Any) -> None:
    for schema in ({"const": text, "format": name}, {"allOf": [{"format": name}, {"enum": [text]}], "type": "string"}):
        assert write(started(schema, profile=profile, assert_formats=True), json.dumps(text))


def test_what_cannot_be_checked_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedGrammarError) as caught:
        BACKEND.compile(json_schema({"dependencies": {"a": ["b"]}, "uniqueItems": True}))
    assert any(item.keyword == "dependencies" for item in caught.value.unsupported)


def test_what_a_library_enforces_runs_bare() -> None:
    for schema in ({"type": "object"}, {"type": "array", "items": {"type": "integer"}, "maxItems": 2}):
        assert not isinstance(started(schema), CheckedGrammar)


def test_a_wide_profile_takes_any_way_to_write_a_value() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"const": {"x": 1, "ab": [1]}}},
              "required": ["a"], "additionalProperties": False}  # fmt: skip
    texts = ['{"b": {"ab": [1.0], "x": 1e0}, "a": 1.0}', '{"a": 10e-1}', '{"a":1,"b":{"x":1,"ab":[1]}}']
    for text in texts:
        assert write(started(schema, profile="wide"), text), text
    assert [write(started(schema), text) for text in texts] == [False, False, True]
    assert write(started({"type": "string"}, profile="wide"), '"\\u0041\\ud83d\\ude00"')
    for text in ('{"a": 1.5}', '{"b": {"ab": [1.0], "x": 1e0}}', '{"a": 1, "\\u0061": 1}', '{"a": 1, "c": 1}'):
        assert not write(started(schema, profile="wide"), text), text


def test_the_form_of_numbers_alone_can_be_any() -> None:
    form = JsonForm(numbers="any")
    assert write(started({"type": "integer", "minimum": 3}, form=form), "3.0")
    assert not write(started({"type": "integer", "minimum": 3}, form=form), "2.0")
    assert not isinstance(started({"type": "string"}, form=form), CheckedGrammar)


def test_forced_text_is_cut_where_a_check_refuses_it() -> None:
    grammar = started({"enum": [["ab", "ab"], ["ab", "x"]], "uniqueItems": True})
    forced = grammar.forced_tokens()
    assert grammar.validate(forced) == len(forced)


def test_random_walks_end_valid() -> None:
    rng = random.Random(0)
    for schema, _ in SCHEMAS[:3]:
        grammar = started(schema)
        row = torch.zeros((1, VOCABULARY.num_mask_words), dtype=torch.int32)
        for _ in range(80):
            assert grammar.fill_bitmask(row, 0) is RowState.CONSTRAINED
            ROW.fill(grammar)
            allowed = ROW.allowed_ids().tolist()
            assert grammar.accept([0 if 0 in allowed else rng.choice(allowed)]) == 1
            if grammar.is_terminated:
                break
