"""The backend in pure Python: slow and plain, and what the others are tested against.

Regular expressions, choices, GBNF and JSON objects become a :class:`~constrain.backends.trie.network.Network` over
bytes; a :class:`~constrain.backends.trie.recogniser.Recogniser` reads it, and a mask is the walk of the vocabulary's
trie beside the recogniser.
"""

import json

from constrain.backend import Backend
from constrain.backends.trie.gbnf import network_of_gbnf
from constrain.backends.trie.grammar import CompiledTrieGrammar
from constrain.backends.trie.json_text import object_grammar
from constrain.backends.trie.network import Fragment, Network
from constrain.backends.trie.recogniser import Recogniser
from constrain.backends.trie.token_trie import TokenTrie
from constrain.errors import InvalidGrammarError, Unsupported
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.regex import parse_regex
from constrain.vocabulary import Vocabulary

__all__ = ["TrieBackend"]

_UNSUPPORTED = {
    "json_schema": "the trie backend knows no JSON schemas",
    "lark": "the trie backend does not read Lark; write the grammar in EBNF (GBNF)",
    "structural_tag": "the trie backend knows no structural tags",
}


class TrieBackend(Backend):
    """Masks by walking the vocabulary's trie; a new state that allows most of 49,000 tokens takes about 50 ms."""

    name = "trie"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._trie = TokenTrie(vocabulary.token_bytes)

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        reason = _UNSUPPORTED.get(grammar_spec.kind)
        return [] if reason is None else [Unsupported(reason)]

    def compile(self, grammar_spec: GrammarSpec) -> CompiledTrieGrammar:
        self.require_supported(grammar_spec)
        return CompiledTrieGrammar(grammar_spec, self.vocabulary, self._trie, Recogniser(_network(grammar_spec)))


def _network(grammar_spec: GrammarSpec) -> Network:
    match grammar_spec.kind:
        case "ebnf":
            return network_of_gbnf(grammar_spec.text)
        case "json_object":
            return network_of_gbnf(object_grammar(grammar_spec.form or JsonForm()))
        case "regex":
            network = Network()
            return _with_root(network, network.pattern(parse_regex(grammar_spec.text)))
        case _:
            assert grammar_spec.kind == "choice", grammar_spec
            network = Network()
            return _with_root(network, network.words(_encoded(json.loads(grammar_spec.text))))


def _with_root(network: Network, body: Fragment) -> Network:
    network.define(network.add_rule(), body)
    derives = network.trim()
    assert derives, "parse_regex and choice() refuse what has no text"
    return network


def _encoded(choices: list[str]) -> list[bytes]:
    try:
        return [choice.encode() for choice in choices]
    except UnicodeEncodeError as exc:
        raise InvalidGrammarError(
            f"the choice {exc.object!r} holds half of a surrogate pair, which is no text"
        ) from exc
