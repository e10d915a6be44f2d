"""JSON schemas as regular expressions, against the validator and brute force; no library is needed."""

import itertools
import json
import random
import re
from typing import Any

import pytest

from constrain.backends._json_regex import json_regex
from constrain.backends._json_schema import read_schema
from constrain.backends._number_regex import bounded_integer
from constrain.errors import ConstrainError, Unsupported
from constrain.grammar_spec import JsonForm, json_schema
from constrain.regex import Node, format_regex
from constrain.schema import Validator
from tests.schema.random_schemas import instances, random_schema

VALUES = list(instances())


def written(schema: Any, form: JsonForm | None = None) -> tuple[Node | None, list[Unsupported]]:
    spec = json_schema(schema, form=form or JsonForm("flexible", 2))
    return json_regex(read_schema(spec), spec.form or JsonForm())


def takes(schema: Any, text: str, form: JsonForm | None = None) -> bool:
    node, unsupported = written(schema, form)
    assert node is not None, unsupported
    return re.fullmatch(format_regex(node), text) is not None


def refusals(schema: Any) -> list[tuple[str, str | None]]:
    return [(item.pointer, item.keyword) for item in written(schema)[1]]


def closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


@pytest.mark.parametrize("low", [None, -1203, -100, -99, -12, -1, 0, 1, 7, 10, 99, 100, 985])
def test_bounded_integers_are_those_between_the_bounds(low: int | None) -> None:
    for high in (None, -1000, -10, -9, -1, 0, 1, 9, 10, 12, 130, 999, 1000, 1205):
        node = bounded_integer(low, high)
        between = [n for n in range(-1400, 1400) if (low is None or low <= n) and (high is None or n <= high)]
        pattern = re.compile(format_regex(node)) if node is not None else re.compile("(?!)")
        assert [n for n in range(-1400, 1400) if pattern.fullmatch(str(n))] == between, high
        assert not any(pattern.fullmatch(text) for text in ("", "-", "01", "-01", "+1", "1.0", "1e1")), high


@pytest.mark.parametrize("block", range(6))
def test_random_schemas_take_exactly_their_values(block: int) -> None:
    num_written = 0
    for seed in range(3000 + 150 * block, 3150 + 150 * block):
        schema = random_schema(random.Random(seed))
        try:
            node, _ = written(schema, JsonForm("none"))
        except ConstrainError:
            continue
        if node is None:
            continue
        num_written += 1
        pattern, validator = re.compile(format_regex(node)), Validator(schema)
        for value in VALUES:
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            # Integers have one spelling; the order of keys is the schema's.
            if isinstance(value, dict) or (isinstance(value, float) and value == int(value)):
                assert not pattern.fullmatch(text) or validator.error(text) is None, (schema, text)
            else:
                assert (pattern.fullmatch(text) is not None) == (validator.error(text) is None), (schema, text)
    assert num_written >= 8


@pytest.mark.parametrize("required", [(), ("a",), ("b",), ("c",), ("a", "c"), ("a", "b", "c")])
def test_objects_have_their_keys_in_order_each_at_most_once(required: tuple[str, ...]) -> None:
    schema = closed({name: {"type": "null"} for name in "abc"}, *required)
    for length in range(4):
        for names in itertools.product("abc", repeat=length):
            text = "{" + ", ".join(f'"{name}": null' for name in names) + "}"
            right = list(names) == sorted(set(names)) and set(required) <= set(names)
            assert takes(schema, text) == right, text


@pytest.mark.parametrize(("least", "most"), [(0, None), (0, 2), (1, 3), (2, 2), (3, None), (4, 5)])
@pytest.mark.parametrize("first", [0, 1, 3])
@pytest.mark.parametrize("rest", [{"type": "null"}, False])
def test_arrays_have_as_many_items_as_they_may(least: int, most: int | None, first: int, rest: Any) -> None:
    schema: dict[str, Any] = {"type": "array", "prefixItems": [{"type": "boolean"}] * first, "items": rest}
    schema |= {"minItems": least, **({} if most is None else {"maxItems": most})}
    if not first:
        del schema["prefixItems"]
    if rest is False and least > first:
        assert refusals(schema)
        return
    validator = Validator(schema)
    for length in range(7):
        for wrong in range(-1, length):
            items = ["true" if n < first else "null" for n in range(length)]
            if wrong >= 0:
                items[wrong] = "1"
            text = f"[{', '.join(items)}]"
            assert takes(schema, text) == (validator.error(text) is None), text


def test_a_string_has_every_character_and_no_control_character() -> None:
    for code in [*range(0x100), 0x2028, 0xD7FF, 0xE000, 0xFFFF, 0x1F600]:
        text = json.dumps(chr(code), ensure_ascii=False)
        assert takes({"type": "string", "maxLength": 1}, text), text
        assert takes({"type": "string"}, f'"{chr(code)}"') == (code >= 0x20 and chr(code) not in '"\\')
    for text in (r'"\x"', r'"\u0041"', r'"\ud800"', '"\ud800"', '"', '"a', 'a"', r'"\"', "''"):
        assert not takes({"type": "string"}, text), text


def test_lengths_count_characters_and_not_what_writes_them() -> None:
    schema = {"type": "string", "minLength": 2, "maxLength": 3}
    for value in ("a", "ab", "abc", "abcd", "\n\n", '"\\/', "😀", "😀é", "\x01\x02\x03", "\x01" * 4):
        assert takes(schema, json.dumps(value, ensure_ascii=False)) == (2 <= len(value) <= 3), value


@pytest.mark.parametrize(
    "pattern",
    ["a", "^a", "a$", "^a$", "^a|b$", "^$", "", "^(a|b)*$", r"\d+\"", "^[^b]$", r"^\\$", "a|b|^c", r"^\x01$", ".",
     "^.$", "^a{2,3}", "[|]", r"\|", "^a?$", r"^(?:\n|/)+$", r"^\u00e9", r"\\Z$", "^(a|^)"],
)  # fmt: skip
def test_patterns_are_found_where_the_validator_finds_them(pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    if written(schema)[0] is None:
        assert refusals(schema) == [("/pattern", "pattern")] and pattern == "^(a|^)"
        return
    validator = Validator(schema)
    parts = ["", "a", "b", "ab", "ba", "c", "aa", '1"', "\n", "\\", "/", "\x01", "é", "|", "\\Z", "😀", "x\ny"]
    for value in {one + other for one in parts for other in parts}:
        text = json.dumps(value, ensure_ascii=False)
        assert takes(schema, text) == (validator.error(text) is None), text


@pytest.mark.parametrize("whitespace", ["none", "canonical", "flexible"])
def test_white_space_is_as_the_form_says(whitespace: Any) -> None:
    schema = closed({"a": {"enum": [[1, {"b": None}], {}]}, "c": {"type": "array", "items": {"type": "null"}}}, "a")
    form = JsonForm(whitespace, 2)
    none = '{"a":[1,{"b":null}],"c":[null,null]}'
    canonical = '{"a": [1, {"b": null}], "c": [null, null]}'
    wild = '{ \n"a"\t:[ 1 , {  "b": null } ]  ,"c":[\r\n] }'
    taken = [text for text in (none, canonical, wild) if takes(schema, text, form)]
    assert taken == {"none": [none], "canonical": [canonical], "flexible": [none, canonical, wild]}[whitespace]
    for wrong in (f" {none}", f"{none} ", '{   "a":{}}'):
        assert not takes(schema, wrong, form)


@pytest.mark.parametrize(
    ("schema", "places"),
    [
        (True, [("", None)]),
        ({"minimum": 3}, [("/minimum", "minimum")]),
        ({"type": "number", "minimum": 3}, [("/minimum", "minimum")]),
        ({"type": "integer", "multipleOf": 3}, [("/multipleOf", "multipleOf")]),
        ({"type": "integer", "minimum": 3, "maximum": 2}, [("/minimum", "minimum")]),
        ({"type": "array"}, [("", None)]),
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, [("/uniqueItems", "uniqueItems")]),
        ({"type": "array", "items": {"type": "null"}, "contains": {"type": "null"}}, [("/contains", "contains")]),
        ({"type": "object"}, [("", None)]),
        (closed({"a": {}}), [("/properties/a", None)]),
        (closed({"a": False}, "a"), [("/properties/a", "false")]),
        ({"type": "string", "pattern": "^a", "minLength": 2}, [("/minLength", "minLength")]),
        ({"type": "string", "pattern": "(?=a)"}, [("/pattern", "pattern")]),
        ({"type": "string", "maxLength": 100_000}, [("/maxLength", "maxLength")]),
        ({"type": "string", "not": {"pattern": "a"}}, [("/not", "not")]),
        ({"$defs": {"a": closed({"b": {"$ref": "#/$defs/a"}})}, "$ref": "#/$defs/a"}, [("/$defs/0", None)]),
        ({**closed({"a": {"type": "null"}}), "minProperties": 1}, [("/minProperties", "minProperties")]),
    ],
)
def test_what_is_not_enforced_is_refused_by_keyword(schema: Any, places: list[tuple[str, str | None]]) -> None:
    assert refusals(schema) == places


def test_what_grows_beyond_measure_is_refused_and_quickly() -> None:
    schema: dict[str, Any] = {"type": "null"}
    definitions = {}
    for n in range(40):
        definitions[f"a{n}"] = closed({"x": schema, "y": schema})
        schema = {"$ref": f"#/$defs/a{n}"}
    _, unsupported = written({"$defs": definitions, **schema})
    assert unsupported and "too large" in unsupported[0].reason
    _, unsupported = written(closed({f"p{n}": {"type": "integer"} for n in range(400)}))
    assert [item.keyword for item in unsupported] == ["properties"]
