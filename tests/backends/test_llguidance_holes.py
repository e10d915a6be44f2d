"""Schemas that llguidance takes and must not be given, and large ones that it can be given."""

import json
import re
import subprocess
import sys

import pytest
import torch

from constrain import Grammar, InvalidSchemaError, UnsupportedGrammarError, Vocabulary, json_schema, make_backend
from constrain.schema.ecma import translate_pattern

BYTES = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0])


def accepts(grammar: Grammar, text: str) -> bool:
    """Whether the masks allow ``text`` and then the end."""
    bitmask = torch.zeros(1, BYTES.num_mask_words, dtype=torch.int32)
    for token_id in [*(byte + 1 for byte in text.encode()), 0]:
        grammar.fill_bitmask(bitmask, 0)
        if not bitmask[0, token_id // 32].item() >> (token_id % 32) & 1:
            return False
        assert grammar.accept([token_id]) == 1
    return True


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": -(2**63), "maximum": -(2**63)},
        {"type": "integer", "minimum": 2**63, "maximum": 2**64},
        {"type": "integer", "minimum": -(10**19), "maximum": 0},
        {"minimum": 1e20},
        {"type": ["string", "integer"], "exclusiveMaximum": 1e19},
        {"const": 2**53 + 1},
        {"enum": [1, {"a": [10**17 + 1]}]},
        {"type": "integer", "minimum": 2**53 + 1},
        {"type": "integer", "exclusiveMaximum": 1e16},
        {"type": "integer", "exclusiveMaximum": 2**63 - 1},
        {"type": "integer", "not": {"const": 2**53 + 1}},
        {"oneOf": [{"const": 1e16}, {"type": "integer"}]},
        {"type": "array", "uniqueItems": True, "items": {"enum": [2**53 + 1, 1]}},
    ],
)
def test_numbers_that_are_rounded_or_cut_off_are_refused(schema: dict[str, object]) -> None:
    with pytest.raises(UnsupportedGrammarError, match="2\\*\\*53"):
        make_backend("llguidance", BYTES).compile(json_schema(schema))


def test_llguidance_dies_of_bounds_that_it_cuts_off() -> None:
    schema = {"type": "integer", "minimum": -(2**63), "maximum": -(2**63)}
    code = (
        "from llguidance import LLMatcher, LLTokenizer;"
        "LLMatcher(LLTokenizer('byte'), 'start: %json ' + " + repr(json.dumps(schema)) + ", log_level=0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode != 0, "llguidance can be given such bounds now"


@pytest.mark.parametrize("bound", [2**53 - 1, 2**53])
def test_the_largest_bounds_are_exact(bound: int) -> None:
    compiled = make_backend("llguidance", BYTES).compile(
        json_schema({"type": "integer", "minimum": 0, "maximum": bound})
    )
    assert accepts(compiled.start(), str(bound)) and not accepts(compiled.start(), str(bound + 1))


def test_a_thousand_optional_properties_do_not_die_on_the_way() -> None:
    properties = {f"p{index}": {"type": "integer"} for index in range(1000)}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    compiled = make_backend("llguidance", BYTES).compile(json_schema(schema))
    assert accepts(compiled.start(), '{"p3": 1, "p500": 2, "p999": 3}')
    assert not accepts(compiled.start(), '{"p3": 1, "p1000": 2}')


SETS = [
    r"[^\\]", r'[^"]', r'["\\]', r"[\u0000-\u001f#]", r"[\x00-\x7f]", r"[^\u0000-\u0007\"]", r"[^a]", r"\S", r"\s",
    r"\d", r"\D",
    r"\w", r"\W", ".", r"[\s\S]", r"\p{L}", r"\P{L}", r"\\", r"\uD83D\uDE00", r"[\uD83D\uDE00é]", r"(?:[^\"]|x)", r"\n",
]  # fmt: skip
OTHERS = "\u1680\u180e\u2000\u2028\u2029\u202f\u205f\u3000\ufeff\u0660\ud7ff\ue000\U0001f600\U0010ffff"
CHARACTERS = [*map(chr, range(0x180)), *OTHERS]
SHORT = {"\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", '"': r"\"", "\\": r"\\"}


@pytest.mark.parametrize("characters", SETS)
def test_sets_of_patterns_hold_what_ecmascript_says(characters: str) -> None:
    searches = re.compile(translate_pattern(f"^{characters}+$"))
    compiled = make_backend("llguidance", BYTES).compile(json_schema({"type": "string", "pattern": f"^{characters}+$"}))
    keys = {"type": "object", "patternProperties": {f"^{characters}+$": {}}, "additionalProperties": False}
    keyed = make_backend("llguidance", BYTES).compile(json_schema(keys))
    for character in CHARACTERS:
        text = SHORT.get(character, character)
        writable = character not in map(chr, range(32)) or character in SHORT
        holds = writable and character != "\x7f" and searches.search(character) is not None
        assert accepts(compiled.start(), f'"{text}"') == holds, ascii(character)
        assert accepts(compiled.start(), f'"{text}{text}"') == holds, ascii(character)
        assert accepts(keyed.start(), f'{{"{text}":1}}') == holds, ascii(character)


def test_a_set_of_unwritable_characters_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedGrammarError, match="escape") as caught:
        make_backend("llguidance", BYTES).compile(json_schema({"type": "string", "pattern": r"^[\u0001-\u0003]$"}))
    assert caught.value.unsupported[0].pointer == "/pattern"


@pytest.mark.parametrize("pattern", ["^a{ 1}$", "^a{1, 2}$", "^a{1 ,2}$", "^{$", "^a{,2}$"])
def test_braces_that_are_no_quantifier_are_refused(pattern: str) -> None:
    with pytest.raises((UnsupportedGrammarError, InvalidSchemaError)):
        make_backend("llguidance", BYTES).compile(json_schema({"type": "string", "pattern": pattern}))


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ({"propertyNames": {"const": "c", "enum": ["a", "b"]}}, '{"c": 1}'),
        ({"type": "array", "uniqueItems": True, "maxItems": 2, "items": {"const": 3, "enum": [1, 2]}}, "[3]"),
        ({"$ref": "#/$defs/x", "allOf": [{"enum": [1]}, {"allOf": [False]}], "$defs": {"x": {"minLength": 1}}}, "1"),
    ],
)
def test_const_counts_beside_enum_and_nothing_beside_false(schema: dict[str, object], wrong: str) -> None:
    try:
        compiled = make_backend("llguidance", BYTES).compile(json_schema(schema))
    except UnsupportedGrammarError:
        return
    assert not accepts(compiled.start(), wrong)
