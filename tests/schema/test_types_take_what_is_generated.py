"""Every text that the grammar of a type lets through is a value of the type, or the type is refused at the door."""

import collections
import dataclasses
import datetime as dt
import enum
import fractions
import functools
import importlib.util
import ipaddress
import json
import pathlib
import random
import re
import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import pydantic
import pytest
import torch
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    RootModel,
    StringConstraints,
    Tag,
    TypeAdapter,
)
from pydantic.types import PaymentCardNumber
from typing_extensions import TypedDict

from constrain.backends.llguidance import LLGuidanceBackend
from constrain.errors import InvalidGrammarError, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import JsonForm
from constrain.schema import as_constraint
from constrain.schema.json_text import unique_keys
from constrain.vocabulary import Vocabulary

STOP = 0
TOKENS = [b"", *(bytes([byte]) for byte in range(0x20, 0x7F)), "é".encode(), "中".encode(), "\U0001f600".encode()]
CLOSING = [TOKENS.index(token) for token in (b'"', b"}", b"]")]
NUM_TEXTS = 25


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Corner(enum.Enum):
    TOP = (0, 1)
    BOTTOM = (1, 0)


class Mixed(enum.Enum):
    A = "a"
    B = 2
    C = 2.5


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)
    value: int = Field(alias="theValue")


class ByAlias(BaseModel):
    value: int = Field(alias="theValue")
    other: int = Field(default=1, validation_alias=AliasChoices(AliasPath("a", 0), "other_name"))


class OneStep(BaseModel):
    value: int = Field(validation_alias=AliasPath("top"))


class ByPath(BaseModel):
    value: int = Field(validation_alias=AliasPath("outer", "inner"))


class Holder(BaseModel):
    by_name: ByName
    when: dt.date | None
    urls: list[pydantic.HttpUrl] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    number: int
    ratio: float
    day: dt.date
    key: uuid.UUID
    raw: bytes
    exact: Decimal
    path: pathlib.Path
    color: Color
    pair: tuple[int, str]
    length: dt.timedelta


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, str_min_length=1)
    name: str
    code: Annotated[str, Field(pattern="^[A-Z ]+$")]


class HexBytes(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    raw: bytes


class SixtyFourBytes(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    raw: bytes


class Finite(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)
    ratio: float
    share: Annotated[float, Field(gt=0)]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Fish(BaseModel):
    kind: Literal["fish", "eel"]


class Pet(BaseModel):
    animal: Annotated[
        Annotated[Cat | Dog, Field(discriminator="kind")] | Fish,
        Field(discriminator="kind"),
    ]


class AliasedCat(BaseModel):
    kind: Literal["cat"] = Field(default="cat", alias="type")


class AliasedDog(BaseModel):
    kind: Literal["dog"] = Field(default="dog", alias="type")
    name: str


class AliasedPet(BaseModel):
    animal: Annotated[AliasedCat | AliasedDog, Field(discriminator="kind")]


class Tree(BaseModel):
    value: uuid.UUID
    children: "dict[dt.date, Tree]" = {}


@dataclasses.dataclass
class Counted:
    name: str
    count: int = dataclasses.field(init=False, default=0)


class Pair(NamedTuple):
    left: dt.time
    right: Decimal = Decimal(0)


class Row(TypedDict, total=False):
    id: int
    when: pydantic.NaiveDatetime


class Names(RootModel[list[Color]]):
    pass


def book(city: str, day: dt.date, *, nights: Annotated[int, Field(ge=1)] = 1) -> None: ...


CARRIED: list[Any] = [
    pydantic.HttpUrl,
    pydantic.AnyUrl,
    pydantic.AnyHttpUrl,
    pydantic.FileUrl,
    pydantic.WebsocketUrl,
    pydantic.PostgresDsn,
    pydantic.RedisDsn,
    pydantic.MongoDsn,
    pydantic.KafkaDsn,
    pydantic.AmqpDsn,
    Annotated[pydantic.AnyUrl, pydantic.UrlConstraints(max_length=30, allowed_schemes=["https", "git+ssh"])],
    dt.date,
    dt.time,
    dt.datetime,
    dt.timedelta,
    pydantic.NaiveDatetime,
    pydantic.AwareDatetime,
    ByName,
    ByAlias,
    OneStep,
    Holder,
    Strict,
    Stripped,
    HexBytes,
    SixtyFourBytes,
    Finite,
    Pet,
    AliasedPet,
    Tree,
    Counted,
    Pair,
    Row,
    Names,
    book,
    complex,
    fractions.Fraction,
    int,
    pydantic.StrictInt,
    Annotated[int, Field(ge=5, lt=2000)],
    Annotated[int, Field(multiple_of=7)],
    float,
    pydantic.StrictFloat,
    pydantic.FiniteFloat,
    Annotated[float, Field(gt=0, le=1)],
    Annotated[float, Field(multiple_of=0.5)],
    Decimal,
    Annotated[Decimal, Field(ge=0)],
    Annotated[Decimal, Field(max_digits=5)],
    Annotated[Decimal, Field(max_digits=5, ge=0)],
    Annotated[Decimal, Field(max_digits=6, decimal_places=2, ge=1, lt=500)],
    Annotated[Decimal, Field(decimal_places=2, gt=0)],
    Annotated[Decimal, Field(max_digits=3, decimal_places=0, gt=-20)],
    pydantic.condecimal(max_digits=4, decimal_places=2),
    Annotated[Decimal, Field(max_digits=2, decimal_places=2, gt=0)],
    Annotated[Decimal, Field(decimal_places=2, gt=Decimal("1.005"), lt=2)],
    Annotated[Decimal, Field(max_digits=4, decimal_places=2, ge=0.1, lt=0.3)],
    Annotated[Decimal, Field(ge=0.1, lt=0.3)],
    Annotated[Decimal, Field(ge=-(10**20), gt=5)],
    pydantic.ByteSize,
    Annotated[pydantic.ByteSize, Field(ge=10)],
    bool,
    str,
    Annotated[str, Field(pattern=re.compile("^[a-c]+$"))],
    Annotated[str, StringConstraints(strip_whitespace=True, min_length=2, max_length=5)],
    Annotated[str, StringConstraints(to_upper=True, pattern="^[a-c]{2}$")],
    bytes,
    Annotated[bytes, Field(min_length=2, max_length=5)],
    pathlib.Path,
    uuid.UUID,
    pydantic.UUID1,
    pydantic.UUID4,
    pydantic.UUID7,
    ipaddress.IPv4Address,
    ipaddress.IPv4Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Address,
    ipaddress.IPv6Network,
    ipaddress.IPv6Interface,
    pydantic.IPvAnyAddress,
    pydantic.IPvAnyNetwork,
    pydantic.IPvAnyInterface,
    pydantic.SecretStr,
    Annotated[pydantic.SecretStr, Field(min_length=3)],
    pydantic.SecretBytes,
    pydantic.Secret[dt.date],
    pydantic.Base64Str,
    pydantic.Base64Bytes,
    pydantic.Base64UrlStr,
    pydantic.Base64UrlBytes,
    Color,
    Level,
    Mixed,
    Literal["a", 1, None],
    Annotated[dict[str, int], Field(min_length=1)],
    dict[int, bool],
    dict[Annotated[int, Field(ge=5)], bool],
    dict[Annotated[int, Field(ge=195)], bool],
    dict[Annotated[int, Field(gt=0, le=3)], bool],
    dict[float, bool],
    dict[Decimal, bool],
    dict[Annotated[Decimal, Field(ge=0)], bool],
    dict[bool, bool],
    dict[dt.date, bool],
    dict[dt.datetime, bool],
    dict[dt.timedelta, bool],
    dict[Color, bool],
    dict[Literal["a", "b"], bool],
    dict[Literal["a", "b"] | Color | int, bool],
    dict[uuid.UUID, bool],
    dict[pydantic.UUID4, bool],
    dict[Annotated[str, Field(min_length=2, max_length=4)], bool],
    dict[Annotated[str, Field(pattern="^[a-c]+$")], bool],
    dict[ipaddress.IPv4Address, bool],
    dict[pydantic.AnyUrl, bool],
    Mapping[dt.date, int],
    collections.OrderedDict[Color, int],
    collections.defaultdict[int, list[int]],
    collections.Counter[str],
    collections.Counter[Color],
    Sequence[dt.date],
    Iterable[int],
    collections.deque[int],
    tuple[int, ...],
    list[pydantic.HttpUrl | None],
    dict[str, list[dt.timedelta]],
    int | pydantic.UUID4 | None,
    pydantic.JsonValue,
    Any,
]

REFUSED: list[tuple[Any, str]] = [
    (pydantic.PastDate, "PastDate depends on the clock"),
    (pydantic.FutureDate, "FutureDate depends on the clock"),
    (pydantic.PastDatetime, "PastDatetime depends on the clock"),
    (pydantic.FutureDatetime, "FutureDatetime depends on the clock"),
    (Annotated[dt.date, Field(ge=dt.date(2020, 1, 1))], "bounds of a date"),
    (Annotated[dt.timedelta, Field(gt=dt.timedelta(0))], "bounds of a timedelta"),
    (pydantic.Json, "JSON inside a string"),
    (pydantic.Json[list[int]], "JSON inside a string"),
    (type[int], r"type\[\.\.\.\] takes a class"),
    (ByPath, "ByPath.value: an AliasPath"),
    (list[ByPath], "ByPath.value: an AliasPath"),
    (Corner, "Corner does not take the JSON value"),
    (Annotated[Decimal, Field(max_digits=5, gt=1)], "bounded Decimal"),
    (Literal[Color.RED], "Literal does not take the JSON value"),
    (dict[pydantic.HttpUrl, int], "no one pattern"),
    (Annotated[int | str, Field(ge=3)], "ge=3 of this type"),
    (Annotated[pydantic.Base64Str, Field(min_length=3)], "min_length of what base64"),
    (dict[Annotated[float, Field(gt=0)], int], "bounds of keys"),
    (pydantic.FilePath, "only the file system"),
    (pydantic.DirectoryPath, "only the file system"),
    (pydantic.NewPath, "only the file system"),
    (re.Pattern, "regular expressions"),
    (ZoneInfo, "time zones"),
    (pydantic.ImportString, "ImportString"),
    (pydantic.ImportString[Callable[[int], int]], "ImportString"),
    (PaymentCardNumber, "check digit"),
    (Hashable, "abstract class"),
    (Annotated[str, Field(pattern=re.compile("a b", re.VERBOSE))], "flags"),
    (dict[tuple[int, str], int], "keys of JSON objects are text"),
    (dict[None, int], "keys of JSON objects are text"),
    (dict[Level, int], "keys of JSON objects are text"),
    (dict[Literal[1, 2], int], "keys of JSON objects are text"),
    (dict[Annotated[int, Field(le=5)], int], "bounds of keys"),
    (
        Annotated[
            Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")],
            Discriminator(lambda value: "cat" if "lives" in value else "dog"),
        ],
        "callable Discriminator",
    ),
]


class Texts:
    """Random finished texts of a grammar, seeded; texts that go on for too long are given up."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary(TOKENS, stop_token_ids=[STOP])
        self.backend = LLGuidanceBackend(self.vocabulary)
        self._bitmask = torch.zeros(1, self.vocabulary.num_mask_words, dtype=torch.int32)

    def of(self, compiled: CompiledGrammar, count: int) -> list[str]:
        rng = random.Random(7)
        texts = [self._one(compiled, rng, haste=rng.choice((4, 20, 60))) for _ in range(count)]
        return [text for text in texts if text is not None]

    def _one(self, compiled: CompiledGrammar, rng: random.Random, haste: int) -> str | None:
        grammar = compiled.start()
        token_ids: list[int] = []
        while len(token_ids) < 400:
            grammar.fill_bitmask(self._bitmask, 0)
            words = self._bitmask[0].tolist()
            legal = [token for token in range(len(TOKENS)) if words[token // 32] >> token % 32 & 1]
            late = len(token_ids) > haste or rng.random() < 0.1
            if STOP in legal and (late or legal == [STOP]):
                return b"".join(TOKENS[token] for token in token_ids).decode()
            ends = [token for token in CLOSING if token in legal] if late else []
            choices = ends[:1] or [token for token in legal if token != STOP]
            if not choices:
                return None
            token_ids.append(rng.choice(choices))
            assert grammar.accept(token_ids[-1:]) == 1
        return None


@pytest.fixture(scope="module")
def texts() -> Texts:
    return Texts()


def is_known_limit(text: str) -> bool:
    """A key of a dict written twice, or an exponent that no number has: what the backend does for any schema."""
    try:
        json.loads(text, object_pairs_hook=unique_keys)
    except ValueError:
        return True
    return re.search(r"[0-9][eE][+-]?[0-9]{4}", text) is not None


def check(texts: Texts, type_: Any) -> None:
    constraint = as_constraint(type_, form=JsonForm(whitespace="none"))
    assert constraint.grammar_spec is not None
    compiled = texts.backend.compile(constraint.grammar_spec)
    found = [text for text in texts.of(compiled, NUM_TEXTS) if not is_known_limit(text)]
    assert len(found) >= 5
    for text in found:
        constraint.decode(text)


@pytest.mark.parametrize("type_", CARRIED, ids=lambda type_: str(type_).partition(" at 0x")[0])
def test_every_text_of_its_grammar_is_a_value_of_the_type(texts, type_):
    check(texts, type_)


def test_so_is_every_text_of_all_of_them_in_one_model(texts):
    T = TypeVar("T")
    kinds: list[Callable[[T], Any]] = [lambda t: t, lambda t: list[t], lambda t: t | None]
    types = [type_ for type_ in CARRIED if isinstance(type_, type) and type_ is not Any]
    for start in range(0, len(types), 8):
        fields = {f"f{index}": (kinds[index % 3](t), ...) for index, t in enumerate(types[start : start + 8])}
        check(texts, pydantic.create_model("All", **fields))


@pytest.mark.parametrize(
    ("type_", "keyword"),
    [
        (set[int], "uniqueItems"),
        (frozenset[str], "uniqueItems"),
        (Annotated[dict[str, int], Field(min_length=2)], "minProperties"),
    ],
)
def test_what_only_the_backend_cannot_do_is_refused_by_its_keyword(texts, type_, keyword):
    constraint = as_constraint(type_)
    with pytest.raises(UnsupportedGrammarError, match=keyword):
        texts.backend.compile(constraint.grammar_spec)


@pytest.mark.skipif(importlib.util.find_spec("email_validator") is None, reason="email-validator is not installed")
def test_so_is_every_email(texts):
    check(texts, pydantic.EmailStr)


@pytest.mark.skipif(importlib.util.find_spec("email_validator") is not None, reason="email-validator is installed")
def test_a_type_that_wants_another_package_says_so():
    with pytest.raises(InvalidGrammarError, match="EmailStr has no JSON schema: email-validator is not installed"):
        as_constraint(pydantic.EmailStr)


@pytest.mark.parametrize(("type_", "reason"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_no_grammar_tells_is_refused_with_the_field(type_, reason):
    with pytest.raises(InvalidGrammarError, match=reason):
        as_constraint(type_)

    def call(one: int, other: type_): ...

    model = pydantic.create_model("Outer", field=(list[type_], ...))
    for outer in (model, call, type_ | None if not isinstance(type_, str) else type_, TypeAdapter(type_)):
        with pytest.raises(InvalidGrammarError, match=reason):
            as_constraint(outer)


def test_the_field_of_a_refused_part_is_named():
    class Person(BaseModel):
        born: pydantic.PastDate | None

    with pytest.raises(InvalidGrammarError, match=r"People.*Person.born: PastDate depends"):
        as_constraint(pydantic.create_model("People", all=(dict[str, Person], ...)))
    with pytest.raises(InvalidGrammarError, match=r"call.*other: PastDate"):
        as_constraint(functools.partial(call, 1))


def call(one: int, other: pydantic.PastDate) -> None: ...


@pytest.mark.parametrize(
    ("type_", "yes"),
    [
        (pydantic.HttpUrl, "https://docs.python.org/3/library/re.html?highlight=a%20b#re.sub"),
        (pydantic.HttpUrl, "http://localhost:8000/"),
        (pydantic.PostgresDsn, "postgresql+asyncpg://user:pass@db.example.com:5432/app"),
        (pydantic.FileUrl, "file:///etc/hosts"),
        (dt.timedelta, "P3DT4H30M5.5S"),
        (pydantic.NaiveDatetime, "2024-02-29T23:59:59.999"),
        (ipaddress.IPv4Network, "10.20.128.0/17"),
        (ipaddress.IPv4Network, "0.0.0.0/0"),
        (ipaddress.IPv6Network, "2001:db8:ab00::/40"),
        (ipaddress.IPv6Network, "fe80::/12"),
        (pydantic.UUID4, "F47AC10B-58cc-4372-a567-0e02b2c3d479"),
        (pydantic.Base64Str, "SGVsbG8sIHdvcmxkIQ=="),
        (pydantic.Base64Bytes, "/9j/4AAQ"),
        (complex, "-1.5+2j"),
        (fractions.Fraction, "-3/4"),
        (pydantic.SecretStr, "päss word"),
    ],
)
def test_common_texts_are_among_them(texts, type_, yes):
    constraint = as_constraint(type_, form=JsonForm(whitespace="none"))
    constraint.decode(json.dumps(yes, ensure_ascii=False))
    if yes.isascii():
        grammar = texts.backend.compile(constraint.grammar_spec).start()
        written = [TOKENS.index(bytes([byte])) for byte in json.dumps(yes).encode()]
        assert grammar.accept(written) == len(written)
