"""The formats of the drafts, against the official suite's own cases and a few by hand."""

import json

import pytest

from constrain.schema.formats import FORMATS, checker_of

from .data import SUITE, needs_suite

# What is refused though it is valid: a look-behind of any width, which Python's re cannot follow.
STRICTER = {("regex", "(?<=a+)b")}


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2024-02-29T23:59:60Z", "2023-02-29T00:00:00Z"),
        ("time", "10:00:00+01:00", "10:00:60Z"),
        ("duration", "P1Y2M3DT4H", "P1Y2D"),
        ("uri", "http://[::1]:80/a?b#c", "//a"),
        ("uri-reference", "../a", "a b"),
        ("iri", "http://é.日/", "http:// "),
        ("uri-template", "a/{?b*,c:3}", "a/{b"),
        ("email", '"a b"@[127.0.0.1]', "a..b@c"),
        ("hostname", "a-b.c", "a_b"),
        ("json-pointer", "/a~1b", "/a~2"),
        ("relative-json-pointer", "1/a", "01"),
        ("regex", "^a{2}$", "(a"),
        ("uuid", "2EB8AA08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08aa9811eab4aa73b441d16380"),
    ],
)
def test_a_format_takes_and_refuses(name: str, good: str, bad: str) -> None:
    checker = checker_of(name)
    assert checker is not None and name in FORMATS
    assert checker(good) and not checker(bad)


def test_what_no_draft_defines_has_no_checker() -> None:
    assert checker_of("path") is None and "path" not in FORMATS


@needs_suite
def test_the_official_cases() -> None:
    for file in sorted((SUITE / "tests").glob("draft*/optional/format/*.json")):
        for case in json.loads(file.read_text()):
            name = case["schema"].get("format") if isinstance(case["schema"], dict) else None
            checker = checker_of(name) if name in FORMATS else None
            for test in case["tests"] if checker is not None else ():
                if isinstance(test["data"], str) and (name, test["data"]) not in STRICTER:
                    assert checker(test["data"]) == test["valid"], (name, test)
