"""The laws of grammars, on every backend, spec and vocabulary.

A backend joins by one name in ``BACKENDS``; a wrapper by one entry in ``MAKERS``: a function from a spec and a
vocabulary to a fresh grammar (None where it cannot do the spec).
"""

import json
import random
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec

import pytest
import torch

from constrain.backend import Backend
from constrain.backends import make_backend
from constrain.errors import UnsupportedGrammarError, VocabularyError
from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, ebnf, json_object, lark, regex, structural_tag
from constrain.reasoning import Reasoning, ReasoningFormat, compile_reasoning
from constrain.tags import Special, Tag, named_token_ids, tagged_text
from constrain.vocabulary import Vocabulary

_POISON = 0x5A5A5A5A

_NESTED = {
    "$defs": {"list": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/cell"}]}, "cell": {
        "type": "object",
        "properties": {"a": {"enum": ["b", "bc", 12, True]}, "n": {"$ref": "#/$defs/list"}},
        "required": ["a", "n"],
        "additionalProperties": False,
    }},
    "$ref": "#/$defs/cell",
}  # fmt: skip

_ONE_OF = {"oneOf": [{"const": 1}, {"maximum": 9}]}


def _schema(schema: object, whitespace: str = "flexible") -> GrammarSpec:
    return GrammarSpec("json_schema", json.dumps(schema), JsonForm(whitespace, 3))  # type: ignore[arg-type]


SPECS = {
    "object": json_object(form=JsonForm("flexible", 2)),
    "object-none": json_object(form=JsonForm("none")),
    "object-canonical": json_object(form=JsonForm("canonical")),
    "nested": _schema(_NESTED),
    "nested-canonical": _schema(_NESTED, "canonical"),
    "array": _schema({"type": "array", "items": {"type": "integer", "minimum": -1, "maximum": 120}, "maxItems": 2}),
    "strings": _schema({"type": "array", "items": {"type": "string"}}),
    "open": _schema({"type": "object", "properties": {"a": {"type": "integer"}}}),
    "condition": _schema({
        "type": "object",
        "properties": {"a": {"enum": ["b", "c"]}, "n": {"type": "null"}},
        "required": ["a"],
        "additionalProperties": False,
        "if": {"properties": {"a": {"const": "b"}}},
        "then": {"required": ["n"]},
        "else": {"not": {"required": ["n"]}},
    }),
    "free-order": GrammarSpec(
        "json_schema",
        json.dumps({
            "type": "object",
            "properties": {"a": {"type": "null"}, "b": {"enum": ["c", 12]}, "c": {"type": "array"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        }),
        JsonForm("flexible", 2, "free"),
    ),
    "checked-items": _schema({
        "type": "array",
        "items": {"type": ["string", "integer", "boolean", "array"]},
        "contains": {"const": "ab"},
        "uniqueItems": True,
        "maxItems": 4,
    }),
    "checked-object": _schema({
        "type": "object",
        "properties": {"a": {"type": "string", "not": {"pattern": "b"}}, "n": _ONE_OF},
        "propertyNames": {"not": {"const": "tru"}},
        "dependentRequired": {"a": ["n"]},
        "minProperties": 2,
    }, "canonical"),
    "checked-wide": GrammarSpec("json_schema", json.dumps(_NESTED), JsonForm("flexible", 2, "free", "any", "any")),
    "checked-text": _schema({
        "type": "array", "items": {"type": "string"}, "contains": {"type": "string"}, "minContains": 2,
    }),
    "pattern": _schema({"type": "string", "pattern": "^[ab]{2,3}é?$"}),
    "regex": regex("(?:ab|日本?|é)*[a-c]{1,3}"),
    "regex-forced": regex("aab(?:c|d)aab"),
    "regex-any": regex("(?s:.{0,9})"),
    "regex-optional": regex("(?:true|null)?"),
    "choice": choice(["abc", "ab", "a", "true", "日本", "日"]),
    "choice-special": choice(["<think>", "<end>", "</s>", "abc"]),
    "ebnf": ebnf('root ::= "a" root "b" | "c" | [^a-z"]{1,3}'),
    "lark": lark('start: "a" start "b" | "c" | /[^a-z"]{1,3}/'),
    "lark-json": lark('start: "<" %json {"type": "object", "properties": {"a": {"type": "null"}}} ">"'),
    "tag": structural_tag({
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<th"],
            "tags": [{"begin": "<think>", "content": {"type": "regex", "pattern": "[ab]+"}, "end": "<end>"}],
        },
    }),
    "tag-json": tagged_text(
        [Tag("<a", _schema({"type": "object", "properties": {"a": {"enum": ["b", 12]}}, "required": ["a"]}), ">"),
         Tag("<b>", None, "<")],
        triggers=["<a", "<b"],
    ),
    "tag-special": tagged_text(
        [Tag(Special("<|call|>"), regex("[ab]*"), Special("<|end|>")),
         Tag([Special("<|call|>"), "<"], None, [">", Special("<|end|>"), "."]),
         Tag("<a>", json_object(form=JsonForm("none")), Special("</s>"))],
    ),
    "tag-list": tagged_text(
        [Tag('{"a', choice(["b", "bc"]), '"}'), Tag('{"b', regex("[a-c]{1,2}"), '"}')],
        at_least_one=True, stop_after_first=True, opening="[", separator=", ", closing="]",
    ),
    "tag-lark": tagged_text([Tag("<", lark('start: "a" start "b" | "c"'), ">")]),
    "tag-ebnf": tagged_text([Tag("<", ebnf('root ::= "a" root "b" | "c"'), ">")], stop_after_first=True),
}  # fmt: skip

BACKENDS = [
    "xgrammar",
    "llguidance",
    "auto",
    *(["trie"] if find_spec("constrain.backends.trie") else []),
]

# Behind extras: what a backend is called, and the library that it needs.
EXTRAS = {"outlines": "outlines_core", "lm-format-enforcer": "lmformatenforcer"}

Maker = Callable[[GrammarSpec, Vocabulary], Grammar | None]


@lru_cache
def _backend(name: str, vocabulary: Vocabulary) -> Backend:
    return make_backend(name, vocabulary)


@lru_cache
def _compiled(name: str, grammar_spec: GrammarSpec, vocabulary: Vocabulary) -> CompiledGrammar | None:
    try:
        return _backend(name, vocabulary).compile(grammar_spec)
    except UnsupportedGrammarError:
        return None


def _of_backend(name: str) -> Maker:
    def make(grammar_spec: GrammarSpec, vocabulary: Vocabulary) -> Grammar | None:
        compiled = _compiled(name, grammar_spec, vocabulary)
        return compiled.start() if compiled is not None else None

    return make


def _thinking_before(name: str, reasoning: Reasoning, prompt: str) -> Maker:
    def make(grammar_spec: GrammarSpec, vocabulary: Vocabulary) -> Grammar | None:
        compiled = _compiled(name, grammar_spec, vocabulary)
        if compiled is None:
            return None
        return compile_reasoning(compiled, vocabulary, reasoning, vocabulary.encode(prompt)).start()

    return make


MAKERS: dict[str, Maker] = {name: _of_backend(name) for name in BACKENDS}
# Thinking that is open and soon over, and thinking that there need not be, whose marker begins as some contents do.
_OPEN = Reasoning(parser=ReasoningFormat(start="<think>", end="</think>", after_end="\n"), budget=3)
_OPTIONAL = Reasoning(parser=ReasoningFormat(start='[a"', end="]]"), budget=2, budget_phrase="b.")
_WRAPPED = [name for name in BACKENDS if name != "auto"]
for _name in _WRAPPED:
    MAKERS[f"thinking-{_name}"] = _thinking_before(_name, _OPEN, "<think>")
    MAKERS[f"optional-{_name}"] = _thinking_before(_name, _OPTIONAL, "")
THINKS_FIRST = {f"{kind}-{_name}" for kind in ("thinking", "optional") for _name in _WRAPPED}
# Without their libraries they would only skip, hundreds of times; one test says so instead.
MAKERS |= {name: _of_backend(name) for name, library in EXTRAS.items() if find_spec(library)}
_FOR_EXTRAS = ("regex", "array")
# A wrapper sees tokens and no spec: with a real vocabulary, whose every token is tried, these are enough.
_FOR_WRAPPERS = ("nested", "strings", "regex", "choice")


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Maker:
    return MAKERS[request.param]


@pytest.fixture(params=SPECS)
def grammar_spec(request: pytest.FixtureRequest) -> GrammarSpec:
    return SPECS[request.param]


@pytest.fixture(params=["tiny_vocabulary", "smollm2_vocabulary"])
def vocabulary(request: pytest.FixtureRequest) -> Vocabulary:
    chosen: Vocabulary = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def grammar(make: Maker, grammar_spec: GrammarSpec, vocabulary: Vocabulary, request: pytest.FixtureRequest) -> Grammar:
    params = request.node.callspec.params
    if params["make"] in THINKS_FIRST and vocabulary.size > 1000 and params["grammar_spec"] not in _FOR_WRAPPERS:
        pytest.skip("wrappers meet the other specs on the tiny vocabulary")
    if params["make"] in EXTRAS and vocabulary.size > 1000 and params["grammar_spec"] not in _FOR_EXTRAS:
        pytest.skip("extras meet the other specs on the tiny vocabulary")
    made = make(grammar_spec, vocabulary)
    if made is None:
        pytest.skip("not enforced by this backend")
    return made


@pytest.fixture
def walk(grammar: Grammar, vocabulary: Vocabulary, grammar_spec: GrammarSpec) -> list[int]:
    """A random walk of ``grammar`` from its start to a stop token, or as far as 40 tokens lead; rolled back again."""
    tokens = random_walk(grammar, vocabulary, random.Random(zlib.crc32(grammar_spec.text.encode())))
    grammar.reset()
    return tokens


def row_of(grammar: Grammar, vocabulary: Vocabulary) -> tuple[RowState, list[int]]:
    """The row that ``grammar`` fills, on top of poison, after checking that it wrote no other."""
    bitmask = torch.full((3, vocabulary.num_mask_words), _POISON, dtype=torch.int32)
    state = grammar.fill_bitmask(bitmask, 1)
    assert torch.all(bitmask[0] == _POISON) and torch.all(bitmask[2] == _POISON)
    return state, bitmask[1].tolist()


def ids_of(row: Sequence[int]) -> list[int]:
    bits = torch.tensor(row, dtype=torch.int32)[:, None] >> torch.arange(32, dtype=torch.int32) & 1
    return torch.nonzero(bits.flatten()).flatten().tolist()


def random_walk(grammar: Grammar, vocabulary: Vocabulary, rng: random.Random, length: int = 40) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < length and not grammar.is_terminated:
        state, row = row_of(grammar, vocabulary)
        if state is RowState.DEAD_END:
            break
        legal = ids_of(row)
        stops = [t for t in legal if t in vocabulary.stop_token_ids]
        closers = [t for t in legal if vocabulary.token_bytes[t] in (b'"', b"}", b"]", b'"}')]
        pool = stops or closers if rng.random() < 0.3 else legal
        token = rng.choice(pool or legal)
        assert grammar.accept([token]) == 1, token
        tokens.append(token)
    return tokens


@pytest.mark.parametrize("name", EXTRAS)
def test_extras_are_under_the_laws_where_they_are_installed(name: str) -> None:
    if find_spec(EXTRAS[name]) is None:
        pytest.skip(f"{EXTRAS[name]} is not installed: `make backends`, or pip install 'constrain-lm[{name}]'")
    assert name in MAKERS


def test_a_bit_is_set_iff_the_token_is_valid(grammar: Grammar, vocabulary: Vocabulary, walk: list[int]) -> None:
    places = range(len(walk) + 1) if vocabulary.size < 1000 else sorted({0, 1, len(walk) // 2, max(0, len(walk) - 2)})
    at = 0
    for place in places:
        at += grammar.accept(walk[at:place])
        assert at == place
        if grammar.is_terminated:
            continue
        state, row = row_of(grammar, vocabulary)
        valid = [t for t in range(32 * vocabulary.num_mask_words) if grammar.validate([t]) == 1]
        assert ids_of(row) == valid
        assert (state is RowState.DEAD_END) == (not valid)
        assert row_of(grammar, vocabulary) == (state, row), "validate has changed the state"


def test_ids_that_are_no_text_are_never_legal_inside(
    grammar: Grammar, grammar_spec: GrammarSpec, vocabulary: Vocabulary, walk: list[int]
) -> None:
    named = named_token_ids(grammar_spec, vocabulary)
    for token in [*walk, None]:
        if not grammar.is_terminated:
            legal = set(ids_of(row_of(grammar, vocabulary)[1]))
            text = legal - set(vocabulary.stop_token_ids)
            assert text & vocabulary.special_token_ids <= named
            assert all(t < vocabulary.size and vocabulary.token_bytes[t] for t in text - named)
            stops = legal & set(vocabulary.stop_token_ids)
            assert stops in (set(), set(vocabulary.stop_token_ids)), "some stop tokens are legal and others are not"
        if token is not None:
            assert grammar.accept([token]) == 1


def test_a_rejected_token_changes_nothing(grammar: Grammar, vocabulary: Vocabulary, walk: list[int]) -> None:
    for token in walk:
        before = row_of(grammar, vocabulary), grammar.num_accepted
        illegal = sorted(set(range(vocabulary.size)) - set(ids_of(before[0][1])))
        odd = [-1, -(2**40), vocabulary.size, vocabulary.logits_width, 32 * vocabulary.num_mask_words, 2**31, 2**70]
        for bad in [*illegal[:: max(1, len(illegal) // 20)], *odd]:
            assert grammar.accept([bad]) == grammar.validate([bad]) == 0, bad
        assert (row_of(grammar, vocabulary), grammar.num_accepted) == before
        if illegal:
            assert grammar.validate([token, illegal[0]]) in (1, 2)
            assert grammar.accept([illegal[0], token]) == 0
        assert grammar.accept([token]) == 1


def test_accept_stops_at_the_first_illegal_token(grammar: Grammar, vocabulary: Vocabulary, walk: list[int]) -> None:
    half = len(walk) // 2
    draft = [*walk[:half], vocabulary.size, *walk[half:]]
    assert grammar.validate(draft) == half
    assert grammar.num_accepted == 0
    assert grammar.accept(draft) == half
    assert grammar.num_accepted == half
    assert grammar.validate(walk[half:]) == len(walk) - half
    assert grammar.accept(tuple(walk[half:])) == len(walk) - half
    assert grammar.accept([]) == grammar.validate([]) == 0


def test_rollback_restores_the_mask_bit_for_bit(grammar: Grammar, vocabulary: Vocabulary, walk: list[int]) -> None:
    rows = []
    for token in walk:
        rows.append(row_of(grammar, vocabulary))
        assert grammar.accept([token]) == 1
    rows.append(row_of(grammar, vocabulary))
    rng = random.Random(len(walk))
    at = len(walk)
    for _ in range(12):
        back = rng.randint(0, at)
        grammar.rollback(back)
        at -= back
        assert grammar.num_accepted == at
        assert row_of(grammar, vocabulary) == rows[at]
        on = rng.randint(0, len(walk) - at)
        assert grammar.accept(walk[at : at + on]) == on
        at += on
        assert row_of(grammar, vocabulary) == rows[at]
        assert grammar.is_terminated == (at == len(walk) and bool(walk) and walk[-1] in vocabulary.stop_token_ids)


def test_rolling_back_too_much_raises_and_changes_nothing(
    grammar: Grammar, vocabulary: Vocabulary, walk: list[int]
) -> None:
    grammar.accept(walk)
    before = row_of(grammar, vocabulary), grammar.num_accepted, grammar.is_terminated
    for wrong in (len(walk) + 1, -1, 2**40):
        with pytest.raises(ValueError):
            grammar.rollback(wrong)
    assert (row_of(grammar, vocabulary), grammar.num_accepted, grammar.is_terminated) == before
    grammar.rollback(0)
    assert (row_of(grammar, vocabulary), grammar.num_accepted, grammar.is_terminated) == before


def test_after_termination_exactly_the_stop_tokens_are_set(
    grammar: Grammar, vocabulary: Vocabulary, walk: list[int]
) -> None:
    if not walk or walk[-1] not in vocabulary.stop_token_ids:
        pytest.skip("this walk did not end")
    last = len(walk) - 1
    assert grammar.accept(walk[:last]) == last
    before = row_of(grammar, vocabulary)
    for stop in vocabulary.stop_token_ids:
        assert not grammar.is_terminated
        assert grammar.validate([stop, stop]) == 1
        assert grammar.accept([stop, stop]) == 1
        assert grammar.is_terminated and grammar.num_accepted == last + 1
        state, row = row_of(grammar, vocabulary)
        assert state is RowState.CONSTRAINED and ids_of(row) == list(vocabulary.stop_token_ids)
        for token in (*vocabulary.stop_token_ids, *walk, 0, vocabulary.size):
            assert grammar.accept([token]) == grammar.validate([token]) == 0
        assert grammar.forced_tokens() == []
        grammar.rollback(1)
        assert row_of(grammar, vocabulary) == before
    assert grammar.accept(walk[last:]) == 1
    grammar.rollback(grammar.num_accepted)
    assert grammar.accept(walk) == len(walk)


def test_a_draft_across_the_stop_token_is_cut_behind_it(
    grammar: Grammar, vocabulary: Vocabulary, walk: list[int]
) -> None:
    if not walk or walk[-1] not in vocabulary.stop_token_ids:
        pytest.skip("this walk did not end")
    draft = [*walk, *walk, vocabulary.stop_token_ids[0]]
    assert grammar.validate(draft) == len(walk)
    assert grammar.num_accepted == 0 and not grammar.is_terminated
    assert grammar.accept(draft) == len(walk)


def test_reset_goes_back_to_the_start(grammar: Grammar, vocabulary: Vocabulary, walk: list[int]) -> None:
    start = row_of(grammar, vocabulary)
    for end in (len(walk), len(walk) // 2, 0):
        assert grammar.accept(walk[:end]) == end
        grammar.reset()
        assert grammar.num_accepted == 0 and not grammar.is_terminated
        assert row_of(grammar, vocabulary) == start


def test_a_fork_is_independent(grammar: Grammar, vocabulary: Vocabulary, walk: list[int]) -> None:
    half = len(walk) // 2
    grammar.accept(walk[:half])
    here = row_of(grammar, vocabulary)
    twin = grammar.fork()
    assert row_of(twin, vocabulary) == here and twin.num_accepted == half
    assert twin.accept(walk[half:]) == len(walk) - half
    there = row_of(twin, vocabulary)
    assert row_of(grammar, vocabulary) == here and grammar.num_accepted == half
    late = twin.fork()
    grammar.reset()
    twin.rollback(len(walk))
    assert row_of(late, vocabulary) == there and late.num_accepted == len(walk)
    late.rollback(len(walk) - half)
    assert row_of(late, vocabulary) == here


def test_grammars_of_one_spec_share_nothing(make: Maker, grammar_spec: GrammarSpec, vocabulary: Vocabulary) -> None:
    one, other = make(grammar_spec, vocabulary), make(grammar_spec, vocabulary)
    if one is None or other is None:
        pytest.skip("not enforced by this backend")
    start = row_of(other, vocabulary)
    random_walk(one, vocabulary, random.Random(7))
    assert row_of(other, vocabulary) == start and other.num_accepted == 0


def test_forced_tokens_are_a_legal_draft_of_forced_text(
    grammar: Grammar, vocabulary: Vocabulary, walk: list[int]
) -> None:
    for token in walk:
        before = row_of(grammar, vocabulary)
        forced = grammar.forced_tokens()
        assert row_of(grammar, vocabulary) == before
        assert grammar.validate(forced) == len(forced)
        text = vocabulary.decode(forced)
        try:
            canonical = vocabulary.encode(text.decode())
            assert vocabulary.decode(canonical) != text or canonical[: len(forced)] == forced
        except (VocabularyError, UnicodeDecodeError):
            pytest.fail(f"forced tokens {forced} are no text")
        # What is forced agrees with every token that is legal, up to the shorter of the two.
        for legal in ids_of(before[1]) if forced else ():
            written = vocabulary.token_bytes[legal]
            assert text.startswith(written) or written.startswith(text), (text, written)
        assert grammar.accept([token]) == 1


def test_a_dead_end_is_a_row_of_zeros(make: Maker, tiny_vocabulary: Vocabulary, request: pytest.FixtureRequest) -> None:
    if request.node.callspec.params["make"] in THINKS_FIRST:
        pytest.skip("no dead end before the content: tests/reasoning has its own")
    # The tiny vocabulary has no token with a "z".
    for pattern, text in (("(?:ab|c)(?:z|zz)", b"c"), ("zzz", b""), ("(?:az|abz)c", b"ab")):
        grammar = make(regex(pattern), tiny_vocabulary)
        if grammar is None:
            pytest.skip("not enforced by this backend")
        tokens = [tiny_vocabulary.token_bytes.index(bytes([byte])) for byte in text]
        before = []
        for token in tokens:
            before.append(row_of(grammar, tiny_vocabulary))
            assert grammar.accept([token]) == 1
        for _ in range(2):
            assert row_of(grammar, tiny_vocabulary) == (RowState.DEAD_END, [0] * tiny_vocabulary.num_mask_words)
            assert all(grammar.validate([t]) == 0 for t in range(tiny_vocabulary.size))
            assert all(grammar.accept([t]) == 0 for t in range(tiny_vocabulary.size))
        assert grammar.num_accepted == len(tokens)
        assert grammar.forced_tokens() == []
        twin = grammar.fork()
        if tokens:
            twin.rollback(1)
            assert row_of(twin, tiny_vocabulary) == before[-1]
        while before:
            grammar.rollback(1)
            assert row_of(grammar, tiny_vocabulary) == before.pop()
        assert grammar.accept(tokens) == len(tokens)
        grammar.reset()
        assert grammar.num_accepted == 0


def test_a_wrong_bitmask_raises_and_is_left_alone(make: Maker, tiny_vocabulary: Vocabulary) -> None:
    grammar = make(regex("aab"), tiny_vocabulary)
    assert grammar is not None
    width = tiny_vocabulary.num_mask_words
    right = torch.full((2, width), _POISON, dtype=torch.int32)
    wrong: list[tuple[torch.Tensor, int]] = [
        (torch.zeros(2, width, dtype=torch.int64), 0),
        (torch.zeros(2, width, dtype=torch.float32), 0),
        (torch.zeros(2, width + 1, dtype=torch.int32), 0),
        (torch.zeros(2, width - 1, dtype=torch.int32), 0),
        (torch.zeros(width, dtype=torch.int32), 0),
        (torch.zeros(1, 2, width, dtype=torch.int32), 0),
        (torch.zeros(2, 2 * width, dtype=torch.int32)[:, ::2], 0),
        (torch.zeros(width, 2, dtype=torch.int32).T, 0),
        (torch.zeros(2, width, dtype=torch.int32, device="meta"), 0),
        (right, 2),
        (right, -1),
        (torch.zeros(0, width, dtype=torch.int32), 0),
    ]
    for bitmask, row in wrong:
        with pytest.raises(ValueError):
            grammar.fill_bitmask(bitmask, row)
    assert torch.all(right == _POISON)


def test_rows_further_apart_than_their_width_are_filled_in_place(make: Maker, tiny_vocabulary: Vocabulary) -> None:
    grammar = make(regex("aab"), tiny_vocabulary)
    assert grammar is not None
    width = tiny_vocabulary.num_mask_words
    state, row = row_of(grammar, tiny_vocabulary)
    wide = torch.full((4, width + 5), _POISON, dtype=torch.int32)
    assert grammar.fill_bitmask(wide[:, 2 : 2 + width], 2) is state
    assert wide[2, 2 : 2 + width].tolist() == row
    wide[2, 2 : 2 + width] = _POISON
    assert torch.all(wide == _POISON)


def test_a_compiled_grammar_starts_from_any_thread(
    make: Maker, grammar_spec: GrammarSpec, tiny_vocabulary: Vocabulary
) -> None:
    expected: list[object] = []
    failures: list[BaseException] = []

    def work(seed: int, into: list[object]) -> None:
        try:
            grammar = make(grammar_spec, tiny_vocabulary)
            assert grammar is not None
            into.append(random_walk(grammar, tiny_vocabulary, random.Random(seed), 15))
        except BaseException as exc:
            failures.append(exc)

    if make(grammar_spec, tiny_vocabulary) is None:
        pytest.skip("not enforced by this backend")
    for seed in range(6):
        work(seed, expected)
    found: list[list[object]] = [[] for _ in range(6)]
    threads = [threading.Thread(target=work, args=(seed, found[seed])) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [item for items in found for item in items] == expected
