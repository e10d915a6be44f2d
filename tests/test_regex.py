"""The canonical text of a regular expression has Python's own language."""

import random
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constrain.errors import InvalidGrammarError, LimitExceededError, UnsupportedGrammarError
from constrain.regex import Chars, Repeat, canonical_regex, format_regex, parse_regex

EVERYTHING = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF)

PATTERNS = [
    r"a|b", r"^a|b$", r"\A(?:ab)\Z", r"(?m)^a$|^b$", r"(|a)+b", r"(?:ab|cd|)*", r"(a*)*b?", r"((a?)?)?b", r"a{2,3}?b",
    r"(?i)straße", r"(?i:k)K", r"(?ai)[k-s]+", r"(?s)a.b", r"a.b", r"(?x) a b  # comment", r"[^\n\r]+", r"\d+[.,]\d{2}",
    r"(?a)\w\W\s\S\d\D", r"[\w.-]+@[\w-]+", r"[]^\-\\[]+", r"[&&~~||]+", r"\x41\u00e9\N{GREEK SMALL LETTER MU}",
    r"a{,3}",
    r"x{0}y", r"(?P<name>é|ê)+", r"[\x00-\x1f]+", r"\.\*\+\?\(\)\[\]\{\}\|\^\$", r"abc|ade|af", r"(?i)[^a-y]",
    r"[ \t]*#",
]  # fmt: skip
SAMPLES = [
    "", "a", "b", "ab", "abab", "abcd", "aab", "aaab", "a\nb", "a b", "a\n", "\n", "K", "k", "ſ", "STRASSE", "STRAẞE",
    "straße", "1,50", "٣.٣٣", "é", "êé", "Aéμ", "]^-\\[", "&~|", "y", "xy", "\x00\x1f", ".*+?()[]{}|^$", "abc", "af",
    "Z",
    "z", "a@b", "ä.ö@ü-", "\t #", "a.a a1a", "a- b1c",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_canonical_text_accepts_what_the_pattern_accepts(pattern: str) -> None:
    canonical = canonical_regex(pattern)
    assert canonical_regex(canonical) == canonical
    rng = random.Random(pattern)
    letters = "".join(SAMPLES) + pattern
    texts = SAMPLES + ["".join(rng.choices(letters, k=rng.randrange(1, 8))) for _ in range(500)]
    for text in texts:
        assert bool(re.fullmatch(canonical, text)) == bool(re.fullmatch(pattern, text)), (canonical, text)


LEAVES = st.sampled_from(
    ["a", "b", "é", "\\n", ".", "[ab]", "[^a]", r"\w", r"\s", "[^\\d\\s]", "(?i:s)", "(?s:.)", "😀"]
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,2}?", "{1,}", "*?"])
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner | st.just(""), min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(inner, counts).map(lambda pair: f"({pair[0]}){pair[1]}"),
    )


REGEXES = st.recursive(LEAVES, _compound, max_leaves=8)
TEXTS = st.text(st.sampled_from("abéß\n 1sſS😀_"), max_size=6)


@settings(deadline=None, max_examples=300)
@given(REGEXES, st.lists(TEXTS, min_size=5, max_size=15))
def test_canonical_text_of_any_pattern_keeps_the_language(pattern: str, texts: list[str]) -> None:
    pattern = f"#(?:{pattern})"  # so that it is never the empty text alone, which is refused
    canonical = canonical_regex(pattern)
    assert canonical_regex(canonical) == canonical
    for text in texts:
        assert bool(re.fullmatch(canonical, "#" + text)) == bool(re.fullmatch(pattern, "#" + text)), (canonical, text)


@pytest.mark.parametrize("flags", ["", "(?i)", "(?a)", "(?ia)", "(?is)"])
@pytest.mark.parametrize(
    "item",
    ["k", "S", "ſ", "İ", "ı", "ß", "µ", "ǅ", "σ", "ΐ", "1", ".", r"\w", r"\s", r"[^\W\d]", "[^k]", "[à-þ]", "[A-z]"],
)
def test_character_sets_are_those_of_the_interpreter(item: str, flags: str) -> None:
    node = parse_regex(flags + item)
    assert isinstance(node, Chars)
    ours = "".join(chr(code) for low, high in node.ranges for code in range(low, high + 1))
    assert ours == "".join(re.findall(flags + item, EVERYTHING))


@pytest.mark.parametrize(
    ("pattern", "construct"),
    [
        ("a(?=b)", "look-around"), ("(?<!a)b", "negative look-around"), (r"(a)\1", "back-reference"),
        ("a++", "possessive"),
        ("(?>a)b", "atomic"), ("(a)?(?(1)b|c)", "conditional"), (r"\ba", "word boundary"), ("a^b", r"\^"),
        ("a$b", r"\$"),
        ("(^a)*", r"\^"), ("(?m)a$\\n^b", r"\$"), (r"a$\n", r"\$"),
    ],
)  # fmt: skip
def test_what_no_automaton_does_is_refused_by_name(pattern: str, construct: str) -> None:
    with pytest.raises(UnsupportedGrammarError, match=construct):
        parse_regex(pattern)


@pytest.mark.parametrize(("pattern", "position"), [("ab(c", 2), ("*a", 0), ("ab[c", 2), ("a{3,1}", 2), ("(?L)a", 3)])
def test_a_pattern_that_does_not_parse_has_a_position(pattern: str, position: int) -> None:
    with pytest.raises(InvalidGrammarError) as caught:
        parse_regex(pattern)
    assert caught.value.position == position


@pytest.mark.parametrize("pattern", [r"[^\s\S]", r"a[^\s\S]", r"[^\s\S]+|b[^\w\W]", "\ud800"])
def test_an_empty_language_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidGrammarError, match="matches nothing"):
        parse_regex(pattern)


@pytest.mark.parametrize("pattern", ["", "^$", "()*", "a{0}", r"(|[^\s\S])"])
def test_a_pattern_of_the_empty_text_only_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidGrammarError, match="only the empty text"):
        parse_regex(pattern)


@pytest.mark.parametrize("pattern", ["(" * 3000 + "a" + ")" * 3000, "(?:" * 150 + "ab" + ")+c" * 150])
def test_deep_nesting_meets_a_limit(pattern: str) -> None:
    with pytest.raises(LimitExceededError, match="nests deeper"):
        parse_regex(pattern)


@pytest.mark.parametrize("pattern", [b"a", None, re.compile("a")])
def test_only_text_is_a_pattern(pattern: Any) -> None:
    with pytest.raises(InvalidGrammarError, match="must be a str"):
        parse_regex(pattern)


@pytest.mark.parametrize(
    ("pattern", "canonical"),
    [("a|aa|aaa", "a(?:aa?)?"), ("(?:a|(?:|)|aa)", "(?:aa?)?"), ("a*b|a*c", "a*[bc]"), ("|ab|ac|ab", "(?:a[bc])?")],
)
def test_a_common_beginning_is_written_once(pattern: str, canonical: str) -> None:
    assert canonical_regex(pattern) == canonical == canonical_regex(canonical)


def test_large_counts_are_not_expanded() -> None:
    node = parse_regex("(?:a{1,1000}){1,1000}")
    assert node == Repeat(Repeat(Chars(((97, 97),)), 1, 1000), 1, 1000)
    assert format_regex(node) == "(?:a{1,1000}){1,1000}"
