"""Tools: the door, every format there and back, and what is not a call."""

import functools
import json
import random
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from constrain.backends import make_backend
from constrain.errors import (
    ConstrainError,
    InvalidGrammarError,
    InvalidInputError,
    InvalidSchemaError,
    InvalidValueError,
    UnsupportedGrammarError,
)
from constrain.grammar import Grammar
from constrain.grammar_spec import JsonForm
from constrain.schema import as_constraint
from constrain.tools import FORMATS, ToolCall, ToolFormat, ToolOutput, Tools
from constrain.vocabulary import Vocabulary

SPECIALS = ["<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|channel|>", "<|constrain|>"]
SPECIALS += ["<|message|>", "<|call|>", "<|return|>"]
BYTES = [bytes([byte]) for byte in range(256)]
NAMED = {name: 256 + n for n, name in enumerate(SPECIALS)}
END = 256 + len(SPECIALS)
STOPS = [END, NAMED["<|call|>"], NAMED["<|return|>"]]


def vocabulary_of(*, with_specials: bool) -> Vocabulary:
    return Vocabulary(
        [*BYTES, *[b""] * (len(SPECIALS) + 1)],
        stop_token_ids=STOPS,
        special_token_ids=range(256, END),
        special_tokens=NAMED if with_specials else {},
    )


VOCABULARIES = {"special": vocabulary_of(with_specials=True), "plain": vocabulary_of(with_specials=False)}


def get_weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """The weather of a city."""
    raise AssertionError("a tool is never called here")


class Search(BaseModel):
    """Search the web."""

    query: str
    limit: int = Field(default=3, ge=1, le=9)


ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add numbers.",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
            "additionalProperties": False,
        },
    },
}
TOOLS = [get_weather, Search, ADD]

WEATHER, SEARCH, SUM = '{"city": "Paris </tool_call>"}', '{"query": "é", "limit": 4}', '{"a": 1, "b": -20}'
CALLS = [
    ToolCall("get_weather", {"city": "Paris </tool_call>", "unit": "C"}, WEATHER),
    ToolCall("Search", Search(query="é", limit=4), SEARCH),
    ToolCall("add", {"a": 1, "b": -20}, SUM),
]
WRITTEN = {
    "hermes": (
        f'<tool_call>\n{{"name": "get_weather", "arguments": {WEATHER}}}\n</tool_call>\n'
        f'<tool_call>\n{{"name": "Search", "arguments": {SEARCH}}}\n</tool_call>\n'
        f'<tool_call>\n{{"name": "add", "arguments": {SUM}}}\n</tool_call>'
    ),
    "llama3": (
        f'{{"name": "get_weather", "parameters": {WEATHER}}}; {{"name": "Search", "parameters": {SEARCH}}}; '
        f'{{"name": "add", "parameters": {SUM}}}'
    ),
    "mistral": (
        f'[TOOL_CALLS][{{"name": "get_weather", "arguments": {WEATHER}}}, {{"name": "Search", "arguments": {SEARCH}}}, '
        f'{{"name": "add", "arguments": {SUM}}}]'
    ),
    "mistral-args": (
        f"[TOOL_CALLS]get_weather[ARGS]{WEATHER}[TOOL_CALLS]Search[ARGS]{SEARCH}[TOOL_CALLS]add[ARGS]{SUM}"
    ),
    "harmony": f"<|channel|>commentary to=functions.add <|constrain|>json<|message|>{SUM}<|call|>",
}
WRITTEN["llama3-python-tag"] = "<|python_tag|>" + WRITTEN["llama3"]


def ids_of(text: str, vocabulary: Vocabulary) -> list[int]:
    """One token a byte, and the special tokens of the vocabulary where they are spelled outside of quotes."""
    ids: list[int] = []
    at, in_string = 0, False
    while at < len(text):
        name = None if in_string else next((n for n in vocabulary.special_tokens if text.startswith(n, at)), None)
        if name is not None:
            ids.append(vocabulary.special_tokens[name])
            at += len(name)
        else:
            in_string ^= text[at] == '"'
            ids += text[at].encode()
            at += 1
    return ids


def takes(grammar: Grammar, ids: list[int]) -> bool:
    grammar.reset()
    ids = ids if ids[-1:] and ids[-1] in STOPS else [*ids, END]
    return grammar.accept(ids) == len(ids)


def calls_of(name: str) -> list[ToolCall]:
    return CALLS[2:] if name == "harmony" else CALLS


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance", "auto"])
@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", FORMATS)
def test_calls_of_every_format_are_enforced_and_read_back(name: str, kind: str, backend: str) -> None:
    vocabulary = VOCABULARIES[kind]
    text, wanted = WRITTEN[name], calls_of(name)
    made = make_backend(backend, vocabulary)
    for choice in ("required", "auto"):
        tools = Tools(TOOLS, format=name, choice=choice)
        if made.unsupported(tools.grammar_spec):
            pytest.fail(f"{backend} does not serve {name}: {made.unsupported(tools.grammar_spec)}")
        grammar = made.compile(tools.grammar_spec).start()
        ids = ids_of(text, vocabulary)
        assert takes(grammar, ids)
        assert tools.parse(ids, vocabulary) == wanted
        assert tools.parse(text) == wanted
        for cut in (1, 5, len(ids) // 2, len(ids) - 3):
            assert not takes(grammar, ids[:cut]) or (choice == "auto" and not tools.parse(ids[:cut], vocabulary))
        value: Any = as_constraint(tools).decode.decode_tokens(ids, vocabulary)  # type: ignore[attr-defined]
        assert value == (wanted if choice == "required" else ToolOutput("", tuple(wanted)))


@pytest.mark.parametrize("kind", VOCABULARIES)
@pytest.mark.parametrize("name", FORMATS)
def test_auto_takes_text_and_text_before_calls_and_required_takes_neither(name: str, kind: str) -> None:
    vocabulary = VOCABULARIES[kind]
    texts = {"Hello <b> é": ("Hello <b> é", 0), "So: " + WRITTEN[name]: ("So: ", len(calls_of(name)))}
    if name == "harmony":
        texts = {"<|channel|>final<|message|>Hello <b> é<|return|>": ("Hello <b> é", 0)}
    for text, (content, count) in texts.items():
        for choice in ("auto", "required"):
            tools = Tools(TOOLS, format=name, choice=choice)
            ids = ids_of(text, vocabulary)
            grammar = make_backend("auto", vocabulary).compile(tools.grammar_spec).start()
            assert takes(grammar, ids) == (choice == "auto")
            output = tools.split(ids, vocabulary)
            assert (tools.parse(ids, vocabulary), output.calls) == (list(output.calls), tuple(calls_of(name)[:count]))
            if choice == "auto":
                assert tools.value(ids, vocabulary) == ToolOutput(content, output.calls)
            else:
                with pytest.raises(InvalidValueError):
                    tools.value(ids, vocabulary)


def test_a_named_tool_is_the_only_one() -> None:
    vocabulary = VOCABULARIES["plain"]
    for name in FORMATS:
        tools = Tools(TOOLS, format=name, choice="add")
        grammar = make_backend("auto", vocabulary).compile(tools.grammar_spec).start()
        other = Tools(TOOLS, format=name, choice="Search")
        refusing = make_backend("auto", vocabulary).compile(other.grammar_spec).start()
        text = WRITTEN[name] if name == "harmony" else _one_call(name)
        assert takes(grammar, ids_of(text, vocabulary)) and not takes(refusing, ids_of(text, vocabulary))
        assert tools.value(text) == CALLS[2:]


def _one_call(name: str) -> str:
    form = FORMATS[name]
    spelled = []
    for marker in (form.opening, form.before_name, "add", form.after_name, SUM, form.end, form.closing):
        parts = marker if isinstance(marker, tuple) else (marker,)
        spelled += [str(getattr(part, "token", part)) for part in parts]
    return "".join(spelled)


def test_without_parallel_there_is_one_call() -> None:
    vocabulary = VOCABULARIES["special"]
    for name in FORMATS:
        tools = Tools(TOOLS, format=name, choice="required", parallel=False)
        grammar = make_backend("auto", vocabulary).compile(tools.grammar_spec).start()
        assert takes(grammar, ids_of(_one_call(name), vocabulary))
        assert takes(grammar, ids_of(WRITTEN[name], vocabulary)) == (name == "harmony")


@pytest.mark.parametrize("name", FORMATS)
def test_an_output_that_grows_shows_text_at_once_and_calls_when_complete(name: str) -> None:
    vocabulary, tools = VOCABULARIES["special"], Tools(TOOLS, format=name)
    text = WRITTEN[name] if name == "harmony" else "Text <é " + WRITTEN[name]
    ids = ids_of(text, vocabulary)
    shown, seen = "", 0
    for length in range(len(ids) + 1):
        output = tools.split(ids[:length], vocabulary)
        assert output.content.startswith(shown) and len(output.calls) >= seen
        shown, seen = output.content, len(output.calls)
    assert shown == ("" if name == "harmony" else "Text <é ") and seen == len(calls_of(name))
    grown = [len(tools.split(text[:length]).calls) for length in range(len(text) + 1)]
    assert grown == sorted(grown) and grown[-1] == seen


def test_text_that_looks_like_a_special_token_is_text_in_tokens() -> None:
    vocabulary, tools = VOCABULARIES["special"], Tools(TOOLS)
    text = f'I write <tool_call>\n{{"name": "add", "arguments": {SUM}}}\n</tool_call>'
    ids = list(text.encode())
    assert takes(make_backend("auto", vocabulary).compile(tools.grammar_spec).start(), ids)
    assert tools.value(ids, vocabulary) == ToolOutput(text, ())
    assert tools.parse(text) == CALLS[2:]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
        '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2.5}}\n</tool_call>',
        '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}',
        '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b"',
        '<tool_call>\n{"name": "add", "arguments": oh}}\n</tool_call>',
        f'<tool_call>\n{{"name": "add", "arguments": {SUM}}}\n</tool_call> and more',
        f'<tool_call>\n{{"name": "add", "arguments": {SUM}}}\n</tool_call>\n<tool_call>\n',
        '<tool_call>\n{"name": "add", "arguments": ' + "[" * 100_000,
    ],
)
def test_what_does_not_follow_the_format_or_the_schema_is_an_invalid_value(text: str) -> None:
    with pytest.raises(InvalidValueError):
        Tools(TOOLS).parse(text)


def test_random_outputs_under_the_constraint_are_always_read() -> None:
    """Walks over the masks: whatever the grammar lets through, the reader takes, with valid arguments."""
    import torch

    from constrain.sampling.ops.bitmask import allowed_tokens

    rng, num_calls, closing = random.Random(3), 0, set(b'"}],;[<{\n')
    for name in FORMATS:
        for vocabulary in VOCABULARIES.values():
            tools = Tools([Search, ADD], format=name, choice=rng.choice(["auto", "required"]))
            grammar = make_backend("auto", vocabulary).compile(tools.grammar_spec).start()
            mask = torch.zeros(1, vocabulary.num_mask_words, dtype=torch.int32)
            for _ in range(6):
                grammar.reset()
                walk: list[int] = []
                while not grammar.is_terminated and len(walk) < 1500:
                    grammar.fill_bitmask(mask, 0)
                    legal = allowed_tokens(mask, vocabulary.size)[0].nonzero().flatten().tolist()
                    # Towards the end of strings, numbers and texts, and into calls.
                    liked = [i for i in legal if 256 <= i < END or i in closing]
                    walk.append(rng.choice(liked if liked and rng.random() < 0.7 else legal))
                    assert grammar.accept(walk[-1:]) == 1
                if grammar.is_terminated:
                    value = tools.value(walk, vocabulary)
                    num_calls += len(value) if isinstance(value, list) else len(value.calls)
    assert num_calls > 20


def test_one_name_means_one_tool() -> None:
    with pytest.raises(InvalidInputError, match="'add'"):
        Tools([ADD, get_weather, ADD])
    with pytest.raises(InvalidInputError, match="'auto'"):
        Tools([{"name": "auto"}])


@pytest.mark.parametrize("options", [{"choice": "none"}, {"choice": "get_wether"}, {"format": "xml"}])
def test_unknown_choices_and_formats_are_refused_with_the_known_ones(options: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match=r"get_weather|hermes"):
        Tools(TOOLS, **options)


def positional(city: str, /) -> None: ...


def starred(*cities: str) -> None: ...


def unknown(thing: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


class Odd:
    """No pydantic type."""


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (positional, "positional"),
        (starred, "starred"),
        (unknown, "unknown"),
        (Odd, "Odd"),
        (list[int], "tool 1"),
        (3, "tool 1"),
        ("get_weather", "tool 1"),
        (int, "int"),
        ({"name": "x y"}, "x y"),
        ({"name": 3}, "tool 1"),
        ({"type": "retrieval"}, "tool 1"),
        ({"name": "bad", "parameters": {"type": "objekt"}}, "bad"),
        ({"name": "bad", "parameters": {"type": "array"}}, "bad"),
        ({"name": "bad", "parameters": "string"}, "bad"),
        ({"name": "bad", "parameters": {"$ref": "#/$defs/nowhere"}}, "bad"),
        (lambda city: city, "lambda"),
    ],
)
def test_a_tool_without_a_usable_schema_is_refused_by_name(tool: Any, words: str) -> None:
    with pytest.raises(InvalidGrammarError, match=words):
        Tools([get_weather, tool])


def test_an_invalid_schema_keeps_its_place() -> None:
    with pytest.raises(InvalidSchemaError) as caught:
        Tools([{"name": "bad", "parameters": {"type": "object", "properties": {"a": {"type": 3}}}}])
    assert caught.value.pointer.startswith("/properties/a")


def test_what_no_backend_enforces_names_the_tool() -> None:
    unique = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    tools = Tools([get_weather, {"name": "distinct", "parameters": unique}])
    with pytest.raises(UnsupportedGrammarError, match="distinct"):
        make_backend("auto", VOCABULARIES["plain"]).compile(tools.grammar_spec)


@pytest.mark.parametrize("tools", [[], "get_weather", None, get_weather])
def test_no_tools_are_refused(tools: Any) -> None:
    with pytest.raises(InvalidInputError, match="at least one tool"):
        Tools(tools)


def test_markers_that_the_vocabulary_cannot_write_are_refused() -> None:
    letters = [bytes([byte]) for byte in b'abcdefghijklmnopqrstuvwxyz_{}":, 0123456789\n']
    vocabulary = Vocabulary([b"", *letters], stop_token_ids=[0])
    for backend in ("xgrammar", "llguidance", "auto"):
        with pytest.raises(ConstrainError, match="<tool_call>"):
            make_backend(backend, vocabulary).compile(Tools([get_weather]).grammar_spec)


@dataclass
class Move:
    """Move a piece."""

    to: str


class Node(BaseModel):
    children: list["Node"] = []


def test_other_types_are_tools_too() -> None:
    tools = Tools([Move, Node, functools.partial(get_weather, unit="F"), {"name": "stop"}])
    assert [tool.name for tool in tools.tools] == ["Move", "Node", "get_weather", "stop"]
    calls = ['Move", "arguments": {"to": "e4"}', 'Node", "arguments": {"children": [{}]}', 'stop", "arguments": {}']
    text = "\n".join(f'<tool_call>\n{{"name": "{call}}}\n</tool_call>' for call in calls)
    assert [call.arguments for call in tools.parse(text)] == [Move("e4"), Node(children=[Node()]), {}]


def test_tools_are_described_as_chat_templates_want_them() -> None:
    described = Tools(TOOLS).described()
    assert described[2] == ADD
    assert described[0]["function"]["description"] == "The weather of a city."
    assert described[0]["function"]["parameters"]["required"] == ["city"]
    json.dumps(described)


def test_a_format_of_ones_own_and_another_form_of_json() -> None:
    own = ToolFormat(name="own", trigger="CALL ", before_name="CALL ", after_name=" ", end="\n", separator="")
    tools = Tools([ADD], format=own, choice="required", form=JsonForm("none"))
    text = 'CALL add {"a":1,"b":2}\nCALL add {"a":3,"b":4}\n'
    grammar = make_backend("auto", VOCABULARIES["plain"]).compile(tools.grammar_spec).start()
    assert takes(grammar, list(text.encode())) and not takes(grammar, list(text.replace(":", ": ").encode()))
    assert [call.arguments["a"] for call in tools.parse(text)] == [1, 3]


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
def test_a_hundred_tools_compile(backend: str) -> None:
    # Each stands in the grammar a fixed number of times; once for every other tool, and llguidance gave up at 64.
    tools = Tools([{**ADD["function"], "name": f"add_{n}"} for n in range(100)])
    grammar = make_backend(backend, VOCABULARIES["plain"]).compile(tools.grammar_spec).start()
    text = WRITTEN["hermes"].rpartition("\n<tool_call>")
    assert takes(grammar, list((text[1] + text[2]).replace('"add"', '"add_99"').strip().encode()))


@pytest.mark.parametrize(
    "wrong", [{"format": []}, {"format": None}, {"choice": ["add"]}, {"parallel": "no"}, {"form": "canonical"}]
)
def test_options_of_a_wrong_type_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=f"{next(iter(wrong))}="):
        Tools(TOOLS, **wrong)


@pytest.mark.parametrize("output", [None, 5, b"x", ["a"], [1.5], [True]])
def test_what_is_no_output_is_refused_by_type(output: Any) -> None:
    with pytest.raises(InvalidInputError):
        Tools(TOOLS).parse(output, vocabulary_of(with_specials=True))


@pytest.mark.parametrize("arguments", ["[]", '{"a": NaN}', "9" * 5000, '{"city": 1}'])
def test_invalid_arguments_of_a_foreign_output_are_not_called_a_bug_of_ours(arguments: str) -> None:
    written = f'<tool_call>\n{{"name": "get_weather", "arguments": {arguments}}}\n</tool_call>'
    with pytest.raises(InvalidValueError, match="get_weather") as caught:
        Tools(TOOLS).parse(written)
    assert "bug" not in str(caught.value)
