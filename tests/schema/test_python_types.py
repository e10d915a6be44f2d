"""From types to schemas and back to values."""

import enum
import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, TypeAdapter, field_validator
from typing_extensions import TypedDict

from constrain.errors import InvalidGrammarError, InvalidInputError, InvalidSchemaError, InvalidValueError
from constrain.grammar_spec import JsonForm, choice, json_object, json_schema, regex
from constrain.schema import as_constraint, as_grammar_spec, parse_schema

T = TypeVar("T")


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Tree(BaseModel):
    value: int
    children: list["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: Annotated[str, Field(min_length=1, pattern="^[A-Z]")]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Page(BaseModel, Generic[T]):
    items: list[T]


class Renamed(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    type_: str = Field(alias="type", description="What it is")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Empty(BaseModel):
    pass


@dataclass
class Settings:
    name: str
    tags: list[str] = field(default_factory=list)


class Row(TypedDict):
    id: int
    label: str


class Pair(NamedTuple):
    left: int
    right: str


class Names(RootModel[list[str]]):
    pass


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def is_even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Point, '{"x": 1}', Point(x=1)),
        (Tree, '{"value":1,"children":[{"value":2}]}', Tree(value=1, children=[Tree(value=2)])),
        (Owner, '{"pet":{"kind":"dog","name":"Rex"}}', Owner(pet=Dog(name="Rex"))),
        (Page[Point], '{"items":[{"x":1}]}', Page[Point](items=[Point(x=1)])),
        (Renamed, '{"type":"a"}', Renamed(type="a")),
        (Open, '{"a":1,"b":2}', Open(a=1, b=2)),
        (Empty, "{}", Empty()),
        (Settings, '{"name":"a"}', Settings("a")),
        (Row, '{"id":1,"label":"a"}', {"id": 1, "label": "a"}),
        (Pair, '[1,"a"]', Pair(1, "a")),
        (Names, '["a"]', Names(["a"])),
        (Color, '"red"', Color.RED),
        (Literal["a", 1, None], "1", 1),
        (int | None, "null", None),
        (int | str, '"1"', "1"),
        (list[int], "[1,2]", [1, 2]),
        (set[int], "[1,2]", {1, 2}),
        (tuple[int, str], '[1,"a"]', (1, "a")),
        (tuple[int, ...], "[1,2]", (1, 2)),
        (dict[str, Point], '{"a":{"x":1}}', {"a": Point(x=1)}),
        (dict[int, str], '{"1":"a"}', {1: "a"}),
        (dict[Color, int], '{"red":1}', {Color.RED: 1}),
        (Decimal, "1.10", Decimal("1.10")),
        (Annotated[Decimal, Field(max_digits=5, decimal_places=2)], '"123.45"', Decimal("123.45")),
        (Annotated[int, Field(gt=1, le=5)], "5", 5),
        (date, '"2024-02-29"', date(2024, 2, 29)),
        (datetime, '"2024-01-02T03:04:05"', datetime(2024, 1, 2, 3, 4, 5)),
        (timedelta, '"P1DT2H"', timedelta(days=1, hours=2)),
        (uuid.UUID, f'"{uuid.UUID(int=1)}"', uuid.UUID(int=1)),
        (bytes, '"a"', b"a"),
        (Any, '{"a":[1]}', {"a": [1]}),
        (TypeAdapter(list[int]), "[1]", [1]),
        (str, '"a"', "a"),
        (float, "1.5", 1.5),
        (bool, "true", True),
    ],
    ids=str,
)
def test_a_type_gives_a_valid_schema_and_its_own_value_back(type_, text, value):
    constraint = as_constraint(type_)
    assert constraint.grammar_spec is not None and constraint.grammar_spec.kind == "json_schema"
    assert parse_schema(constraint.grammar_spec.text) == json.loads(constraint.grammar_spec.text)
    decoded = constraint.decode(text)
    assert decoded == value and type(decoded) is type(value)


@pytest.mark.parametrize("type_", [Point, Settings, Row, Empty, Page[Point], Cat])
def test_objects_that_drop_extras_are_closed(type_):
    text = as_grammar_spec(type_).text
    assert text.count('"additionalProperties":false') == text.count('"type":"object"')


def test_objects_that_keep_extras_stay_open():
    assert '"additionalProperties":true' in as_grammar_spec(Open).text
    assert '"additionalProperties":{"$ref"' in as_grammar_spec(dict[str, Point]).text


def test_properties_that_are_called_like_keywords_are_left_alone():
    class Odd(BaseModel):
        properties: int
        discriminator: str = Field(alias="$ref")

    schema = json.loads(as_grammar_spec(Odd).text)
    assert schema["additionalProperties"] is False
    assert schema["properties"].keys() == {"properties", "$ref"}
    assert as_constraint(Odd).decode('{"properties":1,"$ref":"x"}').discriminator == "x"


def test_the_tag_of_a_discriminated_union_is_required_and_the_branches_are_alternatives():
    schema = json.loads(as_grammar_spec(Owner).text)
    assert "discriminator" not in json.dumps(schema) and "oneOf" not in json.dumps(schema)
    assert "kind" in schema["$defs"]["Cat"]["required"]
    with pytest.raises(InvalidValueError):
        as_constraint(Owner).decode('{"pet":{"lives":3}}')


def test_descriptions_and_the_order_of_fields_are_kept():
    schema = json.loads(as_grammar_spec(Renamed).text)
    assert schema["properties"]["type"]["description"] == "What it is"
    assert list(json.loads(as_grammar_spec(Dog).text)["properties"]) == ["kind", "name"]


@pytest.mark.parametrize(
    ("digits", "places", "yes", "no"),
    [
        (5, 2, ["0", "-123.45", "9.5"], ["1234", "1.234", "01", "1."]),
        (2, 2, ["0.25", "-0.5"], ["1.25", "0"]),
        (3, 0, ["123"], ["1.0"]),
    ],
)
def test_the_digits_of_a_decimal_are_limited_by_a_pattern(digits, places, yes, no):
    constraint = as_constraint(Annotated[Decimal, Field(max_digits=digits, decimal_places=places)])
    for text in yes:
        assert constraint.decode(f'"{text}"') == Decimal(text)
    for text in no:
        with pytest.raises(InvalidValueError):
            constraint.decode(f'"{text}"')


def test_a_rule_of_the_type_itself_is_told_from_a_bug_of_ours():
    with pytest.raises(InvalidValueError, match="rule of the type itself"):
        as_constraint(Even).decode('{"n":3}')
    with pytest.raises(InvalidValueError, match="bug of constrain"):
        as_constraint(Even).decode('{"n":"x"}')


@pytest.mark.parametrize("type_", [Callable[[int], int], type("Thing", (), {}), re, 3, Point(x=1), BaseException()])
def test_what_has_no_schema_is_refused_by_name(type_):
    with pytest.raises(InvalidGrammarError, match="has no JSON schema"):
        as_constraint(type_)


def test_a_field_without_a_schema_names_its_model():
    class Holder(BaseModel):
        action: Callable[[int], int]

    with pytest.raises(InvalidGrammarError, match="Holder"):
        as_constraint(Holder)


def test_a_schema_gives_plain_data():
    for schema in ({"type": "array"}, '{"type":"array"}', json_schema({"type": "array"})):
        assert as_constraint(schema).decode("[1, 2.5]") == [1, 2.5]
    with pytest.raises(InvalidSchemaError) as caught:
        as_constraint({"type": "arrray"})
    assert caught.value.pointer == "/type"
    with pytest.raises(InvalidValueError):
        as_constraint(json_object()).decode("[]")


@pytest.mark.parametrize("text", ["[a-z]+", "yes|no", "", "true", "42", "root ::= 'a'"])
def test_a_bare_string_is_refused_with_what_to_write(text):
    with pytest.raises(InvalidGrammarError, match=r"regex\(...\), choice"):
        as_constraint(text)


def test_a_pattern_keeps_its_flags():
    constraint = as_constraint(re.compile("a.b", re.IGNORECASE | re.DOTALL))
    assert constraint.decode("A\nB") == "A\nB"
    assert as_grammar_spec(re.compile("(?i)ab")) == as_grammar_spec(re.compile("ab", re.I)) == regex("(?i)ab")
    with pytest.raises(InvalidGrammarError, match="bytes"):
        as_constraint(re.compile(b"a"))
    with pytest.raises(InvalidValueError, match="bug"):
        constraint.decode("xyz")


def test_a_list_of_strings_is_a_choice_and_of_anything_else_an_error():
    assert as_grammar_spec(["a", "b"]) == as_grammar_spec(("a", "b")) == choice(["a", "b"])
    assert as_constraint(["a", "b"]).decode("b") == "b"
    with pytest.raises(InvalidValueError, match="bug"):
        as_constraint(["a", "b"]).decode("c")
    for items in ([], ["a", 1], [int]):
        with pytest.raises(InvalidGrammarError):
            as_constraint(items)


def test_none_is_free_text():
    assert as_constraint(None).grammar_spec is None
    assert as_constraint(None).decode("x") == "x"
    with pytest.raises(InvalidGrammarError, match="free text"):
        as_grammar_spec(None)


def test_the_form_is_passed_on():
    form = JsonForm(whitespace="none")
    assert as_grammar_spec(Point, form=form).form == form == as_grammar_spec({"type": "object"}, form=form).form


def book(city: str, nights: int = 1, *, price: Annotated[float, Field(gt=0)] = 10.0, self_: "bool" = False) -> None:
    """Book a room."""
    raise AssertionError("never called")


def test_a_function_gives_its_arguments():
    constraint = as_constraint(book)
    assert constraint.decode('{"city":"Bern"}') == {"city": "Bern", "nights": 1, "price": 10.0, "self_": False}
    assert list(constraint.decode('{"city":"Bern","price":2.5}')) == ["city", "nights", "price", "self_"]
    assert "Book a room." in constraint.grammar_spec.text
    assert '"additionalProperties":false' in constraint.grammar_spec.text
    assert as_constraint(partial(book, nights=3)).decode('{"city":"Bern"}')["nights"] == 3
    with pytest.raises(InvalidValueError):
        constraint.decode('{"nights":2}')


def test_the_name_of_an_argument_may_be_anything():
    def call(schema: int, model_config: str, _private: int, json: list[Point]): ...

    value = as_constraint(call).decode('{"schema":1,"model_config":"a","_private":2,"json":[{"x":1}]}')
    assert value == {"schema": 1, "model_config": "a", "_private": 2, "json": [Point(x=1)]}


def test_arguments_without_names_are_refused():
    def positional(a: int, /): ...
    def variadic(*args: int): ...
    def keywords(**options: int): ...
    def unknown(a: "Missing"): ...  # noqa: F821

    for function in (positional, variadic, keywords, unknown, print):
        with pytest.raises(InvalidInputError, match="argument"):
            as_constraint(function)
