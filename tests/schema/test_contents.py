"""Tokens that are said to be alike in a string are, one at a time."""

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from constrain.schema.contents import contents_of
from constrain.schema.evaluation import ANY_CHARACTER, SHORT_ESCAPES, Automaton, ContentBounds, EndBounds, State
from constrain.schema.evaluation.characters import utf8_ranges
from constrain.schema.evaluation.pattern_automaton import pattern_of
from constrain.schema.paths import ACCEPTS, FAILED, MATCHED, OPEN, Paths, TextTrie
from constrain.schema.token_content import TokenContent, content_of
from constrain.schema.token_table import ids_of, token_table, words_of
from constrain.vocabulary import Vocabulary
from tests.schema.test_checked import VOCABULARY

PATTERNS = ["^a[abx]{1,4}$", "b$", "é|日", "^[^a]*$", "a(?=b)", "^.{3}$", "[^abx]"]


def _automaton(pattern: str) -> Automaton:
    automaton = pattern_of(pattern).automaton
    assert automaton is not None
    return automaton


def _code(state: State) -> int:
    return (FAILED, ACCEPTS if state.accepts else OPEN, MATCHED)[state.verdict + 1]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_lead_where_they_lead_one_at_a_time(pattern: str) -> None:
    automaton, rng = _automaton(pattern), random.Random(0)
    texts = {"".join(rng.choices("abxé日 /", k=rng.randint(0, 7))) for _ in range(400)}
    texts |= {"a" * n for n in (0, 1, 60, 200)} | {"日" + "b" * 90}
    ordered = sorted(texts)
    paths = Paths(TextTrie(ordered), automaton, [])
    for begun in ("", "a", "x", "ax", "bé"):
        state = automaton.advance(automaton.start, begun)
        if state.verdict:
            continue
        reached = paths.follow(state)
        codes = reached.codes[reached.numbers][paths.nodes].tolist()
        assert codes == [_code(automaton.advance(state, text)) for text in ordered]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_parts_hold_tokens_that_lead_alike(pattern: str) -> None:
    automaton, contents = _automaton(pattern), contents_of(VOCABULARY)
    everything = words_of(np.arange(VOCABULARY.size), VOCABULARY.num_mask_words) & token_table(VOCABULARY).without_quote
    bounds = ContentBounds(((automaton, automaton.start),), (), ("é1", "\n"), (2, 3))
    parts = contents.alike(bounds, SHORT_ESCAPES, everything)
    seen = [i for part in parts for i in ids_of(part).tolist()]
    assert len(seen) == len(set(seen)) > 1_000
    for part in parts:
        found = set()
        for i in ids_of(part).tolist():
            content = content_of(VOCABULARY.token_bytes[i])
            assert content is not None and not any(
                text.startswith(content.text) for text in bounds.listed if not content.fragment
            )
            state = automaton.advance(automaton.start, content.text)
            verdict = automaton.verdict_of(state, _begun(content.fragment)) if content.fragment else state.verdict
            length = len(content.text) + bool(content.fragment)
            found.add((state.verdict or verdict, sum(limit <= length for limit in bounds.limits)))
        assert len(found) == 1


def _begun(fragment: bytes) -> tuple[tuple[int, int], ...]:
    return SHORT_ESCAPES if fragment == b"\\" else utf8_ranges(fragment) if fragment[0] > 127 else ((0, 0xFF),)


def test_kinds_tell_contents_apart_that_mean_something() -> None:
    contents, automaton = contents_of(VOCABULARY), _automaton("^a[abx]{1,4}$")
    ends = contents.ends
    kinds = contents.kinds(EndBounds(((automaton, automaton.start),), ("b",), (2,)), ANY_CHARACTER).tolist()
    tokens = [token_table(VOCABULARY).ordered[place] for place in ends.places.tolist()]
    of = dict(zip(tokens, kinds, strict=True))
    assert of[b'a"'] not in (of[b'x"'], of[b'ab"']) and of[b'x"'] == of[b'Z",'] != of[b'b"']
    assert of[b'\\n"'] == -1 and of[b'"'] == of[b'",'] and of[b'ab"'] != of[b'x"']


@pytest.mark.parametrize(
    ("token", "content"),
    [
        (b"ab", TokenContent("ab")),
        ("é".encode() + b"\xe6\x97", TokenContent("é", b"\xe6\x97")),
        (b'a",', TokenContent("a")),
        (b"x\\/\\u0061b", TokenContent("x/ab", b"", "/a")),
        (b"x\\u00", TokenContent("x", b"\\u00")),
        (b"\\", TokenContent("", b"\\")),
        (b"\\ud83d\\ude00", TokenContent("😀", b"", "😀")),
        (b"\\x", None),
        (b'\\n"', None),
        (b"a\n", None),
        (b"\x97a", None),
        (b'\xe6"', None),
        (b"a" * 300, None),
    ],
)
def test_the_content_of_a_token(token: bytes, content: TokenContent | None) -> None:
    assert content_of(token) == content


def test_a_vocabulary_without_quotes_has_contents() -> None:
    assert len(contents_of(Vocabulary([b"", b"a", b"\xe6"], stop_token_ids=[0])).ends.places) == 0


def test_threads_share_what_is_found_of_a_vocabulary() -> None:
    vocabulary, together = Vocabulary([b"a", b'"', b""], stop_token_ids=[2]), Barrier(4)

    def found() -> tuple[int, int]:
        together.wait()
        return id(contents_of(vocabulary)), id(token_table(vocabulary))

    with ThreadPoolExecutor(4) as pool:
        assert len({each.result() for each in [pool.submit(found) for _ in range(4)]}) == 1
