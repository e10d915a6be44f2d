"""Judging texts and walking at random, on the masks of real and of lying grammars."""

import random

import pytest

from constrain.conformance.masks import MaskRow, judge_text
from constrain.conformance.vocabulary import builtin_vocabulary, load_vocabulary
from constrain.conformance.walk import Walker
from constrain.errors import InvalidInputError
from constrain.grammar_spec import json_schema
from constrain.schema import Validator

from .fakes import FakeBackend

VOCABULARY = builtin_vocabulary()


def compiled(schema):
    return FakeBackend(VOCABULARY).compile(json_schema(schema))


def judged(schema, text):
    return judge_text(compiled(schema).start(), MaskRow(VOCABULARY), VOCABULARY, text)


def test_the_builtin_vocabulary_writes_every_text():
    assert VOCABULARY.logits_width > VOCABULARY.size
    for text in ('{"é": [1.0, "\\u0000 日本 😀"]}', "\x00\x7f"):
        assert VOCABULARY.decode(VOCABULARY.encode(text)) == text.encode()
    assert len(VOCABULARY.encode('": {"')) == 1


def test_a_text_is_accepted_with_its_stop_token_only():
    assert judged({"type": "integer"}, "12").accepted
    assert judged({"type": "integer"}, "-").at == 1
    unfinished = judged({"type": "array"}, "[1")
    assert not unfinished.accepted and unfinished.at == 2 and not unfinished.disagreement
    assert judged({"const": "ab"}, '"ax"').at in (1, 2)


def test_a_mask_that_contradicts_validate_is_a_disagreement():
    judgement = judged({"title": "lie"}, "[1]")
    assert "validate 0, accept 1" in judgement.disagreement


def test_walks_end_in_every_way():
    def endings(schema, max_tokens=60):
        walker = Walker(VOCABULARY, random.Random(1), max_tokens=max_tokens)
        return {walker.walk(compiled(schema)).ending for _ in range(20)}

    assert endings({"enum": ["a", 1]}) == {"finished"}
    assert endings({"title": "dead", "type": "string"}) == {"dead_end"}
    assert endings({"title": "lie", "type": "string"}) == {"disagreement"}
    assert endings({"type": "string", "minLength": 500}) == {"capped"}


def test_walks_are_repeated_by_a_seed_and_valid():
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": ["string", "number"]}}}}
    grammar, validator = compiled(schema), Validator(schema)

    def texts():
        walker = Walker(VOCABULARY, random.Random(7), max_tokens=200)
        walks = [walker.walk(grammar) for _ in range(10)]
        return [walk.text.decode() for walk in walks if walk.ending == "finished"]

    first = texts()
    assert first == texts() and len(set(first)) > 3
    duplicates = "occurs twice"  # llguidance alone allows them
    assert [error for error in map(validator.error, first) if error is not None and duplicates not in error] == []


def test_a_walk_follows_its_prefix_as_far_as_it_is_legal():
    walker = Walker(VOCABULARY, random.Random(0), max_tokens=60)
    walk = walker.walk(compiled({"enum": ["abc", "xyz"]}), VOCABULARY.encode('"xy') + VOCABULARY.encode("abc"))
    assert walk.ending == "finished" and walk.text == b'"xyz"'


def test_a_tokenizer_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="tokenizer"):
        load_vocabulary(str(tmp_path / "absent"))
    with pytest.raises(InvalidInputError, match="no tokenizer"):
        load_vocabulary(str(tmp_path))
