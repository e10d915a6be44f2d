"""The facts about xgrammar that its adapter relies on; each fails when the library changes."""

import itertools
import json
import random
from typing import Any

import jsonschema
import pytest
import torch
import xgrammar

from constrain.backends.xgrammar import XGrammarBackend
from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, ebnf, lark, regex, structural_tag
from constrain.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    [b"", b"<sp>", *(bytes([byte]) for byte in range(256)), b"aa", b"ab"],
    stop_token_ids=[0],
    special_token_ids=[1],
    logits_width=300,
)
BACKEND = XGrammarBackend(VOCABULARY)
INFO = xgrammar.TokenizerInfo(list(VOCABULARY.token_bytes), xgrammar.VocabType.RAW, vocab_size=300, stop_token_ids=[0])
COMPILER = xgrammar.GrammarCompiler(INFO, max_threads=1, cache_enabled=False)


def raw(grammar: Any) -> Any:
    return xgrammar.GrammarMatcher(COMPILER.compile_grammar(grammar))


def raw_ebnf(text: str) -> Any:
    return raw(xgrammar.Grammar.from_ebnf(text))


def raw_json(schema: object) -> Any:
    return raw(xgrammar.Grammar.from_json_schema(json.dumps(schema), strict_mode=False))


def raw_takes(matcher: Any, text: str | bytes) -> bool:
    matcher.reset()
    data = text if isinstance(text, bytes) else text.encode()
    return all(matcher.accept_token(2 + byte) for byte in data) and bool(matcher.is_completed())


def raw_mask(matcher: Any) -> set[int]:
    row = torch.zeros(1, 10, dtype=torch.int32)
    matcher.fill_next_token_bitmask(row, 0)
    return {32 * n + bit for n, word in enumerate(row[0].tolist()) for bit in range(32) if word >> bit & 1}


def schema_spec(schema: object, **form: Any) -> GrammarSpec:
    return GrammarSpec("json_schema", json.dumps(schema), JsonForm(**form))


def takes(grammar_spec: GrammarSpec, text: str | bytes) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    return BACKEND.compile(grammar_spec).start().accept([*(2 + byte for byte in data), 0]) == len(data) + 1


# The library


def test_filling_after_the_stop_token_raises() -> None:
    matcher = raw_ebnf('root ::= "a"')
    assert matcher.accept_token(2 + ord("a")) and matcher.accept_token(0) and matcher.is_terminated()
    with pytest.raises(RuntimeError):
        raw_mask(matcher)


def test_an_illegal_token_keeps_the_state() -> None:
    matcher = raw_ebnf('root ::= "ab"')
    before = raw_mask(matcher)
    assert not matcher.accept_token(2 + ord("x"))
    assert raw_mask(matcher) == before


def test_bits_behind_the_vocabulary_are_set_in_the_last_word() -> None:
    assert raw_mask(raw_ebnf("root ::= [^a]*")) & set(range(300, 320))


def test_rows_are_taken_for_contiguous() -> None:
    wide = torch.zeros(3, 15, dtype=torch.int32)
    raw_ebnf('root ::= "ab"').fill_next_token_bitmask(wide[:, :10], 1)
    assert not wide[1, :10].equal(torch.zeros(10, dtype=torch.int32)) or wide[0].any()
    right = torch.zeros(1, 10, dtype=torch.int32)
    raw_ebnf('root ::= "ab"').fill_next_token_bitmask(right, 0)
    assert not wide[1, :10].equal(right[0])


def test_negated_classes_match_encoded_surrogates() -> None:
    assert raw_takes(raw_ebnf("root ::= [^a]"), b"\xed\xa0\x80")
    assert not raw_takes(raw_ebnf("root ::= [\\u0000-\\uD7FF\\uE000-\\U0010FFFF]"), b"\xed\xa0\x80")


def test_json_strings_hold_lone_surrogates() -> None:
    assert raw_takes(raw_json({"type": "string"}), r'"\ud800"')
    assert raw_takes(raw_json({"type": "string"}), b'"\xed\xa0\x80"')


def test_a_length_lets_raw_control_characters_through() -> None:
    assert raw_takes(raw_json({"type": "string", "minLength": 1}), '"\x01"')


def test_a_root_self_reference_masks_what_it_accepts() -> None:
    matcher = raw_json({"type": "array", "items": {"$ref": "#"}})
    for char in b"[[]":
        assert matcher.accept_token(2 + char)
    assert matcher.accept_token(2 + ord("]"))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"not": {"type": "integer"}}, "1"),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1, 1]"),
        ({"type": "array", "contains": {"type": "null"}}, "[]"),
        ({"if": {}, "then": False}, "1"),
        ({"minimum": 3}, "1"),
        ({"minLength": 3}, '"a"'),
        ({"enum": [1, "a"], "type": "string"}, "1"),
        ({"$defs": {"a": {"type": "integer"}}, "$ref": "#/$defs/a", "minimum": 3}, "1"),
        ({"anyOf": [{"type": "integer"}], "minimum": 3}, "1"),
        ({"type": "number", "multipleOf": 0.5}, "0.3"),
        (
            {
                "type": "object",
                "properties": {"a": {}},
                "additionalProperties": False,
                "dependentRequired": {"a": ["b"]},
            },
            '{"a": 1}',
        ),
        ({"type": "object", "properties": {}, "required": ["a"], "additionalProperties": False}, "{}"),
        ({"type": "object", "properties": {"foo": {"type": "integer"}}}, r'{"\u0066oo": "x"}'),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "1"),
    ],
)
def test_what_xgrammar_drops_is_refused(schema: object, text: str) -> None:
    try:
        dropped = raw_takes(raw_json(schema), text)
    except RuntimeError:
        dropped = False  # it learned to refuse this one by itself
    assert dropped, "xgrammar no longer drops this: look at the list again"
    assert BACKEND.unsupported(schema_spec(schema))
    with pytest.raises(UnsupportedGrammarError):
        BACKEND.compile(schema_spec(schema))


# What the adapter makes of it


@pytest.mark.parametrize("text", [r'"\ud800"', r'"\u0041"', b'"\xed\xa0\x80"', b'"\xff"', '"\x01"', '"\n"', r'"\x"'])
def test_no_string_is_invalid_json_or_no_text(text: str | bytes) -> None:
    assert not takes(schema_spec({"type": "string"}), text)
    assert takes(schema_spec({"type": "string"}), '"a\\n\\"\\\\é😀\x7f"')


def test_no_class_of_a_grammar_matches_an_encoded_surrogate() -> None:
    spec = ebnf('root ::= [^a"\\]\\-] | "[^x" "]" | [\\u0041-\\U0010FFFF] "z"')
    for text in ("b", "[", "^", "é", "😀", "[^x]", "Az", "\ud7ffz", "\ue000z"):
        assert takes(spec, text), text
    for text in ("a", '"', "]", "-", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\x80z", b"\xff"):
        assert not takes(spec, text), text


LISTED: dict[str, Any] = {
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "bounds": {"type": "integer", "minimum": -3, "maximum": 12},
    "minimum": {"type": "integer", "minimum": 7},
    "maximum": {"type": "integer", "maximum": -2},
    "string": {"type": "string"},
    "enum": {"enum": ["a", "é", 1, -2, True, None, ""]},
    "const": {"const": "a b"},
    "typed-enum": {"type": "string", "enum": ["a", "b"]},
    "array": {"type": "array", "items": {"type": "integer"}},
    "array-bounds": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
    "array-empty": {"type": "array", "items": {"type": "boolean"}, "maxItems": 0},
    "object": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "é": {"type": "boolean"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    "object-optional": {
        "type": "object",
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
        "additionalProperties": False,
    },
    "object-empty": {"type": "object", "additionalProperties": False},
    "anyOf": {"anyOf": [{"type": "integer"}, {"type": "null"}, {"type": "array", "items": {"type": "null"}}]},
    "recursive": {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
                "required": ["next"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/node",
    },
}  # fmt: skip

SCALARS = [
    None,
    True,
    False,
    0,
    1,
    -1,
    -2,
    -3,
    -4,
    6,
    7,
    12,
    13,
    100,
    10**12,
    0.5,
    -1.25,
    "",
    "a",
    "b",
    "é",
    "a b",
    'q"\\',
]
KEYS = ["a", "b", "é", "next", "c"]


def instances() -> list[Any]:
    arrays = [list(items) for n in range(5) for items in itertools.islice(itertools.product(SCALARS[:4], repeat=n), 30)]
    objects = [
        dict(zip(keys, values, strict=True))
        for n in range(4)
        for keys in itertools.combinations(KEYS, n)
        for values in itertools.islice(itertools.product([None, 3, True], repeat=n), 9)
    ]
    nested = [{"next": {"next": None}}, {"next": {"next": 1}}, {"next": {"next": {"next": None}}}, [[None]], [{}]]
    return [*SCALARS, *arrays, *objects, *nested]


@pytest.mark.parametrize("name", LISTED)
@pytest.mark.parametrize("whitespace", ["none", "canonical", "flexible"])
def test_what_is_listed_is_enforced_exactly(name: str, whitespace: Any) -> None:
    """Every instance is taken if and only if a validator says so; numbers and keys are written as json.dumps does."""
    schema = LISTED[name]
    spec = schema_spec(schema, whitespace=whitespace, max_whitespace=2)
    assert BACKEND.unsupported(spec) == []
    compiled = BACKEND.compile(spec)
    validator = jsonschema.Draft202012Validator(schema)
    separators = (", ", ": ") if whitespace == "canonical" else (",", ":")
    for instance in instances():
        text = json.dumps(instance, ensure_ascii=False, separators=separators).encode()
        taken = compiled.start().accept([*(2 + byte for byte in text), 0]) == len(text) + 1
        assert taken == validator.is_valid(instance), instance


@pytest.mark.parametrize("name", LISTED)
def test_random_walks_through_what_is_listed_are_valid(name: str) -> None:
    schema = LISTED[name]
    compiled = BACKEND.compile(schema_spec(schema, max_whitespace=2))
    validator = jsonschema.Draft202012Validator(schema)
    for seed in range(30):
        rng, grammar, tokens = random.Random(seed), compiled.start(), list[int]()
        while not grammar.is_terminated and len(tokens) < 200:
            bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
            grammar.fill_bitmask(bitmask, 0)
            legal = [32 * n + b for n, word in enumerate(bitmask[0].tolist()) for b in range(32) if word >> b & 1]
            closing = [t for t in legal if t == 0 or VOCABULARY.token_bytes[t] in (b'"', b"]", b"}")]
            token = rng.choice(closing if closing and rng.random() < 0.4 else legal)
            assert grammar.accept([token]) == 1
            tokens.append(token)
        if grammar.is_terminated:
            validator.validate(json.loads(VOCABULARY.decode(tokens)))


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ({"whitespace": "none"}, ['{"a":[1,2]}'], ['{"a": [1,2]}', '{"a":[1, 2]}', '{ "a":[1,2]}']),
        ({"whitespace": "canonical"}, ['{"a": [1, 2], "b": {}}'], ['{"a":[1,2]}', '{"a": [1,2]}', '{ "a": [1, 2]}']),
        (
            {"whitespace": "flexible", "max_whitespace": 2},
            ['{"a":[1,2]}', '{ \n"a" : [1\t,\r\n2 ] }'],
            ['{   "a":1}', '{"a"   :1}', '{"a":   1}', '{"a":[1   ,2]}', '{"a":[1,   2]}', '{"a":1   }'],
        ),
    ],
)
def test_whitespace_is_written_as_asked(form: dict[str, Any], good: list[str], bad: list[str]) -> None:
    spec = GrammarSpec("json_object", "", JsonForm(**form))
    assert [takes(spec, text) for text in good + bad] == [True] * len(good) + [False] * len(bad)


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        (
            {"type": "object", "properties": {"a": {"contains": {"type": "null"}}}, "additionalProperties": False},
            ("/properties/a/contains", "contains"),
        ),
        ({"type": "integer", "maximum": 1e99}, ("/maximum", "maximum")),
        ({"type": "object"}, ("", "additionalProperties")),
        ({"type": "array"}, ("", None)),
        ({"type": ["null", "string"]}, ("", None)),
        ({"anyOf": [{"type": "null"}, {"type": "string", "pattern": "a"}]}, ("/anyOf/1/pattern", "pattern")),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer", "multipleOf": 2}}},
            ("/$defs/a/multipleOf", "multipleOf"),
        ),
        ({"enum": ['a"']}, ("/enum", "enum")),
        ({"enum": [1.5]}, ("/enum", "enum")),
        (True, ("", None)),
    ],
)
def test_what_is_not_listed_is_refused_with_its_place(schema: object, place: tuple[str, str | None]) -> None:
    first = BACKEND.unsupported(schema_spec(schema))[0]
    assert (first.pointer, first.keyword) == place


def test_a_regex_means_what_python_means() -> None:
    for pattern, good, bad in [
        (r"a.c", ["abc", "aéc", "a\rc"], ["a\nc", "ac"]),
        (r"[/\]\"^-]{2,3}", ['/"', "]^-"], ["a/", "/"]),
        (r"\d+|x{0}y", ["12", "٣", "y"], ["", "x"]),
    ]:
        spec = regex(pattern)
        assert [takes(spec, text) for text in good + bad] == [True] * len(good) + [False] * len(bad), pattern


def test_choices_are_taken_literally() -> None:
    choices = ["a/b", 'x"\\y', "[a-z]", "日本😀", "\n", "<sp>", "a"]
    assert all(takes(choice(choices), text) for text in choices)
    assert not takes(choice(choices), "b") and not takes(choice(choices), "a/")


def test_ebnf_that_does_not_parse_says_where() -> None:
    with pytest.raises(InvalidGrammarError) as caught:
        BACKEND.compile(ebnf('root ::= "a"\nx ::= foo'))
    assert caught.value.position == len('root ::= "a"\nx ::= ')
    for text in ('x ::= "a"', 'root ::= "a" |', "root ::= [z-a]", "root ::= [a", 'root = "a"'):
        with pytest.raises(InvalidGrammarError):
            BACKEND.compile(ebnf(text))


@pytest.mark.parametrize("text", ['root ::= Token(1) "a"', 'root ::= ExcludeToken(1) "a"'])
def test_ebnf_that_names_token_ids_is_refused(text: str) -> None:
    assert BACKEND.unsupported(ebnf(text))


def _tag(content: object) -> GrammarSpec:
    tags = [{"begin": "<f>", "content": content, "end": "</f>"}]
    return structural_tag({
        "type": "structural_tag",
        "format": {"type": "triggered_tags", "triggers": ["<f"], "tags": tags},
    })  # fmt: skip


def test_structural_tags_hold_what_is_enforced() -> None:
    spec = _tag({"type": "json_schema", "json_schema": {"type": "integer"}})
    assert takes(spec, "some text <f>12</f> and more") and takes(spec, "none")
    assert not takes(spec, "<f>a</f>") and not takes(spec, "<f>12")
    spec = _tag({"type": "regex", "pattern": r"\d{2}"})
    assert takes(spec, "<f>1٣</f>") and not takes(spec, "<f>123</f>")
    spec = _tag({"type": "json_schema", "json_schema": {"type": "string"}})
    assert takes(spec, '<f>"a"</f>') and not takes(spec, r'<f>"\ud800"</f>')


@pytest.mark.parametrize(
    "content",
    [
        {"type": "json_schema", "json_schema": {"not": {}}},
        {"type": "json_schema", "json_schema": {"type": "object"}},
        {"type": "json_schema", "json_schema": {"type": "null"}, "style": "qwen_xml"},
        {"type": "token", "token": 1},
        {"type": "sequence", "elements": [{"type": "any_tokens"}]},
        {"type": "grammar", "grammar": "root ::= Token(1)"},
    ],
)
def test_structural_tags_that_hold_something_else_are_refused(content: object) -> None:
    assert BACKEND.unsupported(_tag(content))
    with pytest.raises(UnsupportedGrammarError):
        BACKEND.compile(_tag(content))


def test_a_structural_tag_that_means_nothing_is_invalid() -> None:
    with pytest.raises(InvalidGrammarError):
        BACKEND.compile(structural_tag({"type": "structural_tag"}))


def test_lark_is_unsupported() -> None:
    assert BACKEND.unsupported(lark('start: "a"'))


@pytest.mark.parametrize("pattern", ["[A-Z].{0,5000}[0-9]", "[A-Z](?:.{0,10}){0,10}[0-9]", "(?:a{1,1000}){1,1000}"])
def test_repeats_that_xgrammar_cannot_finish_are_refused(pattern: str) -> None:
    # Not shown: the second takes 18 s a mask on 49,152 tokens.
    assert BACKEND.unsupported(regex(pattern))


def test_ordinary_repeats_are_not_refused() -> None:
    for pattern in ("[a-z]{1,1000}", "(?:[0-9]{1,3}[.]){3}[0-9]{1,3}", "(?:[a-z]+ ){1,50}", "(?:ab?)*"):
        assert BACKEND.unsupported(regex(pattern)) == []


def test_lone_surrogates_are_invalid() -> None:
    for spec in (choice(["a\ud800"]), ebnf('root ::= "\ud800"')):
        with pytest.raises(InvalidGrammarError):
            BACKEND.compile(spec)
