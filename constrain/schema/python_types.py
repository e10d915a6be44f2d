"""From what a caller passes as a constraint (type, schema, pattern, choices, function) to a spec and a decoder."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_origin

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from constrain.errors import InvalidGrammarError, InvalidSchemaError
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, json_schema, regex
from constrain.schema.decoders import PlainDecoder, TypeDecoder
from constrain.schema.functions import Complete, arguments_adapter
from constrain.schema.pydantic_schema import type_schema


@dataclass(frozen=True, slots=True)
class Constraint:
    """What to generate and how to read it.

    ``grammar_spec`` is None for free text. ``decode`` turns a finished text into the value, or raises
    :class:`~constrain.errors.InvalidValueError`. A ``decode`` with a method ``decode_tokens(token_ids, vocabulary)`` is
    given the output's tokens instead, since a text does not show special tokens.
    """

    grammar_spec: GrammarSpec | None
    decode: Callable[[str], Any]


def as_constraint(obj: Any, *, form: JsonForm | None = None) -> Constraint:
    """The constraint that ``obj`` means; ``form`` is how JSON is written.

    ==================================  =============================================================================
    ``None``                            free text; the value is the text
    ``Constraint``, ``GrammarSpec``     itself
    a type                              JSON of it, the value an instance: pydantic models, dataclasses, TypedDicts,
                                        enums, ``Literal``, unions, ``list[int]``, ``date``, all that pydantic takes
    a ``TypeAdapter``                   the same for its type
    a mapping, or its JSON text         a JSON schema; the value is plain data
    a compiled ``re.Pattern``           text that matches it as a whole, the value is the text
    a list or tuple of strings          one of them, bare (``Literal`` gives JSON, with quotes)
    a function                          JSON of its arguments, the value a dict of them; it is never called
    ``Tools``                           calls of tools; ``constrain.tools.Tools`` says what the value is
    ==================================  =============================================================================

    Raises ``InvalidGrammarError`` for anything else, saying what to pass.
    """
    if obj is None:
        return Constraint(None, str)
    if isinstance(obj, Constraint):
        return obj
    if isinstance(obj, GrammarSpec):
        return Constraint(obj, PlainDecoder(obj))
    if not isinstance(obj, type) and hasattr(obj, "__constraint__"):
        made: Constraint = obj.__constraint__()
        return made
    if isinstance(obj, str):
        return as_constraint(_schema_text(obj, form))
    if isinstance(obj, Mapping):
        return as_constraint(json_schema(obj, form=form))
    if isinstance(obj, re.Pattern):
        return as_constraint(regex(_pattern_text(obj)))
    if isinstance(obj, list | tuple):
        return as_constraint(_choices(obj))
    if isinstance(obj, bool):
        raise InvalidGrammarError(f"{obj} is no constraint; for the JSON schema {obj} pass json_schema({obj})")
    return _typed_constraint(obj, form)


def as_grammar_spec(obj: Any, *, form: JsonForm | None = None) -> GrammarSpec:
    """The grammar spec that ``obj`` means; as ``as_constraint``, except that free text has none."""
    grammar_spec = as_constraint(obj, form=form).grammar_spec
    if grammar_spec is None:
        raise InvalidGrammarError("None means free text, which has no grammar")
    return grammar_spec


def _schema_text(text: str, form: JsonForm | None) -> GrammarSpec:
    stripped = text.lstrip()
    if not stripped.startswith("{"):
        raise InvalidGrammarError(
            f"{text!r:.80} is no JSON schema, and a bare string could mean several things; pass regex(...), "
            f"choice([...]), ebnf(...), lark(...) or a type"
        )
    return json_schema(text, form=form)


def _pattern_text(pattern: "re.Pattern[Any]") -> str:
    if not isinstance(pattern.pattern, str):
        raise InvalidGrammarError("a pattern of bytes; compile it from a str, since outputs are text")
    names = {re.ASCII: "a", re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
    flags = "".join(letter for flag, letter in names.items() if pattern.flags & flag)
    # Flags written at the start of the pattern are among its flags, and must not come twice.
    bare = re.sub(r"\A\s*\(\?[aiLmsux]+\)", "", pattern.pattern)
    return f"(?{flags}){bare}" if flags else bare


def _choices(items: list[Any] | tuple[Any, ...]) -> GrammarSpec:
    if all(isinstance(item, str) for item in items):
        return choice(list(items))
    other = next(item for item in items if not isinstance(item, str))
    raise InvalidGrammarError(
        f"a list of choices holds strings only, not {other!r:.60}; pass Literal[...] for JSON values, and "
        f"list[...] for a list of some type"
    )


def _typed_constraint(obj: Any, form: JsonForm | None) -> Constraint:
    name = _name_of(obj)
    complete: Complete | None
    if inspect.isroutine(obj) or isinstance(obj, partial):
        adapter, complete = arguments_adapter(obj, name)
    else:
        adapter, complete = _adapter_of(obj, name), None
    try:
        grammar_spec = json_schema(type_schema(adapter, name), form=form, assert_formats=True)
    except InvalidSchemaError as exc:
        message = f"{name} gives a schema that cannot be used: {exc}"
        raise InvalidSchemaError(message, pointer=exc.pointer, position=exc.position) from exc
    return Constraint(grammar_spec, TypeDecoder(grammar_spec, adapter, name, complete))


def _adapter_of(obj: Any, name: str) -> TypeAdapter[Any]:
    if isinstance(obj, TypeAdapter):
        return obj
    try:
        return TypeAdapter(obj)
    except (PydanticUserError, TypeError, NameError, ImportError) as exc:
        message = str(exc).split("\n\nFor further information", 1)[0]
        hint = "" if isinstance(obj, type) else " (not a type; pass a class, a JSON schema, a pattern or choices)"
        raise InvalidGrammarError(f"{name}{hint} has no JSON schema: {message}") from exc


def _name_of(obj: Any) -> str:
    name = getattr(obj, "__name__", None)  # of dict[str, int] it is "dict"
    return name if isinstance(name, str) and get_origin(obj) is None else f"{obj!r:.80}"
