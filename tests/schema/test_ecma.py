"""ECMA-262's regular expressions mean in Python what they mean there."""

import re
from contextlib import suppress

import pytest

from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.schema.ecma import translate_pattern


def finds(pattern, text):
    return re.search(translate_pattern(pattern), text) is not None


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^\d+$", "12", "١٢"),
        (r"^\d$", "1", "1\n"),
        (r"^\D$", "١", "1"),
        (r"^[\d]$", "1", "١"),
        (r"^[^\d]$", "١", "1"),
        (r"^[\D]$", "١", "1"),
        (r"^\w+$", "a_1", "é"),
        (r"^\W$", "é", "a"),
        (r"^\s$", "\ufeff", "\x1c"),
        (r"^\S$", "\x85", "\u2029"),
        (r"^.$", "\x85", "\u2028"),
        (r"^.$", "é", "\r"),
        (r"^[^]$", "\n", ""),
        (r"a|[]", "a", "b"),
        (r"^\u0041\x42\u{1F600}\uD83D\uDE00\cJ$", "AB😀😀\n", "AB😀"),
        (r"^\p{L}\p{Lu}\p{Letter}\P{L}$", "aBc1", "aBcd"),
        (r"^[\p{Nd}_]$", "١", "a"),
        (r"^\/\.$", "/.", "/x"),
        (r"(?<year>\d)\k<year>", "11", "12"),
        (r"\bfoo\b", "a foo", "éfooo"),
        (r"é\b", "éa", "é"),
        (r"[[a]", "[", "b"),
        (r"^(a)\1{2}$", "aaa", "aa"),
        (r"^(a)\1[1]$", "aa1", "a\x091"),
        ("^" + "(a)" * 9 + r"(b)\10$", "a" * 9 + "bb", "a" * 10 + "b0"),
        (r"[a&&b]", "&", "c"),
        (r"[(?:]", "?", "x"),
        (r"^[+--]$", "-", "."),
        (r"^[--/]$", ".", "0"),
        (r"^[^--/]$", "0", "."),
        (r"^[---]$", "-", "."),
        (r"^[a-c--e]$", "-", "f"),
        (r"^[*+--]$", ",", "."),
        (r"^[(?i-s:]$", "p", "-"),
        (r"^[a-]$", "-", "b"),
        (r"^[\w-]$", "-", "."),
        (r"^[\w-z]$", "-", "`"),
        (r"^[+-\d]$", "-", ","),
        (r"^[\d-\w]$", "-", "."),
        (r"[^]]", "a]", "]"),
        (r"^[\b]$", "\x08", "b"),
        (r"(?!a)b", "b", "a"),
        (r"\$\[\]", "$[]", "$["),
    ],
)
def test_it_finds_what_ecma_finds(pattern, yes, no):
    assert finds(pattern, yes)
    assert not finds(pattern, no)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "pattern", ["[+--]", "[---]", "[a-c--e]", "[!---]", "[a--b]", "[a&&b||c~~d]", "[[a]", r"[\w--]", "[^--a]", "[-&&-]"]
)
def test_python_warns_of_no_set_operations(pattern):
    with suppress(InvalidGrammarError):
        re.compile(translate_pattern(pattern))


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "a**",
        r"\a",
        r"\Z",
        "(?i)a",
        "(?P<a>b)",
        "(?#x)",
        "a++",
        "(?>a)",
        r"[\B]",
        r"(a)\2",
        r"(a)\10",
        "[a--b]",
        r"(?<a>b)[\k<a>]",
        r"[\]",
    ],
)
def test_what_is_no_ecma_pattern_is_refused(pattern):
    with pytest.raises(InvalidGrammarError):
        translate_pattern(pattern)


@pytest.mark.parametrize("pattern", [r"\p{Script=Greek}", "(?<=a|bc)d", "(a)" * 100 + r"\100"])
def test_what_python_cannot_do_is_unsupported(pattern):
    with pytest.raises(UnsupportedGrammarError):
        translate_pattern(pattern)
