"""The grammar of the trie backend: an automaton whose states are columns of the recogniser."""

from collections.abc import Iterable, Sequence

from constrain.backends._automaton import MAX_FORCED_BYTES, CompiledAutomaton, TokenAutomaton
from constrain.backends.trie.network import TOKEN
from constrain.backends.trie.recogniser import Column, Recogniser
from constrain.backends.trie.token_trie import TokenTrie
from constrain.grammar_spec import GrammarSpec
from constrain.tags import named_token_ids
from constrain.vocabulary import Vocabulary


class CompiledTrieGrammar(CompiledAutomaton[Column]):
    """A recogniser beside the trie of the vocabulary."""

    def __init__(
        self, grammar_spec: GrammarSpec, vocabulary: Vocabulary, trie: TokenTrie, recogniser: Recogniser
    ) -> None:
        self.recogniser = recogniser
        named = named_token_ids(grammar_spec, vocabulary)
        columns = _Columns(recogniser, trie, vocabulary.token_bytes, named)
        super().__init__(grammar_spec, vocabulary, "trie", columns, named)


class _Columns(TokenAutomaton[Column]):
    def __init__(
        self, recogniser: Recogniser, trie: TokenTrie, token_bytes: Sequence[bytes], named: frozenset[int]
    ) -> None:
        self._recogniser = recogniser
        self._trie = trie
        self._token_bytes = token_bytes
        self._named = named
        self.start = recogniser.start()

    def is_final(self, state: Column) -> bool:
        return state.may_stop

    def behind(self, state: Column, token_id: int) -> Column | None:
        token = (TOKEN + token_id,) if token_id in self._named else self._token_bytes[token_id]
        return self._recogniser.walk(state, token) if token else None

    def legal_ids(self, state: Column) -> Iterable[int]:
        return self._trie.legal_ids(self._recogniser, state)

    def forced_bytes(self, state: Column, token_bytes: Sequence[bytes]) -> bytes:
        """Read off the recogniser, byte by byte: also text that no tokens of the vocabulary write."""
        forced = bytearray()
        while not state.may_stop and len(forced) < MAX_FORCED_BYTES:
            moves = self._recogniser.moves(state)
            if len(moves) != 1 or max(moves) >= TOKEN:
                break
            [(byte, state)] = moves.items()
            forced.append(byte)
        return bytes(forced)
