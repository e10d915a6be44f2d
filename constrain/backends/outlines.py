"""outlines-core: regular expressions, choices, and the JSON schemas that a regular expression describes.

The library that ``outlines`` masks with, by itself (0.2.14, of ``outlines`` 1.3.3): it knows a regular expression and a
vocabulary, and computes for every state which token leads where. So compiling is slow and masks are quick.
"""

from collections.abc import Iterable
from typing import Any

from constrain.backend import Backend, unsupported_error
from constrain.backends._automaton import CompiledAutomaton, TokenAutomaton
from constrain.backends._described import compile_without
from constrain.backends._regular import missing_library, regular_expression
from constrain.errors import BackendError, Unsupported
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.regex import Alternation, Chars, Concat, Node, Repeat, alternation, concat, format_regex, repeat
from constrain.vocabulary import Vocabulary

try:
    import outlines_core
except ImportError as exc:
    raise missing_library("outlines", "outlines-core") from exc

MAX_STATES = 5_000
"""The largest automaton. Of 49,000 tokens, a state that allows most takes 20 ms, and there is no way to stop it."""


class OutlinesBackend(Backend):
    """Grammars of outlines-core's index. Only regular languages: no nesting without end, no EBNF."""

    name = "outlines"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        ids: dict[bytes, list[int]] = {}
        for token_id, token in enumerate(vocabulary.token_bytes):
            if token:
                ids.setdefault(token, []).append(token_id)
        # It takes one stop id, and allows it where a text may end; we do that for all of them.
        self._stop = vocabulary.stop_token_ids[0]
        self._tokens: Any = outlines_core.Vocabulary(self._stop, ids)

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        return list(regular_expression(grammar_spec, MAX_STATES)[1])

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        """As :meth:`constrain.backend.Backend.compile`.

        Refuses, besides, what this vocabulary cannot write to the end from wherever its tokens lead.
        """
        if grammar_spec.unsupported == "ignore":
            return compile_without(self, grammar_spec)
        node, unsupported = regular_expression(grammar_spec, MAX_STATES)
        if node is None:
            raise unsupported_error(self.name, list(unsupported))
        automaton = _Index(self._index(_without_empty(node)), self._stop, _may_be_empty(node))
        return CompiledAutomaton(grammar_spec, self.vocabulary, self.name, automaton)

    def _index(self, node: Node) -> Any:
        try:
            # The anchor is no decoration: without it, 0.2.14 drops every token that leads from where a text may end to
            # where it may not, so that (?:ab)* takes "ab" and not "abab".
            return outlines_core.Index(rf"(?:{format_regex(node)})\z", self._tokens)
        except ValueError as exc:
            if str(exc).startswith("The vocabulary"):
                reason = "it leads to a place where no token of this vocabulary goes on"
                raise unsupported_error(self.name, [Unsupported(reason)]) from exc
            raise BackendError(f"outlines-core failed: {exc}") from exc


_START = -1


class _Index(TokenAutomaton[int]):
    """An index of outlines-core without its stop id, with a start of its own, where the text may be empty."""

    start = _START

    def __init__(self, index: Any, stop: int, may_be_empty: bool) -> None:
        self._index = index
        self._stop = stop
        self._first: int = index.get_initial_state()
        self._may_be_empty = may_be_empty

    def is_final(self, state: int) -> bool:
        final: bool = self._may_be_empty if state == _START else self._index.is_final_state(state)
        return final

    def behind(self, state: int, token_id: int) -> int | None:
        following: int | None = self._index.get_next_state(self._first if state == _START else state, token_id)
        return following

    def legal_ids(self, state: int) -> Iterable[int]:
        allowed = self._index.get_allowed_tokens(self._first if state == _START else state)
        # None for a state that no token leads on from.
        return (token_id for token_id in allowed or () if token_id != self._stop)


def _may_be_empty(node: Node) -> bool:
    match node:
        case Chars():
            return False
        case Concat(parts):
            return all(map(_may_be_empty, parts))
        case Alternation(options):
            return any(map(_may_be_empty, options))
        case Repeat(body, minimum, _):
            return minimum == 0 or _may_be_empty(body)


def _without_empty(node: Node) -> Node:
    """The texts of ``node`` but the empty one: 0.2.14 builds no index of ``\\z`` where the empty text matches."""
    if not _may_be_empty(node):
        return node
    match node:
        case Concat(parts):
            return alternation(concat([_without_empty(part), *parts[n + 1 :]]) for n, part in enumerate(parts))
        case Alternation(options):
            return alternation(map(_without_empty, options))
        case Repeat(body, minimum, maximum):
            rest = repeat(body, max(minimum - 1, 0), None if maximum is None else maximum - 1)
            return concat([_without_empty(body), rest])
        case Chars():
            return node
