"""The grammar of the trie backend: a stack of the states that the accepted tokens led to."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Self

import torch

from constrain.backends._stopping import StoppingGrammar
from constrain.backends.trie.network import TOKEN
from constrain.backends.trie.recogniser import Column, Recogniser
from constrain.backends.trie.token_trie import TokenTrie
from constrain.grammar import CompiledGrammar, Grammar
from constrain.grammar_spec import GrammarSpec
from constrain.tags import named_token_ids
from constrain.vocabulary import Vocabulary

CACHED_MASKS = 1024
"""How many mask rows a compiled grammar keeps."""

MAX_FORCED_BYTES = 4096
"""Where the search for forced text ends."""


class CompiledTrieGrammar(CompiledGrammar):
    """A recogniser, and the masks of the states that were asked for."""

    def __init__(
        self, grammar_spec: GrammarSpec, vocabulary: Vocabulary, trie: TokenTrie, recogniser: Recogniser
    ) -> None:
        self._grammar_spec = grammar_spec
        self._vocabulary = vocabulary
        self._trie = trie
        self.recogniser = recogniser
        self.named_token_ids = named_token_ids(grammar_spec, vocabulary)
        self.mask_row = lru_cache(maxsize=CACHED_MASKS)(self._mask_row)

    @property
    def grammar_spec(self) -> GrammarSpec:
        return self._grammar_spec

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def backend_name(self) -> str:
        return "trie"

    def start(self) -> Grammar:
        return TrieGrammar(self)

    def _mask_row(self, column: Column) -> bytes:
        """The W words of the mask in ``column``, the stop tokens included."""
        row = bytearray(4 * self._vocabulary.num_mask_words)
        for token_id in self._trie.legal_ids(self.recogniser, column):
            row[token_id >> 3] |= 1 << (token_id & 7)
        for token_id in self._vocabulary.stop_token_ids if column.may_stop else ():
            row[token_id >> 3] |= 1 << (token_id & 7)
        return bytes(row)


class TrieGrammar(StoppingGrammar):
    """The text part: states are immutable, so that rollback drops some and fork copies the list."""

    def __init__(self, compiled: CompiledTrieGrammar) -> None:
        super().__init__(compiled.vocabulary, compiled.named_token_ids)
        self._compiled = compiled
        self._columns = [compiled.recogniser.start()]

    def _accept_text(self, token_ids: Sequence[int]) -> int:
        reached = self._columns_behind(token_ids)
        self._columns += reached
        return len(reached)

    def _validate_text(self, token_ids: Sequence[int]) -> int:
        return len(self._columns_behind(token_ids))

    def _rollback_text(self, num_tokens: int) -> None:
        del self._columns[-num_tokens:]

    def _fill_row(self, bitmask: torch.Tensor, row: int, address: int) -> None:
        words = self._compiled.mask_row(self._columns[-1])
        ctypes.memmove(address, words, len(words))

    def _may_end(self) -> bool:
        return self._columns[-1].may_stop

    def _forced_bytes(self) -> bytes:
        forced, column = bytearray(), self._columns[-1]
        while not column.may_stop and len(forced) < MAX_FORCED_BYTES:
            moves = self._compiled.recogniser.moves(column)
            if len(moves) != 1 or max(moves) >= TOKEN:
                break
            [(byte, column)] = moves.items()
            forced.append(byte)
        return bytes(forced)

    def _reset_text(self) -> None:
        del self._columns[1:]

    def _fork_text(self, twin: Self) -> None:
        twin._compiled, twin._columns = self._compiled, self._columns.copy()

    def _columns_behind(self, token_ids: Sequence[int]) -> list[Column]:
        """The state after each token of the longest legal prefix."""
        reached: list[Column] = []
        column = self._columns[-1]
        for token_id in token_ids:
            token: Sequence[int] = self._vocabulary.token_bytes[token_id]
            if token_id in self._compiled.named_token_ids:
                token = (TOKEN + token_id,)
            behind = self._compiled.recogniser.walk(column, token) if token else None
            if behind is None:
                break
            reached.append(behind)
            column = behind
        return reached
