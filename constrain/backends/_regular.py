"""Specs as regular expressions, for the libraries that read these only."""

import json
from functools import lru_cache

from constrain.backends._byte_regex import byte_regex, has_more_states
from constrain.backends._json_regex import json_regex
from constrain.backends._json_schema import read_schema, unwritten_forms
from constrain.backends._string_regex import literal
from constrain.errors import InvalidGrammarError, InvalidInputError, Unsupported
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.regex import Node, alternation, parse_regex

_NOT_REGULAR = {
    "json_object": "any JSON object: its values may nest without end, which no regular expression describes",
    "ebnf": "a context-free grammar, where only regular expressions are read",
    "lark": "a context-free grammar, where only regular expressions are read",
    "structural_tag": "tagged text, where only regular expressions are read",
}


@lru_cache(maxsize=64)
def regular_expression(grammar_spec: GrammarSpec, max_states: int) -> tuple[Node | None, tuple[Unsupported, ...]]:
    """The texts of ``grammar_spec`` as an expression over characters, or why there is none; one of both is empty.

    ``max_states`` is the largest automaton, over bytes, that the library is given.
    """
    if grammar_spec.kind in _NOT_REGULAR:
        return None, (Unsupported(_NOT_REGULAR[grammar_spec.kind]),)
    node: Node | None
    if grammar_spec.kind == "json_schema":
        schema = read_schema(grammar_spec)
        node, found = json_regex(schema, grammar_spec.form or JsonForm())
        unsupported = (*found, *unwritten_forms(grammar_spec, schema))
        if node is None or unsupported:
            return None, tuple(schema.at_home(item) for item in unsupported)
    elif grammar_spec.kind == "choice":
        node = alternation(_choices(grammar_spec.text))
    else:
        node = parse_regex(grammar_spec.text)
    try:
        too_large = has_more_states(byte_regex(node), max_states)
    except RecursionError:
        return None, (Unsupported("written as a regular expression it nests too deep"),)
    reason = f"its automaton has more than {max_states} states, which takes the library too long"
    return (None, (Unsupported(reason),)) if too_large else (node, ())


def _choices(text: str) -> list[Node]:
    choices: list[str] = json.loads(text)
    for choice in choices:
        if any(0xD800 <= ord(char) <= 0xDFFF for char in choice):
            raise InvalidGrammarError(f"the choice {choice!r} holds half of a surrogate pair, which is no text")
    return [literal(choice) for choice in choices]


def missing_library(extra: str, library: str) -> InvalidInputError:
    """The error for a backend whose ``library`` is not installed."""
    return InvalidInputError(
        f"the backend {extra!r} needs {library}, which is not installed: pip install 'constrain-lm[{extra}]'"
    )
