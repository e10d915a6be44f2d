"""outlines-core and lm-format-enforcer beside the trie backend and the validator, and what they do by themselves."""

import json
import random
import re
import sys
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from constrain.backend import Backend
from constrain.backends import make_backend
from constrain.errors import ConstrainError, InvalidGrammarError, InvalidInputError, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar, Grammar
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, json_object, json_schema, regex
from constrain.schema import Validator
from constrain.vocabulary import Vocabulary
from tests.schema.random_schemas import instances, random_schema

LIBRARIES = {"outlines": "outlines_core", "lm-format-enforcer": "lmformatenforcer"}
VOCABULARY = Vocabulary(
    [b"", b"", *(bytes([byte]) for byte in range(256)), b"ab", b"ba", b'{"', b'": ', "é".encode(), b"\xa9a", b"ab"],
    stop_token_ids=[0, 1],
    logits_width=300,
)
TRIE = make_backend("trie", VOCABULARY)
PATTERNS = [
    "(?:ab)*", "a(?:ba)*", "1(?:\\.[0-9]+)?(?:e1)?", "(?:x*y)?", "(?:ab|cd)+e?", "é*", "[é日]*b?", "(?s:.{0,3})",
    r"\d{1,2}", "(?i:s)+", "a|ab|abc", "(?:a?b?)*c", "(?:(?:a|bc)*d){0,2}", "[\\x00-\\x1f\"\\\\]*", "😀|\U0010ffff",
    "[^a]+", "(?:é|ê)x",
    "[\\]^\\-a]*", "a{3,5}|b{0,2}", "(?:|a)(?:|b)",
]  # fmt: skip


@pytest.fixture(scope="module", params=LIBRARIES)
def backend(request: pytest.FixtureRequest) -> Backend:
    if find_spec(LIBRARIES[request.param]) is None:
        pytest.skip(f"{LIBRARIES[request.param]} is not installed: `make backends`")
    return make_backend(request.param, VOCABULARY)


def mask_of(grammar: Grammar) -> set[int]:
    bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    grammar.fill_bitmask(bitmask, 0)
    return {32 * n + bit for n, word in enumerate(bitmask[0].tolist()) for bit in range(32) if word >> bit & 1}


def takes(compiled: CompiledGrammar, text: str) -> bool:
    data = text.encode()
    return compiled.start().accept([*(2 + byte for byte in data), 0]) == len(data) + 1


def assert_same_masks(one: Grammar, other: Grammar, rng: random.Random) -> None:
    for _ in range(25):
        legal = mask_of(one)
        assert legal == mask_of(other)
        if one.is_terminated or not legal:
            return
        token = rng.choice(sorted(legal - {0, 1} or legal) if rng.random() < 0.9 else sorted(legal))
        assert one.accept([token]) == other.accept([token]) == 1


@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_are_those_of_the_trie_backend(backend: Backend, pattern: str) -> None:
    ours, oracle = backend.compile(regex(pattern)), TRIE.compile(regex(pattern))
    for seed in range(12):
        assert_same_masks(ours.start(), oracle.start(), random.Random(seed))
        assert_same_masks(oracle.start(), ours.start(), random.Random(seed))


@pytest.mark.parametrize("seed", range(40))
def test_masks_of_random_patterns_are_those_of_the_trie_backend(backend: Backend, seed: int) -> None:
    spec = _random_regex(random.Random(seed))
    ours, oracle = backend.compile(spec), TRIE.compile(spec)
    for walk in range(6):
        assert_same_masks(ours.start(), oracle.start(), random.Random(walk))


def _random_regex(rng: random.Random) -> GrammarSpec:
    while True:
        try:
            return regex(_random_pattern(rng, 4))
        except InvalidGrammarError:
            continue  # of the empty text only


def _random_pattern(rng: random.Random, depth: int) -> str:
    kind = rng.randrange(4) if depth else 0
    if kind == 0:
        return rng.choice(["a", "b", "ab", "é", "[ab]", "[^a]", "[é-日]", "1", "\\.", "\\n"])
    if kind == 1:
        return "".join(_random_pattern(rng, depth - 1) for _ in range(rng.randint(2, 3)))
    if kind == 2:
        return f"(?:{'|'.join(_random_pattern(rng, depth - 1) for _ in range(rng.randint(2, 3)))})"
    return f"(?:{_random_pattern(rng, depth - 1)}){rng.choice(['*', '+', '?', '{2}', '{1,2}', '{0,2}'])}"


def test_choices_are_taken_and_nothing_else(backend: Backend) -> None:
    words = ["ab", "a", "abc", "é", ".*", "日本", "😀", "\\", '"', "a b"]
    compiled = backend.compile(choice(words))
    for text in (*words, "", "b", "abcd", "x", "日"):
        assert takes(compiled, text) == (text in words)


def test_random_schemas_take_valid_values_only_and_every_canonical_one(backend: Backend) -> None:
    num_compiled = num_taken = 0
    for seed in range(4000, 4150):
        schema = random_schema(random.Random(seed))
        try:
            compiled = backend.compile(json_schema(schema, form=JsonForm("canonical")))
        except ConstrainError:
            continue
        num_compiled += 1
        validator = Validator(schema)
        for value in instances():
            text = json.dumps(value, ensure_ascii=False)
            taken = takes(compiled, text)
            num_taken += taken
            assert not taken or validator.error(text) is None, (schema, text)
            if not isinstance(value, dict) and not (isinstance(value, float) and value == int(value)):
                assert taken == (validator.error(text) is None), (schema, text)
    assert num_compiled > 10 and num_taken > 20


def test_what_is_no_regular_language_is_refused(backend: Backend) -> None:
    for spec in (json_object(), GrammarSpec("ebnf", 'root ::= "a"'), GrammarSpec("lark", 'start: "a"')):
        assert backend.unsupported(spec)
        with pytest.raises(UnsupportedGrammarError):
            backend.compile(spec)


def test_what_takes_too_long_is_refused(backend: Backend) -> None:
    for pattern in ("(?:a|b)*a(?:a|b){30}", "a{20000}"):
        with pytest.raises(UnsupportedGrammarError, match="states"):
            backend.compile(regex(pattern))
    deep = {"type": "array", "prefixItems": [{"type": "null"}] * 900, "items": False}
    with pytest.raises(UnsupportedGrammarError, match=r"nests too deep|states|too large"):
        backend.compile(json_schema(deep))


def test_the_keyword_and_the_place_are_named(backend: Backend) -> None:
    schema = {"type": "array", "items": {"type": "number", "multipleOf": 0.5}, "maxItems": 3}
    with pytest.raises(UnsupportedGrammarError, match=r"at /items/multipleOf: multipleOf is not enforced"):
        backend.compile(json_schema(schema))
    compiled = backend.compile(json_schema(schema, unsupported="ignore"))
    assert takes(compiled, "[0.3]") and not takes(compiled, "[0.3,1,1,1]") and "/multipleOf" in compiled.backend_reason


def test_half_of_a_surrogate_pair_is_no_choice(backend: Backend) -> None:
    with pytest.raises(InvalidGrammarError, match="surrogate"):
        backend.compile(GrammarSpec("choice", '["a", "\\ud800"]'))


@pytest.mark.parametrize("name", LIBRARIES)
def test_an_absent_library_is_an_error_that_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [each for each in sys.modules if each.split(".")[0] == LIBRARIES[name]]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, LIBRARIES[name], None)
    monkeypatch.delitem(sys.modules, f"constrain.backends.{name.replace('-', '_')}", raising=False)
    with pytest.raises(InvalidInputError, match=rf"pip install 'constrain-lm\[{name}\]'"):
        make_backend(name, VOCABULARY)


# The libraries by themselves: each fails when they change, and the reason for it in an adapter goes.

_DROPPED: list[tuple[Any, str]] = [
    ({"type": "integer", "minimum": 3}, "1"),
    ({"type": "number", "multipleOf": 0.5}, "0.3"),
    ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1,1]"),
    ({"type": "array", "items": {"type": "integer"}, "contains": {"const": 3}}, "[1]"),
    ({"type": "string", "not": {"const": "a"}}, '"a"'),
    ({"type": "string", "maxLength": 1, "pattern": "^a*$"}, '"b"'),
]


@pytest.mark.parametrize(("schema", "text"), _DROPPED)
def test_outlines_core_drops_keywords_in_its_own_translation(schema: Any, text: str) -> None:
    outlines_core = pytest.importorskip("outlines_core")
    assert Validator(schema).error(text) is not None
    assert re.fullmatch(outlines_core.json_schema.build_regex_from_schema(json.dumps(schema)), text)


def test_outlines_core_drops_tokens_behind_the_end_of_a_text() -> None:
    outlines_core = pytest.importorskip("outlines_core")
    vocabulary = outlines_core.Vocabulary(9, {b"a": [0], b"b": [1]})
    index = outlines_core.Index("(?:ab)*", vocabulary)
    assert index.get_next_state(index.get_initial_state(), 0) is None
    anchored = outlines_core.Index(r"(?:ab)+\z", vocabulary)
    assert anchored.get_next_state(anchored.get_initial_state(), 0) is not None
    with pytest.raises(ValueError, match="universal start state"):
        outlines_core.Index(r"(?:ab)*\z", vocabulary)


def test_outlines_core_refuses_what_its_tokens_cannot_finish() -> None:
    pytest.importorskip("outlines_core")
    narrow = Vocabulary([b"", b"a", b"b"], stop_token_ids=[0])
    with pytest.raises(UnsupportedGrammarError, match="no token of this vocabulary goes on"):
        make_backend("outlines", narrow).compile(regex("a|bz"))


@pytest.mark.parametrize(
    ("schema", "text"),
    [*_DROPPED[:-1], ({"type": "integer"}, "1e-5"), ({"type": "string"}, r'"\ud800"'), ({"type": "null"}, " null ")],
)
def test_lm_format_enforcer_drops_keywords_in_its_own_json(schema: Any, text: str) -> None:
    library = pytest.importorskip("lmformatenforcer")
    parser = library.JsonSchemaParser(schema)
    for char in text:
        assert char in parser.get_allowed_characters(), char
        parser = parser.add_character(char)
    assert parser.can_end()


def test_lm_format_enforcer_knows_ascii_only_unless_told() -> None:
    library = pytest.importorskip("lmformatenforcer")
    assert "é" not in library.RegexParser("[^a]").get_allowed_characters()
