"""The backend in pure Python: slow and plain, and what the others are tested against.

Regular expressions, choices, GBNF, JSON objects and tagged texts of these become a
:class:`~constrain.backends.trie.network.Network` over bytes; a
:class:`~constrain.backends.trie.recogniser.Recogniser` reads it, and a mask is the walk of the vocabulary's trie beside
the recogniser.
"""

import json

from constrain.backend import Backend
from constrain.backends._tag_expression import tag_expression
from constrain.backends._tags import unsupported_tags
from constrain.backends.trie.gbnf import add_gbnf, network_of_gbnf
from constrain.backends.trie.grammar import CompiledTrieGrammar
from constrain.backends.trie.json_text import object_grammar
from constrain.backends.trie.network import Fragment, Network
from constrain.backends.trie.recogniser import Recogniser
from constrain.backends.trie.tags import tag_fragment
from constrain.backends.trie.token_trie import TokenTrie
from constrain.errors import InvalidGrammarError, Unsupported
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.regex import parse_regex
from constrain.tags import read_tagged_text
from constrain.vocabulary import Vocabulary

__all__ = ["TrieBackend"]

_UNSUPPORTED = {
    "json_schema": "the trie backend knows no JSON schemas",
    "lark": "the trie backend does not read Lark; write the grammar in EBNF (GBNF)",
}


class TrieBackend(Backend):
    """Masks by walking the vocabulary's trie; a new state that allows most of 49,000 tokens takes about 50 ms."""

    name = "trie"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._trie = TokenTrie(vocabulary.token_bytes, vocabulary.special_token_ids)

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        if grammar_spec.kind == "structural_tag":
            return unsupported_tags(grammar_spec, self.unsupported)
        reason = _UNSUPPORTED.get(grammar_spec.kind)
        return [] if reason is None else [Unsupported(reason)]

    def compile(self, grammar_spec: GrammarSpec) -> CompiledTrieGrammar:
        self.require_supported(grammar_spec)
        return CompiledTrieGrammar(grammar_spec, self.vocabulary, self._trie, Recogniser(self._network(grammar_spec)))

    def _network(self, grammar_spec: GrammarSpec) -> Network:
        if grammar_spec.kind == "ebnf":
            return network_of_gbnf(grammar_spec.text)
        network = Network()
        root = network.add_rule()
        if grammar_spec.kind == "structural_tag":
            tagged = read_tagged_text(grammar_spec.text)
            assert tagged is not None, "unsupported_tags has said so"
            network.define(root, tag_fragment(network, tag_expression(tagged, self.vocabulary), _body))
        else:
            network.define(root, _body(network, grammar_spec))
        if not network.trim():
            raise InvalidGrammarError("no text follows this constraint: a grammar inside it ends in itself")
        return network


def _body(network: Network, grammar_spec: GrammarSpec) -> Fragment:
    match grammar_spec.kind:
        case "ebnf":
            return add_gbnf(network, grammar_spec.text)
        case "json_object":
            return add_gbnf(network, object_grammar(grammar_spec.form or JsonForm()))
        case "regex":
            return network.pattern(parse_regex(grammar_spec.text))
        case _:
            assert grammar_spec.kind == "choice", grammar_spec
            return network.words(_encoded(json.loads(grammar_spec.text)))


def _encoded(choices: list[str]) -> list[bytes]:
    try:
        return [choice.encode() for choice in choices]
    except UnicodeEncodeError as exc:
        raise InvalidGrammarError(
            f"the choice {exc.object!r} holds half of a surrogate pair, which is no text"
        ) from exc
