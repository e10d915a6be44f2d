"""Tagged texts at the door, and their canonical text."""

import json
from typing import Any

import pytest

from constrain.errors import InvalidGrammarError
from constrain.grammar_spec import GrammarSpec, JsonForm, json_schema, regex, structural_tag
from constrain.tags import Special, Tag, named_token_ids, parts_of, read_tagged_text, tagged_text
from constrain.vocabulary import Vocabulary

A = regex("a")
VOCABULARY = Vocabulary(
    [b"", b"", b"", b"a", b"<", b"d>", b"xy"],
    stop_token_ids=[0],
    special_token_ids=[1, 2],
    special_tokens={"<e>": 0, "<c>": 1},
)


@pytest.mark.parametrize(
    ("tags", "options", "words"),
    [
        ([], {}, "at least one tag"),
        ([Tag("", A, ">")], {}, "trigger"),
        ([Tag("", A, ">")], {"triggers": ["<"]}, "tag 0 .* begins with nothing"),
        ([Tag("<a", A), Tag("<b", A)], {"triggers": ["<a"]}, "tag 1 .*'<b'.* exactly one"),
        ([Tag("<a", A)], {"triggers": ["<", "<a"]}, "inside"),
        ([Tag("<a", A), Tag("<ab", A)], {}, "inside"),
        ([Tag("<a", A)], {"triggers": ["<", "<"]}, "twice"),
        ([Tag("<a", A)], {"triggers": [""]}, "empty"),
        ([Tag("<a", None)], {}, "no end"),
        ([Tag("<\ud800", A, ">")], {}, "surrogate"),
        ([Tag("<a", None)], {"stop_after_first": True, "separator": ","}, "no end"),
        ([Tag("<a", tagged_text([Tag("<", A)]), ">")], {}, "nest"),
        ([Tag("<a", json_schema({}, unsupported="ignore"), ">")], {}, "ignore"),
    ],
)
def test_tags_that_mean_nothing_are_refused_by_name(tags: list[Tag], options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidGrammarError, match=words):
        tagged_text(tags, **options)


def test_the_text_of_a_spec_holds_all_that_was_asked() -> None:
    form = JsonForm("canonical", 3, "free")
    spec = json_schema({"type": "integer"}, form=form, assert_formats=True)
    tags = [Tag(["<a", Special("<c>"), "x", "y"], spec, Special(2)), Tag("<b", None, [".", Special("<c>")])]
    grammar_spec = tagged_text(
        tags, triggers=["<a", "<b"], at_least_one=True, stop_after_first=True, separator=", ", closing="]"
    )
    tagged = read_tagged_text(grammar_spec.text)
    assert tagged is not None
    assert tagged.tags[0] == Tag(("<a", Special("<c>"), "xy"), spec, Special(2))
    assert tagged.tags[1] == Tag("<b", None, (".", Special("<c>")))
    assert (tagged.at_least_one, tagged.stop_after_first, tagged.triggers) == (True, True, ("<a", "<b"))
    assert (tagged.opening, tagged.separator, tagged.closing) == ("", ", ", "]")
    assert structural_tag(grammar_spec.text) == grammar_spec


def test_xgrammars_triggered_tags_are_a_tagged_text_and_its_other_formats_are_not() -> None:
    tag = {"type": "tag", "begin": "<a", "content": {"type": "regex", "pattern": "a"}, "end": ">"}
    place = {"type": "triggered_tags", "triggers": ["<a"], "tags": [tag], "at_least_one": True}
    tagged = read_tagged_text(structural_tag({"type": "structural_tag", "format": place}).text)
    assert tagged is not None and tagged.tags == (Tag("<a", A, ">"),) and tagged.at_least_one
    for other in (
        {"type": "any_text"},
        {**place, "excludes": ["x"]},
        {**place, "tags": [{**tag, "end": [">", "]"], "content": {"type": "any_text", "max_tokens": 3}}]},
        {**place, "triggers": ["<", "<a"]},
        {**place, "tags": []},
    ):
        assert read_tagged_text(json.dumps({"type": "structural_tag", "format": other})) is None
    assert read_tagged_text("no JSON") is None


def test_markers_are_special_tokens_where_the_vocabulary_has_them() -> None:
    assert parts_of(["x", Special("<c>"), Special("<d>"), "y", ""], VOCABULARY) == ("x", 1, "<d>y")
    assert parts_of(Special(2), VOCABULARY) == (2,)
    assert parts_of(Special("a"), VOCABULARY) == ("a",), "an ordinary token is text"
    with pytest.raises(InvalidGrammarError, match="3"):
        parts_of(Special(3), VOCABULARY)
    with pytest.raises(InvalidGrammarError, match="'<q>'"):
        parts_of("<q>", VOCABULARY)


def test_named_tokens_are_those_of_the_markers_without_stop_tokens() -> None:
    grammar_spec = tagged_text([Tag("<a", A, [Special("<c>"), Special("<e>")])])
    assert named_token_ids(grammar_spec, VOCABULARY) == {1}
    assert named_token_ids(A, VOCABULARY) == frozenset()
    assert named_token_ids(GrammarSpec("structural_tag", "{}"), VOCABULARY) == frozenset()
