"""The last line of defence: a finished text against the original schema, by ``jsonschema`` made exact.

``jsonschema`` 4.26 computes with floats (0.3 is no multiple of its 0.1, 1e400 no integer) and reads patterns as Python
does. Here numbers are ``Decimal`` or ``int`` on both sides, and patterns ECMA-262's.
"""

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from jsonschema import FormatChecker, exceptions

from constrain.errors import InvalidValueError
from constrain.schema.dialects import DRAFT_2020_12, Dialect, dialect_of
from constrain.schema.documents import Documents, is_metaschema
from constrain.schema.ecma import translate_pattern
from constrain.schema.exact_jsonschema import exact_class
from constrain.schema.formats import checker_of
from constrain.schema.graph import SchemaGraph
from constrain.schema.json_text import join_pointer
from constrain.schema.load import Schema, load_graph
from constrain.schema.matching import MatchTimeoutError

_MAX_INTEGER_DIGITS = 4300
_LARGEST_EXPONENT = 10**17


class UncheckedError(Exception):
    """A text that may be valid, but cannot be validated: too deep, too large a number, too slow a pattern."""


class Validator:
    """Validates JSON texts against one schema. Safe to share between threads.

    ``assert_formats`` has ``format`` decide, too, where ``jsonschema`` has a checker for it; ``unchecked_formats``
    names the others.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        documents: Documents | Mapping[str, Schema] | None = None,
        dialect: Dialect = DRAFT_2020_12,
        assert_formats: bool = False,
    ) -> None:
        known = Documents(dict(documents)) if documents else Documents()  # a copy: it is rewritten below
        graph = load_graph(schema, documents=known, dialect=dialect)
        dialect = dialect_of(graph.root.schema, dialect)
        cls = exact_class(dialect)
        checker = _formats_of(cls)
        formats = {node.keywords["format"] for node in graph.nodes if "format" in node.keywords}
        self.unchecked_formats = sorted(formats - checker.checkers.keys()) if assert_formats else []
        _translate_patterns(graph)
        for document in (graph.root.schema, *(contents for _, contents in known)):
            _make_numbers_exact(document)
        self._validator = cls(
            graph.root.schema,
            registry=known.registry(dialect)[0],
            format_checker=checker if assert_formats else None,
        )

    def error(self, text: str) -> str | None:
        """Why ``text`` is not a valid JSON value of the schema, with the place in the value; None if it is one.

        Of a key that an object repeats, the last one counts, as for every reader in Python.
        """
        try:
            return self._invalid(text)
        except UncheckedError as exc:
            return str(exc)

    def _invalid(self, text: str) -> str | None:
        """As ``error``; raises ``UncheckedError`` for what may be valid and cannot be validated."""
        try:
            value = _loads(text, _decimal)
            worst = exceptions.best_match(self._validator.iter_errors(value))
        except RecursionError as exc:
            raise UncheckedError("it is nested too deeply") from exc
        except ArithmeticError as exc:
            raise UncheckedError(f"it holds a number that decimal arithmetic cannot bear ({exc!r})") from exc
        except MatchTimeoutError as exc:
            raise UncheckedError(str(exc)) from exc
        except ValueError as exc:
            return f"it is not JSON: {exc}"
        if worst is None:
            return None
        return f"at {join_pointer('', *worst.absolute_path) or '/'}: {worst.message:.300}"

    def check(self, text: str) -> None:
        """Raise ``InvalidValueError`` unless ``text`` is valid.

        The message says that this is a bug of constrain, or that the text could not be validated, and why.
        """
        try:
            error = self._invalid(text)
        except UncheckedError as exc:
            raise InvalidValueError(f"the output follows the constraint, but cannot be validated again: {exc}") from exc
        if error is not None:
            shown = text if len(text) <= 200 else f"{text[:197]}..."
            raise InvalidValueError(
                f"constrain let an invalid value through, which is a bug of constrain; please report it with the "
                f"schema: {error}; the text was {shown!r}"
            )


def _formats_of(cls: Any) -> FormatChecker:
    """Its checkers of formats, but for ``regex``, which would be Python's."""
    is_regex = checker_of("regex")
    assert is_regex is not None
    found = FormatChecker(())
    found.checkers = {
        **cls.FORMAT_CHECKER.checkers,
        "regex": (lambda value: not isinstance(value, str) or is_regex(value), ()),
    }
    return found


@lru_cache(maxsize=64)
def validator_for(schema_text: str, assert_formats: bool = False) -> Validator:
    """The validator of a schema in JSON text, as a ``GrammarSpec`` holds it."""
    return Validator(schema_text, assert_formats=assert_formats)


def read_value(text: str) -> Any:
    """The value of a valid JSON text in Python's types.

    Numbers past the range of a float become an ``int``, or a ``Decimal`` where that would be longer than 4,300 digits.
    Raises ``InvalidValueError`` for one that is past the range of ``Decimal``, too.
    """
    try:
        return _loads(text, _number)
    except InvalidOperation as exc:
        raise InvalidValueError("the output follows the constraint, but holds a number too large for Python") from exc


def _loads(text: str, parse_float: Any) -> Any:
    return json.loads(
        text,
        parse_float=parse_float,
        parse_int=lambda digits: int(digits) if len(digits) <= _MAX_INTEGER_DIGITS else Decimal(digits),
        parse_constant=_refuse_constant,
    )


def _decimal(text: str) -> Decimal:
    """``text`` exactly; beyond the exponents of ``Decimal``, which no bound reaches, the nearest that there is."""
    try:
        return Decimal(text)
    except InvalidOperation:
        mantissa, _, exponent = text.lower().partition("e")
        return Decimal(f"{mantissa}e{'-' if exponent.startswith('-') else ''}{_LARGEST_EXPONENT}")


def _number(text: str) -> float | int | Decimal:
    value = float(text)
    if value not in (float("inf"), float("-inf")):
        return value
    exact = Decimal(text)
    return int(exact) if exact.adjusted() < _MAX_INTEGER_DIGITS and exact == exact.to_integral_value() else exact


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _translate_patterns(graph: SchemaGraph) -> None:
    """Rewrite every pattern into Python's syntax, in place, and the pointers that lead through one."""
    done: set[int] = set()
    for node in graph.nodes:
        schema = node.schema
        if not isinstance(schema, dict) or id(schema) in done or is_metaschema(node.document):
            continue
        done.add(id(schema))
        if isinstance(schema.get("pattern"), str):
            schema["pattern"] = translate_pattern(schema["pattern"])
        if isinstance(schema.get("patternProperties"), dict):
            schema["patternProperties"] = _translate_keys(schema["patternProperties"])
        for keyword in node.references:
            if "/patternProperties/" in schema[keyword]:
                schema[keyword] = re.sub(r"(?<=/patternProperties/)[^/]+", _translate_token, schema[keyword])


def _translate_keys(patterns: dict[str, Any]) -> dict[str, Any]:
    translated: dict[str, Any] = {}
    for pattern, subschema in patterns.items():
        key = translate_pattern(pattern)
        while key in translated:  # two patterns that mean the same
            key += "(?:)"
        translated[key] = subschema
    return translated


def _translate_token(match: "re.Match[str]") -> str:
    from urllib.parse import quote, unquote

    pattern = unquote(match.group()).replace("~1", "/").replace("~0", "~")
    return quote(translate_pattern(pattern).replace("~", "~0").replace("/", "~1"), safe="~")


def _make_numbers_exact(document: Any) -> None:
    todo: list[Any] = [document] if isinstance(document, dict) else []
    while todo:
        container = todo.pop()
        keys = list(container) if isinstance(container, dict) else range(len(container))
        for key in keys:
            value = container[key]
            if isinstance(value, float):
                container[key] = Decimal(repr(value))
            elif isinstance(value, dict | list):
                todo.append(value)
