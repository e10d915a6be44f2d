"""When the evaluator refuses, what it proves early, and what it says of its state."""

import json
from decimal import Decimal

import jsonschema
import pytest

from constrain.errors import InvalidSchemaError, LimitExceededError, UnsupportedGrammarError
from constrain.schema import DRAFT_4, DRAFT_2019_09
from constrain.schema.evaluation import CONTROL_ESCAPES, SHORT_ESCAPES, Evaluator, Verdict, compile_program
from constrain.schema.limits import SchemaLimits

CLOSED = {"properties": {"name": {}, "note": {}}, "additionalProperties": False}
TAGGED = {
    "oneOf": [
        {"properties": {"t": {"const": "a"}, "x": {}}, "required": ["t", "x"], "additionalProperties": False},
        {"properties": {"t": {"const": "b"}, "y": {}}, "required": ["t", "y"], "additionalProperties": False},
    ]
}  # fmt: skip
UNEVALUATED = {
    "anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"bb": {}}, "required": ["bb"]}],
    "unevaluatedProperties": False,
}

# (schema, text whose last byte is the first to be refused)
EARLIEST = [
    # By its first byte.
    ({"type": "string"}, "1"),
    ({"enum": ["a", 1]}, "t"),
    ({"minimum": 1}, "-"),
    ({"maximum": -1}, "1"),
    ({"const": True}, "f"),
    ({"anyOf": [{"type": "string"}, {"const": [1]}]}, "{"),
    # By the prefix of a string.
    ({"enum": ["alpha", "beta"]}, '"g'),
    ({"enum": ["alpha", "beta"]}, '"bec'),
    ({"enum": ["alpha", "beta"]}, '"\\u0063'),
    ({"enum": ["é"]}, '"è'),
    ({"pattern": "^[A-Z]{2}$"}, '"Aa'),
    ({"pattern": "^[A-Z]{2}$"}, '"ABC'),
    ({"not": {"pattern": "^a"}}, '"a'),
    ({"maxLength": 2}, '"abc'),
    ({"maxLength": 2}, '"ab\\'),
    ({"not": {"minLength": 2}}, '"ab'),
    ({"minLength": 2}, '"a"'),
    ({"pattern": "^[!-/]+$"}, '"\\u006'),
    # By the digits of a number, else by the byte behind it.
    ({"enum": [12, 137]}, "14"),
    ({"multipleOf": 3}, "4 "),
    ({"type": "integer"}, "1.5 "),
    ({"maximum": 3}, "4 "),
    # At the name, before it is whole.
    (CLOSED, '{"nb'),
    (CLOSED, '{"name":1,"na'),
    (CLOSED, '{"name":1,"note":2,'),
    (UNEVALUATED, '{"c'),
    (UNEVALUATED, '{"a":2'),
    (UNEVALUATED, '{"a":1,"bb":0,'),
    ({"propertyNames": {"maxLength": 1}}, '{"ab'),
    ({"propertyNames": {"enum": ["ab"]}}, '{"b'),
    ({"patternProperties": {"^x": False}}, '{"x'),
    ({"patternProperties": {"^x$": False}}, '{"x"'),
    ({"patternProperties": {"^": False}}, '{"'),
    ({"patternProperties": {"a?": False}}, '{"'),
    ({"contains": {"type": "string"}, "unevaluatedItems": False}, '["a",1'),
    ({"contains": {"const": "ab"}, "unevaluatedItems": False}, '["ab","b'),
    ({"if": {"contains": {"const": "a"}}, "then": {"contains": {"const": "b"}}, "unevaluatedItems": False}, '["c'),
    ({"patternProperties": {"^x\\d": {}}, "additionalProperties": False}, '{"xa'),
    ({"properties": {"a": False}}, '{"a"'),
    ({"dependentSchemas": {"a": False}}, '{"a"'),
    ({"maxProperties": 0}, '{"'),
    ({"propertyNames": False}, '{"'),
    (TAGGED, '{"t":"a","y'),
    (TAGGED, '{"x":1,"y'),
    ({"enum": ["ab", "b"], "pattern": "^a"}, '"b'),
    ({"enum": ["abc", "x"], "minLength": 3}, '"x'),
    # At the comma.
    ({"maxProperties": 1}, '{"a":1,'),
    ({"maxItems": 1}, "[1,"),
    ({"prefixItems": [{}], "items": False}, "[1,"),
    ({"prefixItems": [{}], "unevaluatedItems": False}, "[1,"),
    ({"const": [1, 2]}, "[1,2,"),
    # Of constants that stand once at most, by those that are left.
    ({"items": {"enum": ["a", "ab"]}, "uniqueItems": True}, '["ab","ab'),
    ({"items": {"$ref": "#/$defs/x"}, "uniqueItems": True, "$defs": {"x": {"enum": ["a", 1]}}}, '["a",1,'),
    ({"items": {"enum": ["a", None]}, "uniqueItems": True}, '["a","'),
    ({"items": {"enum": [1, 23]}, "uniqueItems": True}, "[1.0,1"),
    ({"propertyNames": {"enum": ["a", "b"]}}, '{"a":1,"a'),
    ({"propertyNames": {"enum": ["a", "b"]}}, '{"a":1,"b":2,'),
    # At the end of the member or the item.
    ({"uniqueItems": True}, "[1,1.0,"),
    ({"uniqueItems": True}, '["a","a"'),
    ({"contains": {"type": "null"}, "maxContains": 1}, "[null,n"),
    ({"not": {"contains": {"const": 1}}}, "[1,"),
    ({"additionalProperties": {"type": "null"}}, '{"a":1'),
    ({"items": {"items": {"items": {"type": "null"}}}}, "[[[1"),
    # At the closing bracket, and nothing but it.
    ({"required": ["a"]}, "{}"),
    ({"minItems": 2}, "[1]"),
    ({"contains": {"const": 1}}, "[2]"),
    ({"dependentRequired": {"a": ["b"]}}, '{"a":1}'),
    ({"const": {"a": 1}}, "{}"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "text"), EARLIEST)
def test_it_refuses_at_the_first_byte_that_proves_it(schema, text):
    evaluator = Evaluator(compile_program(schema))
    *first, last = text.encode()
    for byte in first:
        assert evaluator.feed(bytes([byte])), evaluator.offset
    assert not evaluator.feed(bytes([last]))
    assert evaluator.verdict == Verdict.FALSE and not evaluator.can_end()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object"}, "{"),
        ({"minLength": 2}, '"ab'),
        ({"required": ["a"]}, '{"a"'),
        ({"properties": {"a": {"type": "string"}}}, '{"a":"'),
        ({"contains": {"type": "null"}}, "[n"),
        ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}}, '{"a":1,"b"'),
        ({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}, '"'),
        ({"not": {"required": ["a"], "additionalProperties": False}}, '{"'),
        ({"dependentRequired": {"a": ["b"]}}, '{"b"'),
    ],
)
def test_it_is_true_as_soon_as_nothing_can_go_wrong(schema, text):
    evaluator = Evaluator(compile_program(schema))
    *first, last = text.encode()
    for byte in first:
        assert evaluator.feed(bytes([byte])) and evaluator.verdict == Verdict.UNKNOWN
    assert evaluator.feed(bytes([last])) and evaluator.verdict == Verdict.TRUE


@pytest.mark.parametrize(
    ("schema", "text", "expected", "arithmetic"),
    [
        ({"multipleOf": 0.1}, "0.3", True, Decimal("0.3") / Decimal("0.1") == 3),
        ({"multipleOf": 0.01}, "4.35", True, Decimal("4.35") / Decimal("0.01") == 435),
        ({"multipleOf": 0.01}, "19.99", True, Decimal("19.99") / Decimal("0.01") == 1999),
        ({"type": "integer"}, "1e400", True, Decimal("1e400") == 10**400),
        ({"const": 9007199254740993}, "9007199254740993.0", True, Decimal("9007199254740993.0") == 9007199254740993),
        ({"maximum": 0.3}, "0.30000000000000001", False, not Decimal("0.30000000000000001") <= Decimal("0.3")),
    ],
)
def test_decimals_are_exact_where_jsonschema_computes_with_floats(schema, text, expected, arithmetic):
    assert arithmetic
    evaluator = Evaluator(compile_program(schema))
    assert (evaluator.feed(text.encode()) and evaluator.can_end()) is expected
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)) is not expected


def test_huge_exponents_cost_nothing():
    program = compile_program({"items": {"multipleOf": 7}, "uniqueItems": True, "maxItems": 3})
    evaluator = Evaluator(program)
    assert evaluator.feed(b"[7e999999999, 7e-0, 0e-999999999]") and evaluator.can_end()
    assert not Evaluator(program).feed(b"[7e-999999999,")


def test_draft_4_reads_integers_by_their_form():
    assert not Evaluator(compile_program({"type": "integer"}, dialect=DRAFT_4)).feed(b"1.0 ")
    assert Evaluator(compile_program({"type": "integer"})).feed(b"1.0 ")


@pytest.mark.parametrize(
    ("schema", "options", "error", "words"),
    [
        ({"$ref": "https://example.com/x"}, {}, InvalidSchemaError, "at /\\$ref.*leads nowhere"),
        ({"$ref": "#"}, {}, InvalidSchemaError, "in a circle"),
        ({"$schema": "https://example.com/meta"}, {}, InvalidSchemaError, "dialect"),
        ({"pattern": "(?<=a*)b"}, {}, UnsupportedGrammarError, "at /pattern"),
        ({"dependencies": {"a": ["b"]}}, {}, UnsupportedGrammarError, "dependentRequired"),
        ({"items": {"items": {}}}, {"limits": SchemaLimits(max_depth=1)}, LimitExceededError, "max_depth"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(schema, options, error, words):
    with pytest.raises(error, match=words):
        compile_program(schema, **options)


def test_an_asserted_format_without_a_checker_is_refused_by_name(monkeypatch):
    monkeypatch.setattr("constrain.schema.evaluation.formats.checker_of", lambda name: None)
    with pytest.raises(UnsupportedGrammarError, match="at /properties/a/format"):
        compile_program({"properties": {"a": {"format": "iri"}}}, assert_formats=True)
    compile_program({"properties": {"a": {"format": "no-such"}}}, assert_formats=True)  # it says nothing in any draft


def test_a_long_chain_of_references_is_refused_by_name():
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(300)}
    with pytest.raises(LimitExceededError, match="chain of references"):
        compile_program({"$ref": "#/$defs/d0", "$defs": {**chain, "d300": {}}})


def test_what_nothing_satisfies_is_known_from_the_start():
    for schema in (False, {"not": {}}, {"type": "string", "enum": [1]}, {"allOf": [{"type": "null"}, {"const": 1}]}):
        program = compile_program(schema)
        assert program.is_unsatisfiable
        assert Evaluator(program).verdict == Verdict.FALSE and not Evaluator(program).feed(b" ")
    assert not compile_program({"minimum": 3, "maximum": 2}).is_unsatisfiable  # it is, by arithmetic of bounds


def test_formats_decide_at_the_closing_quote_if_asserted():
    evaluator = Evaluator(compile_program({"format": "ipv4"}, assert_formats=True))
    assert evaluator.feed(b'"1.2.3') and not evaluator.feed(b'"')
    assert Evaluator(compile_program({"format": "ipv4"})).feed(b'"x"')


def test_recursive_references_lead_to_the_outermost_anchor():
    tree = {
        "$schema": DRAFT_2019_09.uri,
        "$id": "https://example.com/strict",
        "$recursiveAnchor": True,
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {
            "tree": {
                "$id": "tree",
                "$recursiveAnchor": True,
                "properties": {"node": True, "below": {"items": {"$recursiveRef": "#"}}},
            }
        },
    }
    evaluator = Evaluator(compile_program(tree))
    assert evaluator.feed(b'{"below":[{"node":1,"below":[{"n')
    assert not evaluator.feed(b"x")


INSENSITIVE = [
    ({"type": "string"}, '"abc', True, True),
    ({"format": "unheard-of", "minLength": 2}, '"abc', True, True),
    ({"format": "ipv4"}, '"1.2', False, False),
    ({"pattern": "^a"}, '"', False, False),
    ({"pattern": "^a"}, '"abc', True, True),
    ({"pattern": "(a+)\\1"}, '"abc', True, True),
    ({"enum": ["a"]}, '"', False, False),
    ({"maxLength": 100}, '"abc', False, True),
    ({"maxLength": 12}, '"abc', False, False),
    ({}, '{"a', True, True),
    (CLOSED, '{"n', False, False),
    ({"propertyNames": {"pattern": "^a$"}}, '{"a', False, False),
    ({"properties": {"a": {"maxLength": 3}}}, '{"b":"', True, True),
    ({}, "[", False, False),
]


@pytest.mark.parametrize(("schema", "text", "always", "for_ten"), INSENSITIVE)
def test_it_knows_where_content_cannot_matter(schema, text, always, for_ten):
    evaluator = Evaluator(compile_program(schema, assert_formats=True))
    assert evaluator.feed(text.encode())
    assert evaluator.is_insensitive() is always
    assert evaluator.is_insensitive(10) is for_ten
    if for_ten:
        for content in ("aaaaaaaaaa", "éééé", "\\u0061", "zz"):
            mark = evaluator.mark()
            assert evaluator.feed(content.encode())
            evaluator.undo(mark)


def test_what_is_forgotten_frees_the_trail_and_keeps_later_marks():
    evaluator = Evaluator(compile_program({"items": {"type": "integer"}}))
    evaluator.feed(b"[1,2,")
    forgotten = evaluator.mark()
    evaluator.forget(forgotten)
    assert not evaluator.feed(b'"') and evaluator.mark() > forgotten
    evaluator.undo(forgotten)
    assert evaluator.feed(b"3]") and evaluator.can_end()


def test_a_number_alone_can_end_without_being_ended():
    evaluator = Evaluator(compile_program({"const": 12}))
    assert evaluator.feed(b"1") and not evaluator.can_end()
    assert evaluator.feed(b"2") and evaluator.can_end() and not evaluator.is_complete
    assert evaluator.feed(b" ") and evaluator.can_end() and evaluator.is_complete


def test_one_program_serves_many_texts_at_once():
    program = compile_program(
        {"items": {"anyOf": [{"type": "object", **CLOSED}, {"enum": ["a", "b"]}]}, "uniqueItems": True}
    )
    one, other = Evaluator(program), Evaluator(program)
    assert one.feed(b'["a",') and other.feed(b'[{"na') and one.feed(b'"') and other.feed(b'me":1},"a",')
    assert not one.feed(b'a"') and other.feed(b'"b"]') and other.can_end()


def test_subschemas_may_nest_as_deep_as_the_loader_takes_them():
    nested = {"type": "integer"}
    for _ in range(95):
        nested = {"allOf": [nested]}
    assert Evaluator(compile_program(nested)).feed(b"3") and not Evaluator(compile_program(nested)).feed(b'"')


def test_a_branch_that_fails_twice_at_once_evaluates_nothing():
    null = {"type": "null"}
    branch = {"properties": {"a": null}, "patternProperties": {"^a": null}}
    evaluator = Evaluator(compile_program({"anyOf": [branch, True], "unevaluatedProperties": False}))
    assert evaluator.feed(b'{"a":') and not evaluator.feed(b"1")


@pytest.mark.parametrize(
    ("schema", "text", "last"),
    [
        ({"propertyNames": {"maxLength": 1}, "maxProperties": 1, "required": ["a"]}, '{"b":{', "}"),
        (
            {"properties": {"a": True, "b": True}, "additionalProperties": False, "minProperties": 3},
            '{"a":1,"b":"',
            '"',
        ),
        ({"items": {"type": "boolean"}, "maxItems": 2, "contains": {"const": True}}, "[false,fals", "e"),
        ({"prefixItems": [{"type": "boolean"}, {"type": "boolean"}], "uniqueItems": True}, "[true,", "t"),
    ],
)
def test_a_value_after_which_neither_a_comma_nor_the_end_can_stand_is_refused(schema, text, last):
    evaluator = Evaluator(compile_program({**schema, "type": ["object", "array"]}))
    assert evaluator.feed(text.encode()) and not evaluator.feed(last.encode())


def test_no_escape_is_counted_on_that_nobody_writes():
    program = compile_program({"pattern": "^A/?$"})
    for text in (b'"\\', b'"A\\'):
        assert Evaluator(program).feed(text)
        assert not Evaluator(program, SHORT_ESCAPES).feed(text) and not Evaluator(program, CONTROL_ESCAPES).feed(text)
    anything = compile_program({"pattern": ".|\\n"})
    assert Evaluator(anything, CONTROL_ESCAPES).feed(b'"\\u0001') and not Evaluator(anything, SHORT_ESCAPES).feed(
        b'"\\u0001'
    )
    assert not Evaluator(anything, SHORT_ESCAPES).feed(b'"\\/')
