"""JSON schemas through ``auto``: nothing invalid is written, and what is refused is named."""

import itertools
import json
import random

import pytest
import torch

from constrain.backends import make_backend
from constrain.backends.auto import AutoBackend
from constrain.errors import ConstrainError, InvalidSchemaError, LimitExceededError, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec, JsonForm, json_schema
from constrain.schema import Dialect, Validator
from constrain.vocabulary import Vocabulary
from tests.schema.data import each_dialect, needs_suite, suite_cases, suite_documents
from tests.schema.random_schemas import instances, random_schema

VOCABULARY = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0])
BACKEND = AutoBackend(VOCABULARY)
LIBRARY = make_backend("llguidance", VOCABULARY)
TEXTS = [json.dumps(value, ensure_ascii=False) for value in instances()]
EXACT = {"draft4": 137, "draft6": 188, "draft7": 212, "draft2019-09": 307, "draft2020-12": 316}
"""At least so many schemas of the required suite agree with every one of their tests."""


def takes(compiled: CompiledGrammar, text: str) -> bool:
    data = text.encode()
    return compiled.start().accept([*(1 + byte for byte in data), 0]) == len(data) + 1


def takes_by_masks(compiled: CompiledGrammar, text: str) -> bool:
    grammar = compiled.start()
    bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    for token in [*(1 + byte for byte in text.encode()), 0]:
        grammar.fill_bitmask(bitmask, 0)
        if not int(bitmask[0, token // 32]) >> token % 32 & 1:
            return False
        assert grammar.accept([token]) == 1
    return True


@needs_suite
@each_dialect
def test_the_suite_has_no_false_accept(dialect: Dialect) -> None:
    exact = 0
    wrong = []
    for name, case in suite_cases(dialect, optional=False):
        try:
            spec = json_schema(case["schema"], documents=suite_documents(), dialect=dialect)
            compiled = BACKEND.compile(spec)
        except UnsupportedGrammarError as exc:
            assert exc.unsupported and all(item.keyword for item in exc.unsupported if "llguidance" in item.reason), (
                name
            )
            continue
        except (InvalidSchemaError, LimitExceededError):
            continue
        answers = [
            (test, takes_by_masks(compiled, json.dumps(test["data"], ensure_ascii=False))) for test in case["tests"]
        ]
        wrong += [(name, test["description"]) for test, taken in answers if taken and not test["valid"]]
        exact += all(taken == test["valid"] for test, taken in answers)
    assert not wrong
    assert exact >= EXACT[dialect.name]


@pytest.mark.parametrize("block", range(8))
def test_random_schemas_have_no_false_accept(block: int) -> None:
    num_compiled = 0
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        schema = random_schema(random.Random(seed))
        try:
            validator = Validator(schema)
            compiled = BACKEND.compile(json_schema(schema))
        except ConstrainError:
            continue
        num_compiled += 1
        for text in TEXTS[::3]:
            assert not takes(compiled, text) or validator.error(text) is None, (seed, text)
    assert num_compiled > 5


@pytest.mark.parametrize("seed", range(2000, 2020))
def test_random_walks_of_random_schemas_are_valid(seed: int) -> None:
    rng = random.Random(seed)
    schema = random_schema(rng)
    try:
        validator = Validator(schema)
        compiled = BACKEND.compile(json_schema(schema, form=JsonForm("canonical")))
    except ConstrainError:
        pytest.skip("refused")
    for _ in range(10):
        text = _walk(compiled, rng)
        if text is not None:
            error = validator.error(text)
            assert error is None or "occurs twice" in error, (schema, text)


def _walk(compiled: CompiledGrammar, rng: random.Random) -> str | None:
    grammar, tokens = compiled.start(), list[int]()
    bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    while len(tokens) < 120:
        grammar.fill_bitmask(bitmask, 0)
        legal = [token for token in range(257) if int(bitmask[0, token // 32]) >> token % 32 & 1]
        if not legal:
            return None
        closing = [token for token in legal if token == 0 or VOCABULARY.token_bytes[token] in (b'"', b"]", b"}")]
        ascii_only = [token for token in legal if token < 128]
        token = rng.choice(closing if closing and rng.random() < 0.5 else ascii_only or legal)
        assert grammar.accept([token]) == 1
        if token == 0:
            return VOCABULARY.decode(tokens).decode()
        tokens.append(token)
    return None


def test_what_is_ignored_is_neither_enforced_nor_checked() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "maxItems": 3}
    with pytest.raises(UnsupportedGrammarError):
        LIBRARY.compile(json_schema(schema))
    spec = json_schema(schema, unsupported="ignore")
    compiled = LIBRARY.compile(spec)
    assert compiled.grammar_spec == spec and compiled.backend_name == "llguidance"
    assert "/uniqueItems" in compiled.backend_reason and "ignored" in compiled.backend_reason
    assert takes(compiled, "[1,1]") and not takes(compiled, '["a"]') and not takes(compiled, "[1,1,1,1]")
    assert "uniqueItems" not in compiled.enforced_spec.text and "maxItems" in compiled.enforced_spec.text


def test_a_keyword_that_another_reads_is_ignored_with_it() -> None:
    schema = {
        "patternProperties": {"(?=a)": {"type": "null"}},
        "properties": {"b": {"type": "null"}},
        "additionalProperties": False,
    }
    compiled = LIBRARY.compile(json_schema(schema, unsupported="ignore"))
    assert takes(compiled, '{"b":null,"a":1}') and not takes(compiled, '{"b":1}')


def test_what_checks_enforce_is_not_ignored() -> None:
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    compiled = BACKEND.compile(json_schema(schema, unsupported="ignore"))
    assert takes(compiled, "[1,2]") and not takes(compiled, "[1,1]") and compiled.backend_name == "llguidance+checks"


def test_to_ignore_costs_nothing_where_all_is_enforced() -> None:
    spec = json_schema({"type": "integer", "minimum": 3}, unsupported="ignore")
    assert BACKEND.unsupported(spec) == []
    compiled = BACKEND.compile(spec)
    assert not takes(compiled, "2") and "first choice" in compiled.backend_reason
    assert compiled.enforced_spec.text == spec.text


def test_false_cannot_be_ignored_away() -> None:
    with pytest.raises(UnsupportedGrammarError):
        BACKEND.compile(json_schema(False, unsupported="ignore"))


def test_formats_decide_if_asked() -> None:
    schema = {"type": "string", "format": "ipv4"}
    loose, strict = BACKEND.compile(json_schema(schema)), BACKEND.compile(json_schema(schema, assert_formats=True))
    assert takes(loose, '"x"') and not takes(strict, '"x"') and takes(strict, '"127.0.0.1"')
    # A name that no draft defines is an annotation, as the drafts say; the report lists it as one.
    assert takes(BACKEND.compile(json_schema({"format": "nonsense"}, assert_formats=True)), '"x"')


def test_documents_are_part_of_the_spec() -> None:
    documents = {"https://example.com/a": {"$id": "https://example.com/a", "$defs": {"b": {"type": "null"}}}}
    compiled = BACKEND.compile(json_schema({"items": {"$ref": "https://example.com/a#/$defs/b"}}, documents=documents))
    assert takes(compiled, "[null]") and not takes(compiled, "[1]")


def test_a_spec_made_by_hand_is_read_the_same_way() -> None:
    spec = GrammarSpec("json_schema", '{"not": {"type": "string"}, "type": ["string", "null"]}')
    assert takes(BACKEND.compile(spec), "null") and not takes(BACKEND.compile(spec), '"a"')


@pytest.mark.parametrize("value", [["b"], {"required": ["b"]}, True])
def test_dependencies_of_a_later_draft_are_refused_by_name(value: object) -> None:
    schema = {"dependencies": {"a": value}}
    with pytest.raises(UnsupportedGrammarError, match="at /dependencies: later drafts"):
        BACKEND.compile(json_schema(schema))
    old = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert takes(BACKEND.compile(json_schema(old)), '{"a":1}') == (value is True)


def test_keys_come_in_any_order_if_asked() -> None:
    inner = {
        "type": "object",
        "properties": {"x": {"type": "null"}, "y": {"type": "boolean"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    schema = {**inner, "properties": {"a": {"type": "integer", "minimum": 1}, "b": inner, "c": {}, "d": {}}}
    schema["required"] = ["a", "b"]
    compiled = BACKEND.compile(json_schema(schema, form=JsonForm(key_order="free")))
    values = {"a": 1, "b": {"y": True, "x": None}, "c": [], "d": "x"}
    for order in itertools.permutations(values):
        assert takes(compiled, json.dumps({name: values[name] for name in order})), order
    assert takes(compiled, '{"b":{"x":null},"a":1}')
    for text in ('{"a":1}', '{"b":{"x":null},"a":0}', '{"a":1,"b":{"x":null},"a":1}', '{"b":{"y":true},"a":1}'):
        assert not takes(compiled, text), text


def test_objects_of_one_key_or_of_any_keys_have_no_order() -> None:
    for schema in (
        {"type": "object", "additionalProperties": {"type": "null"}},
        {"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": False},
        {"patternProperties": {"^a": {"type": "null"}}},
    ):
        assert BACKEND.unsupported(json_schema(schema, form=JsonForm(key_order="free"))) == []
