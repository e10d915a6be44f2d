"""lm-format-enforcer: regular expressions, choices, and the JSON schemas that a regular expression describes.

Its character-level parser of regular expressions and its trie of tokens, without its ``TokenEnforcer``, which logs a
failure and ends the text (0.11.3), and without its JSON parser, which drops keywords and knows one form of JSON.
Both are given bytes, each as the character of its number: what a character is made of may then be split over tokens,
and the alphabet, by default ASCII, is no restriction.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from constrain.backend import Backend, unsupported_error
from constrain.backends._automaton import CompiledAutomaton, TokenAutomaton
from constrain.backends._byte_regex import byte_regex
from constrain.backends._described import compile_without
from constrain.backends._regular import missing_library, regular_expression
from constrain.errors import BackendError, Unsupported
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.regex import format_regex
from constrain.vocabulary import Vocabulary

try:
    from lmformatenforcer.regexparser import RegexParser
    from lmformatenforcer.tokenizerprefixtree import TokenizerPrefixTree
except ImportError as exc:
    raise missing_library("lm-format-enforcer", "lm-format-enforcer") from exc

MAX_STATES = 1_000
"""The largest automaton: they are made and joined in pure Python."""


class LMFormatEnforcerBackend(Backend):
    """Grammars of lm-format-enforcer's parser. Only regular languages: no nesting without end, no EBNF."""

    name = "lm-format-enforcer"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._texts = [token.decode("latin-1") for token in vocabulary.token_bytes]
        tokens = [(token_id, text, False) for token_id, text in enumerate(self._texts) if text]
        self._root: Any = TokenizerPrefixTree(tokens, False, vocabulary.size).root

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        return list(regular_expression(grammar_spec, MAX_STATES)[1])

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        if grammar_spec.unsupported == "ignore":
            return compile_without(self, grammar_spec)
        node, unsupported = regular_expression(grammar_spec, MAX_STATES)
        if node is None:
            raise unsupported_error(self.name, list(unsupported))
        try:
            parser = RegexParser(format_regex(byte_regex(node)))
        except Exception as exc:
            raise BackendError(f"lm-format-enforcer failed: {exc}") from exc
        automaton = _Parsers(parser, self._root, self._texts)
        return CompiledAutomaton(grammar_spec, self.vocabulary, self.name, automaton)


class _Parsers(TokenAutomaton[int]):
    """The states of one parser, by their numbers, and the walk of the trie beside them."""

    def __init__(self, parser: Any, root: Any, texts: list[str]) -> None:
        self._parser = parser
        self._root = root
        self._texts = texts
        self.start: int = parser.current_state
        self.moves = lru_cache(maxsize=4096)(self._moves)

    def is_final(self, state: int) -> bool:
        final: bool = self._at(state).can_end()
        return final

    def behind(self, state: int, token_id: int) -> int | None:
        at: int | None = state
        for char in self._texts[token_id]:
            at = self.moves(at).get(char)
            if at is None:
                return None
        return at if self._texts[token_id] else None

    def legal_ids(self, state: int) -> Iterator[int]:
        todo = [(self._root, state)]
        while todo:
            node, at = todo.pop()
            yield from node.tokens
            if node.children:
                moves = self.moves(at)
                todo += ((node.children[char], moves[char]) for char in moves.keys() & node.children.keys())

    def _moves(self, state: int) -> dict[str, int]:
        """The characters that the parser allows in ``state``, with the state behind each."""
        parser = self._at(state)
        return {char: parser.add_character(char).current_state for char in parser.get_allowed_characters()}

    def _at(self, state: int) -> Any:
        return RegexParser(self._parser.context, self._parser.config, state)
