"""Lark grammars for llguidance: what breaks the laws of grammars, and the JSON schemas inside."""

import json
import re
from collections.abc import Iterator
from typing import Any

from constrain.backends._json_schema import read_text
from constrain.backends._llguidance_json import json_grammar, unsupported_schema
from constrain.errors import InvalidGrammarError, Unsupported
from constrain.grammar_spec import JsonForm

# Strings, regular expressions and comments, in which nothing is syntax.
_OPAQUE = re.compile(r'"(?:\\.|[^"\\\n])*"|/(?![/*])(?:\\.|[^/\\\n])+/|//[^\n]*|#[^\n]*')
_JSON = re.compile(r"%json\s*")

_LAWLESS = (
    (r"<", "a special token inside the text, which a constraint never writes"),
    (r"\bmax_tokens\b", "max_tokens, a limit that a rollback would not undo; use the request's own"),
    (r"\btemperature\b", "temperature, which belongs to the sampling parameters"),
    (r"\b(?:stop|suffix|stop_capture)\s*=\s*\"\"", "an empty stop, which would make the stop token part of the text"),
    (r"@", "a reference to another grammar"),
    (r"%regex\b", "%regex"),
)


def unsupported_lark(text: str) -> list[Unsupported]:
    """What ``text`` uses that llguidance does, but that breaks a law of grammars."""
    found = []
    outside = []
    for piece, schema in _pieces(text):
        outside.append(piece)
        if schema is not None:
            found += unsupported_schema(read_text(schema))
    bare = _OPAQUE.sub(lambda match: '""' if match[0] in ('""', "//") else "", "".join(outside))
    return found + [Unsupported(reason) for pattern, reason in _LAWLESS if re.search(pattern, bare)]


def embedded_schemas(text: str) -> str:
    """``text`` with every ``%json`` schema made as safe as one that stands alone."""
    parts = []
    for piece, schema in _pieces(text):
        parts.append(piece)
        if schema is not None:
            parts.append(json_grammar(read_text(schema), JsonForm()).removeprefix("start: ").rstrip("\n"))
    return "".join(parts)


def _pieces(text: str) -> Iterator[tuple[str, Any]]:
    """The text between ``%json`` schemas, and the schema that follows each piece (None after the last)."""
    begin = at = 0
    while at < len(text):
        opaque = _OPAQUE.match(text, at)
        marker = _JSON.match(text, at)
        if opaque is not None:
            at = opaque.end()
        elif marker is not None:
            try:
                schema, end = json.JSONDecoder().raw_decode(text, marker.end())
            except json.JSONDecodeError as exc:
                raise InvalidGrammarError(f"%json is not followed by JSON: {exc}", position=exc.pos) from exc
            yield text[begin:at], schema
            begin = at = end
        else:
            at += 1
    yield text[begin:], None
