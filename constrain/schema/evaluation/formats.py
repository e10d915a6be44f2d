"""What asserted formats ask: a regular language as a text comes, and all the rest at its closing quote."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from constrain.errors import Unsupported, UnsupportedGrammarError
from constrain.schema.evaluation.automaton import Automaton
from constrain.schema.evaluation.mailbox import LocalPart
from constrain.schema.evaluation.network import Network
from constrain.schema.evaluation.pattern_automaton import PatternAutomaton
from constrain.schema.evaluation.regex_syntax import RegexSyntax
from constrain.schema.format_patterns import MAX_LENGTHS, language_of
from constrain.schema.formats import FORMATS, checker_of
from constrain.schema.graph import SchemaNode
from constrain.schema.json_text import join_pointer

_parser: Any = re._parser  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, eq=False)
class FormatCheck:
    """``test`` alone says which texts have the format.

    Every one that has it is accepted by each of ``automata``, and has ``max_length`` characters at most.
    """

    test: Callable[[str], bool]
    automata: tuple[Automaton, ...]
    max_length: int | None = None


def format_check(name: str, node: SchemaNode) -> FormatCheck | None:
    """The check of the format ``name``; None for one that no draft defines, which says nothing.

    Raises ``UnsupportedGrammarError`` where nothing here checks it.
    """
    checker = checker_of(name)
    if checker is None and name in FORMATS:
        place = join_pointer(node.pointer, "format")
        unsupported = Unsupported(f"nothing here can check the format {name!r}", place, "format")
        raise UnsupportedGrammarError(str(unsupported), unsupported=[unsupported])
    return None if checker is None else FormatCheck(checker, _automata(name), MAX_LENGTHS.get(name))


@lru_cache(maxsize=len(FORMATS))
def _automata(name: str) -> tuple[Automaton, ...]:
    if name == "regex":
        return (RegexSyntax(),)
    parsed = (_parser.parse(rf"(?:{pattern})\Z") for pattern in language_of(name))
    found = (PatternAutomaton(Network(each, PatternAutomaton, searches=False)) for each in parsed)
    return (*found, LocalPart()) if name in ("email", "idn-email") else tuple(found)
