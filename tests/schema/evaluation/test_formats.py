"""Formats as they come: what has one is refused nowhere, and what cannot come to have one as early as is known."""

import json
import random

import pytest

from constrain.schema.evaluation import Evaluator, Verdict, compile_program
from constrain.schema.evaluation.formats import format_check
from constrain.schema.formats import FORMATS, checker_of
from constrain.schema.load import load_graph

from ..data import SUITE

GOOD = {
    "date": ["0000-02-29", "2000-02-29", "1999-12-31", "2024-04-30"],
    "time": ["23:59:60Z", "01:29:60.5+01:30", "15:59:60-08:00", "00:58:60+00:59", "08:30:06.1z", "00:00:00-23:59"],
    "date-time": ["1998-12-31t23:59:60z", "2024-02-29T00:29:60.01-23:30", "1985-04-12T23:20:50.52Z"],
    "duration": ["P1Y2M3DT4H5M6S", "PT36H", "P4W", "P1DT1S"],
    "email": ["a.b+c@d-e.f", '"a @ \\" b"@[127.0.0.1]', "a@[IPv6:1::2]", "x" * 64 + "@y"],
    "idn-email": ["실례@실례.테스트", '"é@"@xn--bcher-kva.example', "é" * 32 + "@e\u0301.a", "a@A.b"],
    "hostname": ["a", "xn--bcher-kva.example", "a-b.c9", "A." * 20 + "b", "x" * 63 + ".y"],
    "idn-hostname": ["l·l", "͵β", "א״ב", "ab.בג1", "クイ・ズ", "क्‍ष", "xn--bcher-kva。b", "بي٠", "a.b-c"],
    "ipv4": ["0.0.0.0", "255.249.199.9"],
    "ipv6": ["::", "1::", "::ffff:1.2.3.4", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"],
    "uri": ["http://[::1]:80/a?b#c", "urn:a:b", "a://u:p@h.x/%41", "x:/", "x:"],
    "uri-reference": ["../a", "", "//h", "a/b:c", "#f"],
    "iri": ["http://é.日/ü?\ue000"],
    "iri-reference": ["é", "/ü#ä"],
    "uri-template": ["a/{?b*,c:3}", "{+x.y}é", ""],
    "json-pointer": ["", "/a~1b/~0", "/\n"],
    "relative-json-pointer": ["0#", "12/a", "1"],
    "regex": [
        "^a{2}$", "(?<n>a)\\k<n>", "[\\w-]+", "(?=a)*", "a{,3}?", "x{", "[^]a]", "\\p{Lu}\\P{gc=L}",
        "\\u{10FFFF}[!-\\d]", "(a)(?:b|)\\1", "[]", "(?<!a)b??", "\\cA\\x41\\u0041[\\b]",
    ],
    "uuid": ["2EB8AA08-aa98-11ea-b4aa-73b441d16380"],
}  # fmt: skip
ONLY_AT_THE_END = {"hostname", "idn-hostname", "email", "idn-email", "regex"}
"""Where there are texts that the automata accept and the check refuses."""


def _texts(name):
    """Texts like those that have the format: of the suite, by hand, and both with small changes."""
    found = list(GOOD[name])
    for file in sorted((SUITE / "tests").glob(f"draft2020-12/optional/format/{name}.json")):
        tests = [test for case in json.loads(file.read_text()) for test in case["tests"]]
        found += [test["data"] for test in tests if isinstance(test["data"], str)]
    rng = random.Random(name)
    alphabet = sorted({char for text in found for char in text})
    for text in [rng.choice(found) for _ in range(400)]:
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(text))
            text = text[:at] + rng.choice(["", rng.choice(alphabet)]) + text[at + rng.randint(0, 1) :]
        found.append(text)
    return found


def _check(name):
    check = format_check(name, load_graph(True).root)
    assert check is not None
    return check


def _accept(check, text):
    """Whether the automata accept ``text``; None where they refuse before its end."""
    accepted = check.max_length is None or len(text) <= check.max_length
    for automaton in check.automata:
        state = automaton.start
        for char in text:
            state = automaton.advance(state, char)
            if state.verdict < 0:
                return None
        accepted = accepted and (state.verdict > 0 or state.accepts)
    return accepted


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_text_of_a_format_is_accepted_and_none_of_its_beginnings_refused(name):
    check, checker = _check(name), checker_of(name)
    good = [text for text in _texts(name) if checker(text)]
    assert set(GOOD[name]) <= set(good)
    for text in good:
        assert _accept(check, text), text


@pytest.mark.parametrize("name", sorted(FORMATS - ONLY_AT_THE_END))
def test_of_a_regular_format_nothing_else_is_accepted(name):
    check, checker = _check(name), checker_of(name)
    refused = [text for text in _texts(name) if not checker(text)]
    assert refused
    for text in refused:
        assert not _accept(check, text), text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2023-02-29"), ("date", "2023-13"), ("time", "24"), ("time", "12:59:60Z"), ("time", "22:59:60+0"),
        ("date-time", "2024-02-3"), ("duration", "P1D2"), ("email", "a.."), ("email", "x" * 65),
        ("idn-email", "é" * 33), ("hostname", "a_"), ("hostname", "-"), ("hostname", "x" * 64), ("hostname", "a.."),
        ("idn-hostname", "・.ab--"), ("idn-hostname", "1.ב"), ("idn-hostname", "אa"), ("idn-hostname", "\u0301"),
        ("idn-hostname", "·"), ("idn-hostname", "〮"), ("ipv4", "256"), ("ipv4", "01"), ("ipv6", "1::2::"),
        ("uri", "1"), ("uri", "a:%4g"), ("uri-reference", " "), ("iri", "http:// "), ("uri-template", "{}"),
        ("json-pointer", "a"), ("json-pointer", "/~2"), ("relative-json-pointer", "01"), ("uuid", "2eb8aa08a"),
        ("regex", ")"), ("regex", "a**"), ("regex", "(?P"), ("regex", "[b-a"), ("regex", "\\q"), ("regex", "\\p{X"),
        ("regex", "(?<a>b)(?<a>"), ("regex", "\\k<"), ("regex", "a{3,2}"), ("regex", "(?i"), ("regex", "(?<=a+"),
        ("regex", "\\1"), ("regex", "^*"),
    ],
)  # fmt: skip
def test_what_begins_no_such_text_is_refused_at_its_last_character(name, text):
    evaluator = Evaluator(compile_program({"type": "string", "format": name}, assert_formats=True))
    *first, last = json.dumps(text, ensure_ascii=False)[:-1]
    for char in first:
        assert evaluator.feed(char.encode()), (char, evaluator.offset)
    assert not evaluator.feed(last.encode()) and evaluator.verdict == Verdict.FALSE


@pytest.mark.parametrize(("name", "text"), [("hostname", "xn--X"), ("idn-hostname", "・"), ("regex", "(\\1)")])
def test_the_check_decides_at_the_quote(name, text):
    evaluator = Evaluator(compile_program({"type": "string", "format": name}, assert_formats=True))
    assert evaluator.feed(f'"{json.dumps(text, ensure_ascii=False)[1:-1]}'.encode())
    assert not evaluator.feed(b'"')


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_under_not_exactly_the_others_are_valid(name):
    program = compile_program({"type": "string", "not": {"format": name}}, assert_formats=True)
    for text in _texts(name)[:120]:
        evaluator = Evaluator(program)
        valid = evaluator.feed(json.dumps(text).encode()) and evaluator.can_end()
        assert valid != checker_of(name)(text), text
