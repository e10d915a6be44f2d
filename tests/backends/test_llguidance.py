"""The facts about llguidance that its adapter relies on; each fails when the library changes."""

import json
from typing import Any

import pytest
import torch
from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

from constrain.backends._llguidance_json import MAX_MULTIPLE
from constrain.backends.llguidance import LLGuidanceBackend, LLGuidanceGrammar
from constrain.errors import BackendError, InvalidGrammarError, UnsupportedGrammarError
from constrain.grammar import Grammar, RowState
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, lark, regex
from constrain.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    [b"", b"<sp>", *(bytes([byte]) for byte in range(256)), b"aa", b"ab"], stop_token_ids=[0], special_token_ids=[1]
)
BACKEND = LLGuidanceBackend(VOCABULARY)
NO_FORCING = '%llguidance {"no_forcing": true}\n'


class _Bytes:
    eos_token_id = 0
    bos_token_id = None
    special_token_ids: tuple[int, ...] = ()
    tokens = (*VOCABULARY.token_bytes,)

    def __call__(self, text: bytes | str) -> list[int]:
        return [2 + byte for byte in (text if isinstance(text, bytes) else text.encode())]


def raw(grammar: str, *, special_token_ids: tuple[int, ...] = ()) -> Any:
    tokens = _Bytes()
    tokens.special_token_ids = special_token_ids
    return LLMatcher(LLTokenizer(TokenizerWrapper(tokens)), grammar, log_level=0)


def raw_json(schema: object, **options: object) -> Any:
    return raw(NO_FORCING + "start: %json " + json.dumps({**schema, "x-guidance": options}))  # type: ignore[dict-item]


def raw_takes(matcher: Any, text: str) -> bool:
    matcher.reset()
    data = [2 + byte for byte in text.encode()]
    return bool(matcher.try_consume_tokens(data) == len(data) and matcher.is_accepting())


def mask_of(matcher: Any) -> set[int]:
    mask = matcher.compute_bitmask()
    return {t for t in range(8 * len(mask)) if mask[t // 8] >> t % 8 & 1}


def valid_of(matcher: Any) -> set[int]:
    return {t for t in range(VOCABULARY.size) if matcher.validate_tokens([t]) == 1}


def schema_spec(schema: object, **form: Any) -> GrammarSpec:
    return GrammarSpec("json_schema", json.dumps(schema), JsonForm(**form), assert_formats=True)


def start(grammar_spec: GrammarSpec) -> Grammar:
    return BACKEND.compile(grammar_spec).start()


def takes(grammar_spec: GrammarSpec, text: str | bytes) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    return start(grammar_spec).accept([*(2 + byte for byte in data), 0]) == len(data) + 1


def refusal(schema: object) -> tuple[str, str | None]:
    first = BACKEND.unsupported(schema_spec(schema))[0]
    with pytest.raises(UnsupportedGrammarError):
        BACKEND.compile(schema_spec(schema))
    return first.pointer, first.keyword


# The library


def test_masks_of_forced_regions_are_narrower_than_accept_without_no_forcing() -> None:
    forcing, free = raw('start: "aab"'), raw(NO_FORCING + 'start: "aab"')
    assert mask_of(forcing) < valid_of(forcing)
    assert mask_of(free) == valid_of(free) == {2 + ord("a"), VOCABULARY.token_bytes.index(b"aa")}


def test_the_last_no_forcing_wins() -> None:
    matcher = raw('%llguidance {"no_forcing": false}\nstart: "aab"\n' + NO_FORCING)
    assert mask_of(matcher) == valid_of(matcher)


def test_no_forcing_reaches_into_embedded_schemas() -> None:
    schema = {
        "type": "object",
        "properties": {"aab": {"type": "null"}},
        "required": ["aab"],
        "additionalProperties": False,
    }
    matcher = raw(NO_FORCING + "start: %json " + json.dumps(schema))
    assert matcher.try_consume_tokens([2 + ord("{"), 2 + ord('"')]) == 2
    assert mask_of(matcher) == valid_of(matcher) >= {2 + ord("a"), VOCABULARY.token_bytes.index(b"aa")}


def test_consume_token_poisons_for_good_and_try_consume_does_not() -> None:
    matcher = raw(NO_FORCING + 'start: "ab"')
    assert matcher.try_consume_tokens([2 + ord("x")]) == 0 and not matcher.is_error()
    assert not matcher.consume_token(2 + ord("x"))
    assert matcher.is_error() and not matcher.rollback(0)
    assert mask_of(matcher) == {0}, "an errored matcher no longer claims that the text may end"


def test_a_dead_end_breaks_the_matcher() -> None:
    small = _Bytes()
    small.tokens = (b"", b"a", b"b")
    matcher = LLMatcher(LLTokenizer(TokenizerWrapper(small)), NO_FORCING + 'start: "a" "c"', log_level=0)
    assert matcher.try_consume_tokens([1]) == 1
    matcher.compute_bitmask()
    assert matcher.is_error() and matcher.get_error().startswith("NoExtensionBias")
    assert not matcher.rollback(1)


def test_special_tokens_show_in_masks_that_do_not_accept_them() -> None:
    matcher = raw(NO_FORCING + 'start: "a" <[1]>', special_token_ids=(1,))
    assert matcher.try_consume_tokens([2 + ord("a")]) == 1
    assert mask_of(matcher) > valid_of(matcher)


def test_text_is_pasted_unparsed_so_that_a_second_grammar_rides_along() -> None:
    injected = LLMatcher.grammar_from_json_schema('{} }, {"json_schema": {}')
    assert len(json.loads(injected)["grammars"]) == 2


def test_x_guidance_switches_checks_off() -> None:
    assert not raw_json({"type": "string", "not": {}}, lenient=True).is_error()
    assert not raw_json({"oneOf": [{"minimum": 3}, {"maximum": 5}]}, coerce_one_of=True).is_error()


def test_the_constructor_never_raises() -> None:
    assert raw("start: nothing").is_error()


@pytest.mark.parametrize("option", ['"\\bfnrtu', None])
def test_escaped_keys_slip_past_properties(option: str | None) -> None:
    options = {"json_allowed_escapes": option} if option else {}
    assert raw_takes(
        raw_json({"type": "object", "properties": {"foo": {"type": "integer"}}}, **options), r'{"\u0066oo":"x"}'
    )


def test_keys_may_be_repeated_and_count_each_time() -> None:
    assert raw_takes(raw_json({"type": "object", "minProperties": 2}), '{"a":1,"a":2}')


@pytest.mark.parametrize(
    ("name", "text"),
    [("date", "2023-02-29"), ("time", "12:00:60Z"), ("date-time", "2023-01-01T12:00:60Z"), ("hostname", "xn--x")],
)
def test_formats_that_are_too_wide(name: str, text: str) -> None:
    assert raw_takes(raw_json({"type": "string", "format": name}), f'"{text}"')


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"exclusiveMinimum": 1, "maximum": 1.5}, "1"),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, "0"),
        ({"exclusiveMaximum": -1, "minimum": -1.5}, "-1"),
    ],
)
def test_an_exclusive_bound_is_met_within_its_unit(schema: dict[str, Any], text: str) -> None:
    assert raw_takes(raw_json({"type": "number", **schema}), text)
    assert BACKEND.unsupported(schema_spec(schema))
    (lower, upper) = schema.items()
    assert BACKEND.unsupported(schema_spec({"allOf": [dict([lower]), {"anyOf": [dict([upper]), {"type": "null"}]}]}))
    assert not BACKEND.unsupported(schema_spec({"type": "integer", "exclusiveMinimum": 1, "maximum": 2}))
    assert not BACKEND.unsupported(schema_spec({"exclusiveMinimum": 1, "maximum": 2.5}))


@pytest.mark.parametrize("pattern", ["a\\", "(?i)a", "[a-z&&[b]]", "[[a]]"])
def test_patterns_are_read_as_rust_reads_them(pattern: str) -> None:
    assert not raw_json({"type": "string", "pattern": pattern}).is_error()


# What the adapter makes of it


def test_an_escaped_key_does_not_slip_past_properties() -> None:
    spec = schema_spec({"type": "object", "properties": {"foo": {"type": "integer"}}})
    assert takes(spec, '{"foo":1,"bar":"x"}')
    for text in (r'{"\u0066oo":"x"}', r'{"f\u006fo":"x"}', '{"foo":"x"}', r'{"b\u0001":1}'):
        assert not takes(spec, text), text


@pytest.mark.parametrize(
    "text", [r'"\ud800"', r'"\udc00\ud800"', '"\x01"', '"\n"', b'"\xed\xa0\x80"', b'"\xff"', '"\\/', '"\\x"']
)
def test_no_string_is_invalid_json_or_no_text(text: str | bytes) -> None:
    for schema in ({"type": "string"}, {"type": "string", "minLength": 1}, {"type": "string", "pattern": "."}, {}):
        assert not takes(schema_spec(schema), text)


def test_a_schema_cannot_switch_checks_off() -> None:
    evil = {"x-guidance": {"lenient": True, "coerce_one_of": True}}
    assert refusal({**evil, "oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]}) == ("/oneOf", "oneOf")
    assert refusal({**evil, "properties": {"a": {**evil, "uniqueItems": True}}})[0] == "/properties/a/uniqueItems"
    assert takes(schema_spec({**evil, "const": {"x-guidance": 1}}), '{"x-guidance":1}')
    assert not takes(schema_spec({"properties": {"x-guidance": {"type": "null"}}}), '{"x-guidance":1}')


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "object", "minProperties": 2}, ("/minProperties", "minProperties")),
        ({"type": "string", "format": "hostname"}, ("/format", "format")),
        ({"items": {"format": "iri"}}, ("/items/format", "format")),
        ({"type": "integer", "multipleOf": 9999991}, ("/multipleOf", "multipleOf")),
        ({"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}, ("/allOf/0/multipleOf", "multipleOf")),
        ({"properties": {"a/b": {"uniqueItems": True}}}, ("/properties/a~1b/uniqueItems", "uniqueItems")),
        ({"$ref": "#/x", "x": {"not": {"pattern": "a"}}}, ("/x/not", "not")),
        ({"pattern": "(?=a)"}, ("/pattern", "pattern")),
        ({"patternProperties": {"[a&&b]": {}}}, ("/patternProperties", "patternProperties")),
        ({"const": "\x01"}, ("/const", "const")),
        ({"properties": {"\x7f": {"type": "null"}}}, ("/properties", "properties")),
        ({"$defs": {"a": {"$anchor": "x", "format": "iri"}}, "$ref": "#x"}, ("/$defs/a/format", "format")),
        ({"enum": []}, ("/enum", "enum")),
        ({"not": {}}, ("/not", "not")),
        (False, ("", "false")),
    ],
)
def test_holes_are_refused_with_their_place(schema: object, place: tuple[str, str | None]) -> None:
    assert refusal(schema) == place


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"uniqueItems": False},
        {"minLength": 2.0},
        {"$defs": {"a": {"$anchor": "x", "format": "date"}}, "$ref": "#x"},
        {"minProperties": 1},
        {"minProperties": 2, "required": ["a", "b"]},
        {"multipleOf": MAX_MULTIPLE},
        {"multipleOf": 1_000_000},
        {"multipleOf": 0.01},
        {"enum": ["not", {"not": {}, "format": "x"}]},
        {"properties": {"not": {}, "format": {}}},
        {"$defs": {"unused": {"not": {}}}},
    ],
)
def test_what_is_sound_is_not_refused(schema: object) -> None:
    assert BACKEND.unsupported(schema_spec(schema)) == []


def test_formats_that_are_too_wide_are_narrowed() -> None:
    date, time, both = (schema_spec({"type": "string", "format": name}) for name in ("date", "time", "date-time"))
    good = ["2024-02-29", "2000-02-29", "2023-12-31", "0001-01-01", "9999-11-30", "2023-02-28"]
    bad = ["2023-02-29", "1900-02-29", "2023-04-31", "0000-01-01", "2023-13-01", "2023-1-1", "2023-00-10", "2023-01-00"]
    assert [takes(date, f'"{text}"') for text in good + bad] == [True] * len(good) + [False] * len(bad)
    good = ["00:00:00Z", "23:59:59.123+23:59", "12:30:00-00:00"]
    bad = ["24:00:00Z", "12:00:60Z", "12:00:00", "12:60:00Z", "12:00:00+24:00", "12:00:00.Z"]
    assert [takes(time, f'"{text}"') for text in good + bad] == [True] * len(good) + [False] * len(bad)
    assert takes(both, '"2024-02-29T12:00:00Z"') and not takes(both, '"2023-02-29T12:00:00Z"')
    beside = schema_spec({"type": "string", "format": "date", "pattern": "^2"})
    assert takes(beside, '"2024-02-29"') and not takes(beside, '"2023-02-29"') and not takes(beside, '"1999-01-01"')


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ({"whitespace": "none"}, ['{"a":[1,2]}'], ['{"a": [1,2]}', '{"a":[1, 2]}', '{ "a":[1,2]}']),
        ({"whitespace": "canonical"}, ['{"a": [1, 2], "b": {}}'], ['{"a":[1,2]}', '{"a": [1,2]}', '{ "a": [1, 2]}']),
        (
            {"whitespace": "flexible", "max_whitespace": 2},
            ['{"a":[1,2]}', '{ \n"a" : [1\t,\r\n2 ] }'],
            ['{   "a":1}', '{"a"   :1}', '{"a":   1}', '{"a":[1   ,2]}', '{"a":[1,   2]}', '{"a":1   }', " {}", "{} "],
        ),
    ],
)
def test_whitespace_is_written_as_asked(form: dict[str, Any], good: list[str], bad: list[str]) -> None:
    for spec in (schema_spec({"type": "object"}, **form), GrammarSpec("json_object", "", JsonForm(**form))):
        assert [takes(spec, text) for text in good + bad] == [True] * len(good) + [False] * len(bad)


def test_a_regex_means_what_python_means() -> None:
    for pattern, good, bad in [
        (r"a.c", ["abc", "aéc", "a\rc"], ["a\nc", "ac"]),
        (r"[/\]\"^-]{2,3}", ['/"', "]^-"], ["a/", "/"]),
        (r"\d+|x{0}y", ["12", "٣", "y"], ["", "x"]),
    ]:
        spec = regex(pattern)
        assert [takes(spec, text) for text in good + bad] == [True] * len(good) + [False] * len(bad), pattern


def test_choices_are_taken_literally() -> None:
    choices = ["a/b", 'x"\\y', "[a-z]", "日本😀", "\n", "<sp>", "a"]
    spec = choice(choices)
    assert all(takes(spec, text) for text in choices)
    assert not takes(spec, "b") and not takes(spec, "a/") and not takes(spec, "")


@pytest.mark.parametrize(
    "text",
    [
        'start: <sp> "a"',
        'start: "a" <[1]>',
        "start[max_tokens=3]: /a+/",
        'start: t "x"\nt[stop=""]: /a*/',
        "start: t\nt[temperature=0.5]: /a+/",
        "start: @other",
        'start: %json {"format": "hostname"}',
        'start: %json {"format": "iri", "x-guidance": {"lenient": true}}',
    ],
)
def test_lark_that_breaks_a_law_is_refused(text: str) -> None:
    assert BACKEND.unsupported(lark(text))
    with pytest.raises(UnsupportedGrammarError):
        BACKEND.compile(lark(text))


def test_lark_syntax_inside_strings_is_text() -> None:
    assert takes(lark('start: "<sp>" /[<@]+/ "max_tokens" // <sp>\n# @\n'), "<sp><@max_tokens")


def test_a_schema_inside_lark_is_as_safe_as_one_alone() -> None:
    spec = lark('start: "<" %json {"type": "object", "properties": {"foo": {"type": "null"}}, "x-guidance": {}} ">"')
    assert takes(spec, '<{"foo":null}>') and not takes(spec, r'<{"\u0066oo":1}>')


def test_lark_that_does_not_parse_says_where() -> None:
    with pytest.raises(InvalidGrammarError) as caught:
        BACKEND.compile(lark('start: "a"\n  foo'))
    assert caught.value.position is not None
    with pytest.raises(InvalidGrammarError):
        BACKEND.compile(lark("start: %json {nonsense"))


def test_a_grammar_that_dies_of_a_limit_ends_with_an_error_and_not_with_the_text() -> None:
    grammar = start(lark(r'start: "a" start "b" | "c"'))
    assert isinstance(grammar, LLGuidanceGrammar)
    grammar._matcher.consume_token(0)  # stands for a limit: the error state is the same
    bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    with pytest.raises(BackendError):
        grammar.fill_bitmask(bitmask, 0)
    with pytest.raises(BackendError):
        grammar.accept([2 + ord("a")])


def test_many_optional_properties_are_refused_at_compile_time_or_work() -> None:
    schema = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(1000)}}
    try:
        grammar = start(schema_spec(schema))
    except UnsupportedGrammarError:
        return
    bitmask = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
    assert grammar.fill_bitmask(bitmask, 0) is RowState.CONSTRAINED


def test_kinds_of_other_libraries_are_unsupported() -> None:
    for kind in ("ebnf", "structural_tag"):
        assert BACKEND.unsupported(GrammarSpec(kind, "x"))  # type: ignore[arg-type]


def test_lone_surrogates_are_invalid() -> None:
    for spec in (choice(["a\ud800"]), lark('start: "\ud800"')):
        with pytest.raises(InvalidGrammarError):
            BACKEND.compile(spec)
