"""What was asked for: a kind of constraint and its canonical text."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from constrain.errors import InvalidGrammarError, InvalidInputError
from constrain.regex import canonical_regex

Kind = Literal["json_schema", "json_object", "regex", "choice", "ebnf", "lark", "structural_tag"]
Whitespace = Literal["none", "canonical", "flexible"]
KeyOrder = Literal["schema", "free"]
Numbers = Literal["canonical", "any"]
Escapes = Literal["short", "any"]
Profile = Literal["default", "wide"]
OnUnsupported = Literal["error", "ignore"]


@dataclass(frozen=True, slots=True)
class JsonForm:
    """How JSON may be written where the schema leaves it open.

    ``whitespace``: ``"none"``; ``"canonical"``, that of ``json.dumps`` (``", "`` and ``": "``); or ``"flexible"``: up
    to ``max_whitespace`` characters of space, tab or line break wherever JSON allows them, so that no output can
    run away in blanks. White space stands inside the value only, never before or behind it.

    ``key_order``: ``"schema"``, the properties that a schema lists come in its order and before all others; or
    ``"free"``, in any order.

    ``numbers``: ``"canonical"``, integers without fraction or exponent, and no exponent under a bound; or ``"any"``:
    ``1.0`` and ``1e0`` are integers, too.

    ``escapes``: ``"short"``, those of two characters, and others only for what cannot be written without; or ``"any"``:
    also ``\\u0041`` where ``A`` would do, but for names and values that the schema lists and for strings that a pattern
    or a format holds.

    A form that a library cannot write exactly is written with its checks (``backend="auto"``), or refused by name.
    """

    whitespace: Whitespace = "flexible"
    max_whitespace: int = 32
    key_order: KeyOrder = "schema"
    numbers: Numbers = "canonical"
    escapes: Escapes = "short"

    @classmethod
    def of_profile(cls, profile: Profile) -> "JsonForm":
        """``"default"``; or ``"wide"``, in which keys come in any order and numbers and strings in any form of JSON.

        A model that was trained to write JSON in its own way finds ``"wide"`` easier, and pays for it at every step.
        """
        if profile not in get_args(Profile):
            raise InvalidInputError(f"profile={profile!r}: want one of {get_args(Profile)}")
        return cls(key_order="free", numbers="any", escapes="any") if profile == "wide" else cls()

    def __post_init__(self) -> None:
        if self.whitespace not in get_args(Whitespace):
            raise InvalidInputError(f"whitespace={self.whitespace!r}: want one of {get_args(Whitespace)}")
        if not 1 <= self.max_whitespace <= 1000:
            raise InvalidInputError(f"max_whitespace={self.max_whitespace}: want 1 to 1000")
        if self.key_order not in get_args(KeyOrder):
            raise InvalidInputError(f"key_order={self.key_order!r}: want one of {get_args(KeyOrder)}")
        if self.numbers not in get_args(Numbers):
            raise InvalidInputError(f"numbers={self.numbers!r}: want one of {get_args(Numbers)}")
        if self.escapes not in get_args(Escapes):
            raise InvalidInputError(f"escapes={self.escapes!r}: want one of {get_args(Escapes)}")


@dataclass(frozen=True, slots=True)
class GrammarSpec:
    """A constraint, independent of any vocabulary or backend. Hashable: it is the key of every cache.

    Make one with the functions of this module or with :func:`constrain.as_grammar_spec`; they check and normalise
    ``text``, whose meaning depends on ``kind``:

    ==============  =======================================================================================
    json_schema     the schema, as ``json.dumps`` writes the parsed document (order of keys kept)
    json_object     empty: any JSON object
    regex           a pattern in Python's ``re`` syntax that the whole output matches (``re.fullmatch``)
    choice          a JSON array of distinct strings
    ebnf            a grammar in GBNF, the EBNF of llama.cpp and xgrammar; it starts at ``root``
    lark            a grammar in llguidance's Lark syntax; it starts at ``start``
    structural_tag  free text with tagged regions (:func:`constrain.tags.tagged_text`), or an xgrammar structural tag
    ==============  =======================================================================================

    The rest is for JSON: how it is written; whether ``format`` decides; and whether a keyword that the backend cannot
    enforce is an error, or left out of what is enforced and checked.
    """

    kind: Kind
    text: str
    form: JsonForm | None = None
    assert_formats: bool = False
    unsupported: OnUnsupported = "error"

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f"GrammarSpec({self.kind}, {text!r})"


def json_schema(
    schema: Mapping[str, Any] | bool | str,
    *,
    form: JsonForm | None = None,
    profile: Profile | None = None,
    documents: Any = None,
    dialect: Any = None,
    assert_formats: bool | None = None,
    unsupported: OnUnsupported = "error",
) -> GrammarSpec:
    """A JSON value that is valid under ``schema``, a parsed document or its JSON text.

    form, profile:
        How the JSON is written: a ``JsonForm``, or the name of one (``JsonForm.of_profile``).
    documents:
        What references may lead to besides, ``{uri: schema}`` or a ``constrain.schema.Documents``; nothing is fetched.
    dialect:
        The draft of a schema without ``$schema``, one of ``constrain.schema.DIALECTS``; 2020-12 by default.
    assert_formats:
        True: ``format`` decides, too. None: as the draft says, for which it is an annotation in every draft.
    unsupported:
        ``"error"`` refuses a schema with a keyword that the backend cannot enforce; ``"ignore"`` is your word that such
        keywords may go: neither the grammar nor the final check knows them, and the report lists them.

    Raises :class:`~constrain.errors.InvalidSchemaError` for what is not JSON or not a schema, with the place.
    """
    from constrain.schema import DRAFT_2020_12, parse_schema

    if unsupported not in get_args(OnUnsupported):
        raise InvalidInputError(f"unsupported={unsupported!r}: want one of {get_args(OnUnsupported)}")
    if form is not None and profile is not None:
        raise InvalidInputError("give form or profile, not both: a profile is a form by name")
    form = form or JsonForm.of_profile(profile or "default")
    data = parse_schema(schema, documents=documents, dialect=dialect or DRAFT_2020_12)
    return GrammarSpec("json_schema", _dumps(data), form, bool(assert_formats), unsupported)


def json_object(*, form: JsonForm | None = None) -> GrammarSpec:
    """Any JSON object."""
    return GrammarSpec("json_object", "", form or JsonForm())


def regex(pattern: str) -> GrammarSpec:
    """A text that matches ``pattern`` as a whole, in the sense of ``re.fullmatch``.

    Raises ``InvalidGrammarError`` with the position where the pattern does not parse, and
    ``UnsupportedGrammarError`` for what no automaton can do (look-arounds, back-references, anchors in the middle).
    """
    return GrammarSpec("regex", canonical_regex(pattern))


def choice(choices: Sequence[str]) -> GrammarSpec:
    """Exactly one of ``choices``: distinct, non-empty strings; their order does not matter to the result."""
    if isinstance(choices, str) or not all(isinstance(item, str) for item in choices):
        raise InvalidGrammarError(
            f"choices must be a list of strings, not {choices!r}; for other values use Literal[...]"
        )
    if not choices:
        raise InvalidGrammarError("the list of choices is empty: nothing could be generated; give at least one string")
    if "" in choices:
        raise InvalidGrammarError(f"choice {list(choices).index('')} is the empty string, which no token writes")
    return GrammarSpec("choice", _dumps(list(dict.fromkeys(choices))))


def ebnf(text: str) -> GrammarSpec:
    """A context-free grammar in GBNF (``root ::= "yes" | "no"``); the output is a sentence of ``root``."""
    return GrammarSpec("ebnf", _not_blank("ebnf", text))


def lark(text: str) -> GrammarSpec:
    """A grammar in llguidance's dialect of Lark; the output is a sentence of ``start``."""
    return GrammarSpec("lark", _not_blank("lark", text))


def structural_tag(tag: Mapping[str, Any] | str) -> GrammarSpec:
    """Free text with constrained regions, described as an xgrammar structural tag (a mapping or its JSON text).

    Every backend reads the format ``triggered_tags``, xgrammar its other formats, too; ``constrain.tags.tagged_text``
    makes a tag of specs of any kind.
    """
    return GrammarSpec("structural_tag", _dumps(_parse_json(tag) if isinstance(tag, str) else tag))


def _not_blank(kind: str, text: str) -> str:
    if not isinstance(text, str) or not text.strip():
        raise InvalidGrammarError(f"the {kind} grammar is empty; give its rules as text, not {text!r}")
    return text


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as exc:
        raise InvalidGrammarError(f"not JSON: {exc}", position=exc.pos) from exc


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidGrammarError(f"not JSON data: {exc}") from exc
