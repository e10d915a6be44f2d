"""Content without a constraint, as a grammar: whatever the model says, until a stop token."""

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import torch

from constrain.bitmask import RowDoor, fill_free_row
from constrain.errors import InvalidInputError
from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import GrammarSpec, regex
from constrain.vocabulary import Vocabulary


class CompiledFree(CompiledGrammar):
    """Every id of the vocabulary, special tokens included, and the end at any time."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.door = RowDoor(vocabulary.num_mask_words)
        rows = torch.zeros(2, vocabulary.num_mask_words, dtype=torch.int32)
        fill_free_row(rows, 0, vocabulary)
        self.free_row: bytes = rows[0].numpy().tobytes()
        self.stop_row = sum(1 << i for i in vocabulary.stop_token_ids).to_bytes(len(self.free_row), "little")
        self.stops = frozenset(vocabulary.stop_token_ids)

    @property
    def grammar_spec(self) -> GrammarSpec:
        return _anything()

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def backend_name(self) -> str:
        return "free"

    def start(self) -> Grammar:
        return FreeGrammar(self)


class FreeGrammar(Grammar):
    """Counts tokens, and knows whether the last is a stop token."""

    def __init__(self, compiled: CompiledFree) -> None:
        self._compiled = compiled
        self._num_accepted = 0
        self._terminated = False

    @property
    def num_accepted(self) -> int:
        return self._num_accepted

    @property
    def is_terminated(self) -> bool:
        return self._terminated

    def accept(self, token_ids: Sequence[int]) -> int:
        count = self.validate(token_ids)
        self._num_accepted += count
        self._terminated = self._terminated or (count > 0 and token_ids[count - 1] in self._compiled.stops)
        return count

    def validate(self, token_ids: Sequence[int]) -> int:
        if self._terminated:
            return 0
        size, stops = self._compiled.vocabulary.size, self._compiled.stops
        for count, token_id in enumerate(token_ids):
            if not 0 <= token_id < size:
                return count
            if token_id in stops:
                return count + 1
        return len(token_ids)

    def rollback(self, num_tokens: int) -> None:
        if not 0 <= num_tokens <= self._num_accepted:
            raise InvalidInputError(f"cannot roll back {num_tokens} tokens: {self._num_accepted} are accepted")
        self._num_accepted -= num_tokens
        self._terminated = self._terminated and not num_tokens

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> RowState:
        words = self._compiled.stop_row if self._terminated else self._compiled.free_row
        ctypes.memmove(self._compiled.door.row_address(bitmask, row), words, len(words))
        return RowState.CONSTRAINED if self._terminated else RowState.FREE

    def forced_tokens(self) -> list[int]:
        return []

    def reset(self) -> None:
        self.rollback(self._num_accepted)

    def fork(self) -> "FreeGrammar":
        twin = FreeGrammar(self._compiled)
        twin._num_accepted, twin._terminated = self._num_accepted, self._terminated
        return twin


@lru_cache(maxsize=1)
def _anything() -> GrammarSpec:
    return regex("(?s:.*)")
