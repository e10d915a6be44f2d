"""Patterns as automata: what they match is what the translated pattern matches, and verdicts are proofs."""

import itertools
import random
import re

import pytest

from constrain.schema.ecma import translate_pattern
from constrain.schema.evaluation import pattern_automaton
from constrain.schema.evaluation.pattern_automaton import Pattern

PATTERNS = [
    "a", "^a", "a$", "^a$", "^$", "", "^(a|b)*$", "^a?b{2}$", "a{2,3}$", "^(ab|a)(b|)$", "^[^a]+$", "^\\w$", "b.b",
    "^.$", "(a|^)b", "a($|b)", "^a*$|^b*$", "(^a|b$)", "a^b", "a$b", "[]", "[^]", "^(?:a+)+$", "^a{0}$", "^(a$|ab)",
    "é", "^(?:\\u{1F600}|a)b$", "^\\S+$", "((a*)*)b$", "^(|a)$", "x*", "(?!)",
    "^(?!a)", "^(?!ab).{2}$", "^(?=.*b)a", "(?=b)é", "^((?!ab).)*$", "^(?=a$|b)..?$", "a(?!$)", "a(?=^)", "(?!a)b?$",
    "(?<!a)b", "(?<=a)b", "(?<![^a])b", "(?<!^)b", "(?<=a|[^b])b", "^a(?<!a)", "(?<=a)$", "(?<!a)$", "\\b", "\\ba\\b",
    "^\\Ba", "a\\B", "^(?!.*\\bab\\b)", "(?=(?<!a)b)", "^(?:(?<!a)a|b)+$", "^(?!(?<=a))b",
    "a(?!^)b", "b(?=(?<!^))a?", "(?=(?<=[ab])(?!a*(?<=b))a)b*\\B",
    ".*(?<!a)b(.*?)é|(?<!a)b([ab]).*",
]  # fmt: skip
ALPHABET = "abé\n😀"


@pytest.mark.parametrize("source", PATTERNS)
def test_verdicts_agree_with_the_matcher_on_all_short_texts(source):
    pattern, matcher = Pattern(source), re.compile(translate_pattern(source))
    automaton = pattern.automaton
    assert automaton is not None
    matched = {
        text: matcher.search(text) is not None
        for length in range(6)
        for text in map("".join, itertools.product(ALPHABET, repeat=length))
    }
    for text, expected in matched.items():
        assert pattern.matches(text) == expected, text
        if len(text) <= 2:
            verdict = automaton.advance(automaton.start, text).verdict
            below = {found for other, found in matched.items() if other.startswith(text)}
            # Three more characters show for these patterns whether a match is possible at all.
            assert (verdict == -1) == (below == {False}), text
            assert verdict < 1 or below == {True}, text


@pytest.mark.parametrize("source", PATTERNS)
def test_what_a_begun_character_can_still_become_is_exact(source):
    automaton = Pattern(source).automaton
    for text in ("", "a", "b", "ab"):
        state = automaton.advance(automaton.start, text)
        for character in "abxé😀\n":
            code = ord(character)
            assert automaton.verdict_of(state, ((code, code),)) == automaton.advance(state, character).verdict
        found = {automaton.advance(state, character).verdict for character in "ab"}
        assert automaton.verdict_of(state, ((97, 98),)) == (found.pop() if len(found) == 1 else 0)
        assert automaton.verdict_of(state, ()) == -1


def random_pattern(source: random.Random, depth: int = 2) -> str:
    return "".join(random_item(source, depth) for _ in range(source.randrange(1, 4)))


def random_item(source: random.Random, depth: int) -> str:
    kind = source.randrange(13)
    if kind < 5:
        return source.choice(["a", "b", "-", "[ab]", "[^a]", ".", "\\b", "\\B", "^", "$"])
    if kind == 5:
        return f"(?<{source.choice('=!')}{source.choice(['a', 'b', '[^a]', '-', '[ab]', '^'])})"
    if kind < 8 or not depth:
        return source.choice("ab") + source.choice(["", "*", "?"])
    inner = random_pattern(source, depth - 1)
    if kind == 8:
        return f"(?{source.choice('=!')}{inner})"
    if kind < 11:
        return f"(?:{inner}){source.choice(['', '*', '?', '+', '{1,2}'])}"
    return f"(?:{inner}|{random_pattern(source, depth - 1)})"


def test_random_patterns_agree_with_the_matcher():
    source = random.Random(7)
    texts = ["".join(text) for length in range(6) for text in itertools.product("ab-", repeat=length)]
    for _ in range(200):
        pattern = Pattern(drawn := random_pattern(source))
        matcher, automaton = re.compile(translate_pattern(drawn)), pattern.automaton
        assert automaton is not None
        matched = {text: matcher.search(text) is not None for text in texts}
        for text in texts:
            assert pattern.matches(text) == matched[text], (drawn, text)
            verdict = automaton.advance(automaton.start, text).verdict if len(text) < 3 else 0
            if verdict:
                assert {found for other, found in matched.items() if other.startswith(text)} == {verdict > 0}, drawn


@pytest.mark.parametrize("source", ["[ab]*a[ab]{6}$", "^(?!.*a.{6}$)", "(?<!b)a.{6}$"])
def test_it_keeps_a_bounded_number_of_states(source, monkeypatch):
    monkeypatch.setattr(pattern_automaton, "_MAX_STATES", 10)
    pattern, matcher, rng = Pattern(source), re.compile(translate_pattern(source)), random.Random(5)
    automaton = pattern.automaton
    assert automaton is not None
    for _ in range(100):
        text = "".join(rng.choices("ab", k=12))
        assert pattern.matches(text) == (matcher.search(text) is not None), text
        reached, todo = {automaton.start}, [automaton.start]
        while todo:
            fresh = {state for state in todo.pop().row if state is not None} - reached
            reached |= fresh
            todo += fresh
        assert len(reached) <= 30


def test_a_pattern_beyond_automata_is_decided_for_whole_texts():
    pattern = Pattern(r"^(a+)\1$")
    assert pattern.automaton is None
    assert pattern.matches("aaaa") and not pattern.matches("aaa")


def test_nested_repeats_take_no_exponential_time():
    assert not Pattern("^(a|a)*$").matches("a" * 5000 + "b")
