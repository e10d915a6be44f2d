"""Inputs that hurt grammar libraries: each ends in a result or in a typed error, and soon."""

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from constrain.backends.auto import AutoBackend
from constrain.backends.xgrammar import XGrammarBackend
from constrain.errors import ConstrainError, UnsupportedGrammarError
from constrain.grammar_spec import GrammarSpec, choice, ebnf, json_schema, lark, regex, structural_tag
from constrain.vocabulary import Vocabulary

VOCABULARY = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0])
BACKEND = AutoBackend(VOCABULARY)
MAX_SECONDS = 5.0  # of the processor: a busy machine is no hang
INTEGER = {"type": "integer"}


def _closed(**properties: Any) -> dict[str, Any]:
    required = list(properties)[:1]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _nested(depth: int, around: Callable[[Any, int], Any]) -> Any:
    schema: Any = {"type": "null"}
    for level in range(depth):
        schema = around(schema, level)
    return schema


def _pair(keyword: str) -> Callable[[Any, int], Any]:
    return lambda inner, level: {keyword: [_closed(**{f"a{level}": inner}), _closed(**{f"b{level}": inner})]}


def _optional(count: int, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{n}": INTEGER for n in range(count)}, **more}


SCHEMAS: dict[str, Any] = {
    "an enum of 10,000": {"enum": [f"value-{n}" for n in range(10_000)]},
    "1000 optional properties": _optional(1000, additionalProperties=False),
    "1000 optional properties, open": _optional(1000),
    **{f"objects {depth} deep": _nested(depth, lambda inner, _: _closed(a=inner)) for depth in (30, 62, 90)},
    **{f"arrays {depth} deep": _nested(depth, lambda inner, _: {"items": inner}) for depth in (60, 120, 190, 800)},
    **{f"oneOf {depth} deep": _nested(depth, _pair("oneOf")) for depth in (8, 10, 12)},
    "anyOf 9 deep": _nested(9, _pair("anyOf")),
    "not 60 deep": _nested(60, lambda inner, _: {"not": {"properties": {"a": inner}}}),
    "anyOf of 200 objects": {"anyOf": [_closed(**{f"k{n}": INTEGER, "x": INTEGER}) for n in range(200)]},
    "oneOf of 200 objects with a tag": {"oneOf": [_closed(t={"const": f"k{n}"}, x=INTEGER) for n in range(200)]},
    "oneOf of 60 open objects": {"oneOf": [{"properties": {f"k{n}": {}}, "required": [f"k{n}"]} for n in range(60)]},
    "12 allOf of anyOf": {
        "allOf": [{"anyOf": [{"properties": {f"{k}{n}": INTEGER}} for k in "ab"]} for n in range(12)]
    },
    "30 conditions": {"allOf": [{"if": {"required": [f"a{n}"]}, "then": {"required": [f"b{n}"]}} for n in range(30)]},
    "unevaluated under 8 anyOf": {
        "allOf": [{"anyOf": [{"properties": {f"{k}{n}": INTEGER}} for k in "ab"]} for n in range(8)],
        "unevaluatedProperties": False,
    },
    "a $ref bomb": {
        "$defs": {
            **{f"d{n}": {"prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 10} for n in range(12)},
            "d12": {"type": "null"},
        },
        "$ref": "#/$defs/d0",
    },
    "many disjoint patterns": {
        "patternProperties": {f"^p{n}_.*$": INTEGER for n in range(20)},
        "additionalProperties": False,
    },
    "a large multipleOf": {"multipleOf": 9_999_991},
    "two multiples": {"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]},
    "a bound of 400 digits": {"type": "integer", "maximum": 10**400},
    "maxItems": {"type": "array", "maxItems": 100_000},
    "minItems": {"type": "array", "minItems": 900_000},
    "maxLength": {"type": "string", "maxLength": 1_000_000},
    "minProperties": {"type": "object", "minProperties": 1000},
    "arrays of unique items": {"type": "array", "uniqueItems": True, "items": {"enum": list(range(8))}},
}
PATTERNS = [
    "[A-Z].{0,5000}[0-9]",
    r"^[\w.-]{1,500}@[\w.-]{1,500}$",
    "(a{1,1000}){1,1000}",
    "^(?:.{0,30}){0,30}$",
    "^.*a.{20}$",
    "^(a+)+$",
    "^(a|a)*b$",
    "(" * 300 + "a" + ")" * 300,
]
MAKERS: dict[str, Callable[[], GrammarSpec]] = {
    **{name: (lambda schema=schema: json_schema(schema)) for name, schema in SCHEMAS.items()},
    **{f"pattern {text:.20}": (lambda text=text: json_schema({"pattern": text})) for text in PATTERNS},
    "regex (.{0,30}){0,30}": lambda: regex("(?:.{0,30}){0,30}"),
    "regex (a{1,1000}){1,1000}": lambda: regex("(?:a{1,1000}){1,1000}"),
    "20,000 choices": lambda: choice([f"c{n}" for n in range(20_000)]),
    "lark (.{0,30}){0,30}": lambda: lark("start: /(.{0,30}){0,30}/"),
    "lark 300 deep": lambda: lark("start: " + "(" * 300 + '"a"' + ")" * 300),
    "ebnf 300 deep": lambda: ebnf("root ::= " + "(" * 300 + '"a"' + ")" * 300),
    "ebnf ((){0,10}){0,10}": lambda: ebnf("root ::= [A-Z] ([^\\n]{0,10}){0,10} [0-9]"),
    "ebnf {0,5000}": lambda: ebnf("root ::= [A-Z] [^\\n]{0,5000} [0-9]"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_ends_in_a_result_or_a_typed_error_soon(name: str) -> None:
    started = time.process_time()
    try:
        grammar = BACKEND.compile(MAKERS[name]()).start()
        rng, bitmask = random.Random(0), torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
        for _ in range(20):
            grammar.fill_bitmask(bitmask, 0)
            legal = [token for token in range(257) if int(bitmask[0, token // 32]) >> token % 32 & 1]
            if not legal or grammar.is_terminated:
                break
            grammar.accept([rng.choice(legal)])
    except ConstrainError:
        pass
    assert time.process_time() - started < MAX_SECONDS


@pytest.mark.parametrize(
    "text",
    [
        'root ::= ("a"{1,1000}){1,1000}',
        "root ::= [A-Z] ([^\\n]{0,10}){0,10} [0-9]",
        'root ::= [A-Z] x{0,10} [0-9]\nx ::= y\ny ::= [^\\n]{0,10} | "b" # {9}',
        "root ::= [A-Z] [^\\n]{0,5000} [0-9]",
        "root ::= ((x {3}) {5}) {6}\nx ::= x | [a]",
    ],
)
def test_repeats_inside_each_other_are_refused_in_ebnf(text: str) -> None:
    assert XGrammarBackend(VOCABULARY).unsupported(ebnf(text))
    tag = {"begin": "<f>", "content": {"type": "grammar", "grammar": text}, "end": "</f>"}
    wrapped = {"type": "structural_tag", "format": {"type": "triggered_tags", "triggers": ["<f"], "tags": [tag]}}
    with pytest.raises(UnsupportedGrammarError):
        XGrammarBackend(VOCABULARY).compile(structural_tag(wrapped))


@pytest.mark.parametrize(
    "text", ['root ::= x{1,20} | "{9999}" [{9999}]\nx ::= "a" | "b"', 'root ::= "a"{1,1000}', 'root ::= ("a"{8}){8}']
)
def test_ordinary_repeats_are_not_refused_in_ebnf(text: str) -> None:
    assert XGrammarBackend(VOCABULARY).unsupported(ebnf(text)) == []
