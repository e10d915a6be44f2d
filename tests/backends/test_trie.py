"""The trie backend against brute force: `re`, enumerated languages, `json.loads`, and a walk token by token."""

import gc
import json
import random
import re
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from constrain.backends._utf8 import byte_ranges
from constrain.backends.trie import TrieBackend
from constrain.backends.trie.gbnf import network_of_gbnf
from constrain.backends.trie.recogniser import Column, Recogniser
from constrain.errors import InvalidGrammarError, LimitExceededError, UnsupportedGrammarError
from constrain.grammar import Grammar, RowState
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, ebnf, json_object, lark, regex
from constrain.vocabulary import Vocabulary

TOKENS = [
    b"",
    b"a",
    b"b",
    b"ab",
    b"abc",
    b"\xc3",
    b"\xa9",
    b"\xc3\xa9",
    b"\xc3\xa9a",
    b"\n",
    b"",
    b"1",
    b" ",
    b"a",
    b"",
]
STOPS, SPECIAL = (0, 14), 10
VOCABULARY = Vocabulary(TOKENS, stop_token_ids=STOPS, special_token_ids=[SPECIAL], logits_width=40)
BACKEND = TrieBackend(VOCABULARY)


def recogniser_of(grammar_spec: GrammarSpec) -> Recogniser:
    return BACKEND.compile(grammar_spec).recogniser


def accepts(recogniser: Recogniser, text: str) -> bool:
    column = recogniser.walk(recogniser.start(), text.encode())
    return column is not None and column.may_stop


def mask_of(grammar: Grammar) -> set[int]:
    bitmask = torch.full((2, VOCABULARY.num_mask_words), -1, dtype=torch.int32)
    grammar.fill_bitmask(bitmask, 1)
    return {t for t in range(32 * VOCABULARY.num_mask_words) if int(bitmask[1, t // 32]) >> (t % 32) & 1}


def can_finish(recogniser: Recogniser, column: Column, limit: int = 2000) -> bool:
    """Whether acceptance is found among the next ``limit`` columns, breadth first."""
    found, todo = {column}, [column]
    for at in todo:
        if at.may_stop:
            return True
        new = set(recogniser.moves(at).values()) - found
        found |= new
        todo += new
        if len(todo) > limit:
            return False
    return False


# UTF-8.


@settings(deadline=None)
@given(st.integers(0, 0x10FFFF), st.integers(0, 0x10FFFF))
def test_byte_ranges_are_the_encodings_of_the_span(a: int, b: int) -> None:
    low, high = min(a, b), max(a, b)
    if low <= 0xDFFF and high >= 0xD800:
        return
    sequences = list(byte_ranges(low, high))
    sizes = 0
    for sequence in sequences:
        count = 1
        for first, last in sequence:
            count *= last - first + 1
        sizes += count
    assert sizes == high - low + 1
    for code in {low, high, (low + high) // 2, min(low + 64, high), max(high - 64, low)}:
        text = chr(code).encode()
        hits = [
            s for s in sequences if len(s) == len(text) and all(f <= c <= t for (f, t), c in zip(s, text, strict=True))
        ]
        assert len(hits) == 1


# Regular expressions.

LEAVES = st.sampled_from(
    ["a", "b", "é", "\\n", ".", "[ab]", "[^a]", r"\w", r"[^\d\s]", "(?i:s)", "(?s:.)", "😀", "[é-😀]"]
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"])
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner | st.just(""), min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(inner, counts).map(lambda pair: f"({pair[0]}){pair[1]}"),
    )


@settings(deadline=None, max_examples=200)
@given(
    st.recursive(LEAVES, _compound, max_leaves=8),
    st.lists(st.text(st.sampled_from("abéß\n 1sſS😀_"), max_size=6), min_size=5, max_size=15),
)
def test_regex_accepts_what_fullmatch_accepts(pattern: str, texts: list[str]) -> None:
    pattern = f"a(?:{pattern})"
    recogniser = recogniser_of(regex(pattern))
    for text in texts:
        assert accepts(recogniser, "a" + text) == bool(re.fullmatch(pattern, "a" + text)), text


def test_no_state_of_a_regex_is_dead() -> None:
    recogniser = recogniser_of(regex(r"(a{2,5}b|é+😀){1,3}|\w+@"))
    todo = [recogniser.start()]
    seen = set(todo)
    for column in todo:
        assert can_finish(recogniser, column)
        new = set(recogniser.moves(column).values()) - seen
        seen |= new
        todo += new
    assert 10 < len(seen) < 2000


def test_a_regular_language_has_finitely_many_states() -> None:
    recogniser = recogniser_of(regex(r'"[^"]*"'))
    inside = recogniser.walk(recogniser.start(), b'"a')
    assert inside is not None
    assert inside is recogniser.walk(inside, "é any text, for a while".encode())


def test_counts_beyond_the_limit_are_refused() -> None:
    assert accepts(recogniser_of(regex("(?:ab){1,2000}")), "ab" * 2000)
    for grammar_spec in (regex("(?:a{1,1000}){1,1000}"), ebnf('root ::= "a"{999999999}')):
        with pytest.raises(LimitExceededError, match="states"):
            BACKEND.compile(grammar_spec)


def test_repeats_of_the_empty_text_cost_nothing() -> None:
    assert accepts(recogniser_of(ebnf('root ::= (""{90000}){90000} "a"')), "a")


# Grammars.


def balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += 1 if char == "a" else -1
        if depth < 0:
            return False
    return depth == 0


GRAMMARS = {
    "left recursion": ('root ::= root "a" | "b"', lambda t: bool(re.fullmatch("ba*", t))),
    "right recursion": ('root ::= "a" root | "b"', lambda t: bool(re.fullmatch("a*b", t))),
    "nullable recursion": ('root ::= "a" root "b" root | ""', balanced),
    "ambiguity": ('root ::= root root | "a"', lambda t: bool(re.fullmatch("a+", t))),
    "ambiguity with empty": ('root ::= root root | "ab" | ""', lambda t: bool(re.fullmatch("(ab)*", t))),
    "palindromes": ('root ::= "a" root "a" | "b" root "b" | [ab]?', lambda t: t == t[::-1]),
    "mutual": ('root ::= x\nx ::= y "a" | "b"\ny ::= x "b" | "a"', lambda t: bool(re.fullmatch("(b|aa)(ba)*", t))),
    "hidden left": ('root ::= o root "a" | "b"\no ::= "b"?', lambda t: bool(re.fullmatch("b+a*", t)) and _hidden(t)),
    "cycle": ('root ::= root | e | "a"\ne ::= "" | e root', lambda t: bool(re.fullmatch("a*", t))),
    "unproductive": ('root ::= "a" | "b" loop\nloop ::= "a" loop', lambda t: t == "a"),
    "counts": ('root ::= ("a" | "bb"){2,3} x{2} x{,}'.replace("x{,}", "x{0,}") + '\nx ::= "b"', None),
    "a^n b^n": ('root ::= "a" root? "b"', lambda t: bool(t) and t == "a" * (len(t) // 2) + "b" * (len(t) // 2)),
}


def _hidden(text: str) -> bool:
    return text.count("b") <= text.count("a") + 1


@pytest.mark.parametrize("name", GRAMMARS)
def test_grammars_accept_their_language(name: str) -> None:
    text, expected = GRAMMARS[name]
    recogniser = recogniser_of(ebnf(text))
    if expected is None:
        expected = re.compile("(a|bb){2,3}b{2,}").fullmatch
    for length in range(9):
        for letters in product("ab", repeat=length):
            sentence = "".join(letters)
            column = recogniser.walk(recogniser.start(), sentence.encode())
            assert (column is not None and column.may_stop) == bool(expected(sentence)), sentence
            assert column is None or can_finish(recogniser, column), sentence


SYMBOLS = st.sampled_from(['"a"', '"b"', "root", "x", "y", '""', '"ab"', "x?", "y*", "(root | x)"])
BODIES = st.lists(st.lists(SYMBOLS, min_size=1, max_size=3), min_size=1, max_size=3)
LONGEST = 5


def language(rules: dict[str, list[list[str]]]) -> set[str]:
    """The sentences of ``root`` up to LONGEST letters, as the least fixpoint of the rules."""
    known: dict[str, set[str]] = {name: set() for name in rules}

    def symbol(written: str) -> set[str]:
        if written.startswith('"'):
            return {written.strip('"')}
        if written == "(root | x)":
            return known["root"] | known["x"]
        if written == "x?":
            return known["x"] | {""}
        if written == "y*":
            texts = {""}
            while True:
                more = texts | {a + b for a in texts for b in known["y"] if len(a + b) <= LONGEST}
                if more == texts:
                    return texts
                texts = more
        return known[written]

    while True:
        before = {name: set(texts) for name, texts in known.items()}
        for name, options in rules.items():
            for option in options:
                texts = {""}
                for part in option:
                    texts = {a + b for a in texts for b in symbol(part) if len(a + b) <= LONGEST}
                known[name] |= texts
        if known == before:
            return known["root"]


@settings(deadline=None, max_examples=300)
@given(BODIES, BODIES, BODIES)
def test_random_grammars_accept_the_enumerated_language(root: list, x: list, y: list) -> None:  # type: ignore[type-arg]
    rules = {"root": root, "x": x, "y": y}
    text = "\n".join(f"{name} ::= {' | '.join(' '.join(option) for option in body)}" for name, body in rules.items())
    expected = language(rules)
    if not expected:
        return
    recogniser = recogniser_of(ebnf(text))
    prefixes = {sentence[:n] for sentence in expected for n in range(len(sentence) + 1)}
    for length in range(LONGEST + 1):
        for letters in product("ab", repeat=length):
            sentence = "".join(letters)
            column = recogniser.walk(recogniser.start(), sentence.encode())
            assert (column is not None and column.may_stop) == (sentence in expected), sentence
            assert column is not None or sentence not in prefixes, sentence


def test_gbnf_escapes_classes_and_comments() -> None:
    text = r"""
    # a comment ::= "no rule"
    root ::= "\x41\u00e9\U0001F600\n\"\\" (   # another
        [^a-z\]\x00-\x1F]{2} | [-+] | [\^^]{2,}
      ) | . "zz"
    """
    recogniser = recogniser_of(ebnf(text))
    head = 'Aé😀\n"\\'
    for tail, fits in {"Éß": True, "b1": False, "]1": False, "-": True, "+": True, "^^^": True, "^": False}.items():
        assert accepts(recogniser, head + tail) == fits, tail
    assert accepts(recogniser, "\nzz") and accepts(recogniser, "😀zz") and not accepts(recogniser, "zz")


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ('root = "a"', 0, "want a rule"),
        ('root ::= "a', 9, 'want `"`'),
        ("root ::= [a", 9, "want `]`"),
        ('root ::= ("a"', 9, r"want `\)`"),
        ('root ::= "a" )', 13, "want a rule"),
        (r'root ::= "\q"', 10, "escape"),
        (r'root ::= "\ud800"', 10, "no Unicode"),
        ("root ::= [z-a]", 10, "range"),
        ("root ::= []", 9, "without characters"),
        ('root ::= "a"{3,1}', 12, "maximum"),
        ('root ::= "a"{x}', 12, "count"),
        ("root ::= *", 9, "want a rule name"),
        ('root ::= "a"\nroot ::= "b"', 13, "defined twice"),
        ("root ::= first second", 9, "'first'"),
        ('a ::= "a"', None, "no rule 'root'"),
        ('root ::= "a" root', None, "derives no text"),
        ('root ::= x | root "a"\nx ::= "b" x', None, "derives no text"),
    ],
)
def test_gbnf_that_means_nothing_is_refused_with_its_place(text: str, position: int | None, message: str) -> None:
    with pytest.raises(InvalidGrammarError, match=message) as caught:
        network_of_gbnf(text)
    assert caught.value.position == position


def test_deep_groups_meet_a_limit() -> None:
    with pytest.raises(LimitExceededError, match="nests deeper"):
        network_of_gbnf("root ::= " + "(" * 5000 + '"a"' + ")" * 5000)


def test_long_linked_pasts_are_dropped_without_recursion() -> None:
    recogniser = recogniser_of(ebnf('root ::= "a" root "b" | "c"'))
    column = recogniser.walk(recogniser.start(), b"a" * 50_000)
    assert column is not None and set(recogniser.moves(column)) == {ord("a"), ord("c")}
    del column, recogniser
    gc.collect()


# JSON.

DOCUMENTS = [
    {}, {"a": 1}, {"a": [], "b": {}}, {"é😀": "\u2028\x7f\"\\/\n"}, {"n": [0, -1, 1.5e-7, 1e300, True, False, None]},
    {"a": {"b": {"c": [[[]], [{}], ["x", "y"]]}}},
]  # fmt: skip


def is_json_object(text: str) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return isinstance(value, dict) and text == text.strip()


@pytest.mark.parametrize("seed", range(6))
def test_json_objects_are_those_of_json_loads_under_mutation(seed: int) -> None:
    recogniser = recogniser_of(json_object(form=JsonForm("flexible", 5)))
    rng = random.Random(seed)
    agreed = {True: 0, False: 0}
    for _ in range(1500):
        document = rng.choice(DOCUMENTS)
        text = json.dumps(document, indent=rng.choice([None, None, 1]), ensure_ascii=rng.random() < 0.5)
        for _ in range(rng.randrange(3)):
            at = rng.randrange(len(text))
            text = (
                text[:at] + rng.choice(["", *'{}[]",:0123456789-+.eE\\u/ntrue \x1f\t']) + text[at + rng.randrange(2) :]
            )
        if re.search(r"[ \t\r\n]{6}|\\u[dD]", text):  # longer blanks, and surrogates, which json.loads takes alone
            continue
        assert accepts(recogniser, text) == is_json_object(text), text
        agreed[is_json_object(text)] += 1
    assert min(agreed.values()) > 100


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (r'{"a":"\ud83d\ude00"}', True), (r'{"a":"\uD83D"}', False), (r'{"a":"\ude00"}', False),
        (r'{"\uABCD":1}', True),
        (r'{"a":"\ud83d\ud83d\ude00"}', False), ('{"a":"\x7f"}', True), ('{"a":"\x1f"}', False), ('{"a":01}', False),
        ('{"a":-0.0E+00}', True), ('{"a":NaN}', False), ('{"a":1,}', False), (r'{"a":"\\ud800"}', True), ("[]", False),
    ],
)  # fmt: skip
def test_json_details(text: str, fits: bool) -> None:
    assert accepts(recogniser_of(json_object(form=JsonForm("none"))), text) == fits


@pytest.mark.parametrize("document", DOCUMENTS)
def test_json_forms(document: object) -> None:
    compact, usual = json.dumps(document, separators=(",", ":")), json.dumps(document)
    none, canonical = (recogniser_of(json_object(form=JsonForm(kind))) for kind in ("none", "canonical"))
    flexible = recogniser_of(json_object(form=JsonForm("flexible", 3)))
    assert (
        accepts(none, compact) and accepts(canonical, usual) and accepts(flexible, compact) and accepts(flexible, usual)
    )
    assert accepts(none, usual) == accepts(canonical, compact) == (compact == usual)
    assert accepts(flexible, "{\n\t }") and not accepts(flexible, "{    }") and not accepts(flexible, "{} ")
    assert accepts(flexible, '{ \n "a" \t : \r [ 1 , 2 ] }') and not accepts(canonical, "{ }")


# Choices.


def test_choices_are_exactly_the_given_texts() -> None:
    recogniser = recogniser_of(choice(["a", "ab", "éa", 'say "b"\n']))
    for text in ["a", "ab", "éa", 'say "b"\n', "", "b", "abb", "é", "say"]:
        assert accepts(recogniser, text) == (text in {"a", "ab", "éa", 'say "b"\n'})


# Masks and the grammar.

SPECS = [
    regex("(ab|c)*c?"), regex("é+a"), regex(r"[^a]{1,4}"), regex("abc"), choice(["a", "ab", "abcab", "é"]),
    json_object(),
    ebnf('root ::= root "ab" | [a-cé]'), ebnf('root ::= "a" root "b" | " "'), regex(r"(?s).*"),
]  # fmt: skip


@pytest.mark.parametrize("grammar_spec", SPECS, ids=str)
def test_masks_are_those_of_a_walk_of_each_token(grammar_spec: GrammarSpec) -> None:
    compiled = BACKEND.compile(grammar_spec)
    rng = random.Random(0)
    for _ in range(20):
        grammar, text = compiled.start(), b""
        for _ in range(6):
            column = compiled.recogniser.walk(compiled.recogniser.start(), text)
            assert column is not None
            legal = {
                t for t, token in enumerate(TOKENS) if token and compiled.recogniser.walk(column, token) is not None
            } | (set(STOPS) if column.may_stop else set())
            assert mask_of(grammar) == legal == {t for t in range(-2, 45) if grammar.validate([t]) == 1}
            if not legal:
                break
            token_id = rng.choice(sorted(legal))
            assert grammar.accept([token_id]) == 1
            if token_id in STOPS:
                assert grammar.is_terminated and mask_of(grammar) == set(STOPS) and grammar.accept([token_id]) == 0
                break
            text += TOKENS[token_id]


def test_a_continuation_that_no_token_writes_is_a_dead_end() -> None:
    grammar = BACKEND.compile(regex("az")).start()
    bitmask = torch.full((1, VOCABULARY.num_mask_words), -1, dtype=torch.int32)
    assert grammar.fill_bitmask(bitmask, 0) is RowState.CONSTRAINED and grammar.accept([1]) == 1
    assert grammar.fill_bitmask(bitmask, 0) is RowState.DEAD_END and not bitmask.any()
    grammar.rollback(1)
    assert mask_of(grammar) == {1, 13}


def test_forced_text_is_proposed_up_to_the_branch() -> None:
    compiled = BACKEND.compile(regex("abcé(?:1|b)"))
    grammar = compiled.start()
    assert grammar.forced_tokens() == [4, 7] and grammar.num_accepted == 0
    assert grammar.accept([4, 5]) == 2
    assert grammar.forced_tokens() == []  # in the middle of a character there is no text to tokenise
    assert grammar.accept([6]) == 1 and grammar.forced_tokens() == []
    assert BACKEND.compile(regex("abz")).start().forced_tokens() == []  # no token writes a z: nothing is proposed


def test_a_fork_and_its_origin_go_their_own_ways() -> None:
    grammar = BACKEND.compile(SPECS[6]).start()
    assert grammar.accept([1]) == 1
    twin = grammar.fork()
    assert twin.accept([3, 0]) == 2 and twin.is_terminated and grammar.num_accepted == 1
    twin.rollback(2)
    assert mask_of(twin) == mask_of(grammar)
    twin.reset()
    assert twin.num_accepted == 0 and grammar.num_accepted == 1


@pytest.mark.parametrize("kind", ["json_schema", "lark", "structural_tag"])
def test_other_kinds_are_refused_with_a_reason(kind: str) -> None:
    grammar_spec = lark('start: "a"') if kind == "lark" else GrammarSpec(kind, "{}")  # type: ignore[arg-type]
    [unsupported] = BACKEND.unsupported(grammar_spec)
    with pytest.raises(UnsupportedGrammarError, match=re.escape(unsupported.reason)):
        BACKEND.compile(grammar_spec)
