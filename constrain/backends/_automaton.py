"""Grammars as automata over tokens: a stack of states, and the mask of each state kept.

For recognisers whose state is a value that nothing changes, be it a number or what stands for a whole stack: going back
drops states, and a fork copies the list of them.
"""

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from typing import Generic, Self, TypeVar

import numpy as np
import torch

from constrain.backends._compiled import CompiledAsAsked
from constrain.backends._stopping import StoppingGrammar
from constrain.grammar import Grammar
from constrain.grammar_spec import GrammarSpec
from constrain.vocabulary import Vocabulary

CACHED_MASKS = 1024
"""How many mask rows, and forced texts, a compiled grammar keeps."""

MAX_FORCED_BYTES = 4096
"""Where the search for forced text ends."""

State = TypeVar("State", bound=Hashable)


class TokenAutomaton(ABC, Generic[State]):
    """What an automaton must tell. It never changes, and several threads ask it."""

    start: State

    @abstractmethod
    def is_final(self, state: State) -> bool:
        """Whether the text that led to ``state`` is complete."""

    @abstractmethod
    def behind(self, state: State, token_id: int) -> State | None:
        """The state after one more token of text; None where that is illegal."""

    @abstractmethod
    def legal_ids(self, state: State) -> Iterable[int]:
        """Every id of text that ``behind`` takes in ``state``."""

    def forced_bytes(self, state: State, token_bytes: Sequence[bytes]) -> bytes:
        """What every text begins with that tokens can write from ``state`` on; ``b""`` where the text may end."""
        forced, longer = b"", list[bytes]()
        at: State | None = state
        while at is not None and not self.is_final(at) and len(forced) < MAX_FORCED_BYTES:
            legal = {token_bytes[token_id]: token_id for token_id in self.legal_ids(at)}
            if not legal:
                break
            shared = _common_beginning(min(legal), max(legal))
            # Where a token has written all that is shared, its state knows what follows; longer tokens must agree.
            longer += [forced + token for token in legal if token != shared] if shared else []
            forced += shared
            at = self.behind(at, legal[shared]) if shared in legal else None
        for token in longer:
            if not token.startswith(forced) and not forced.startswith(token):
                forced = _common_beginning(forced, token)
        return forced


class CompiledAutomaton(CompiledAsAsked, Generic[State]):
    """An automaton under the name of its spec, with what its states were asked before."""

    def __init__(
        self,
        grammar_spec: GrammarSpec,
        vocabulary: Vocabulary,
        backend_name: str,
        automaton: TokenAutomaton[State],
        named_token_ids: frozenset[int] = frozenset(),
    ) -> None:
        super().__init__(grammar_spec, vocabulary, backend_name)
        self.automaton = automaton
        self.named_token_ids = named_token_ids
        self.mask_row = lru_cache(maxsize=CACHED_MASKS)(self._mask_row)
        self.forced_bytes = lru_cache(maxsize=CACHED_MASKS)(self._forced_bytes)

    def start(self) -> Grammar:
        return AutomatonGrammar(self)

    def _mask_row(self, state: State) -> bytes:
        """The W words of the mask in ``state``, the stop tokens included."""
        bits = np.zeros(32 * self._vocabulary.num_mask_words, dtype=np.uint8)
        bits[np.fromiter(self.automaton.legal_ids(state), dtype=np.int64)] = 1
        if self.automaton.is_final(state):
            bits[list(self._vocabulary.stop_token_ids)] = 1
        return np.packbits(bits, bitorder="little").tobytes()

    def _forced_bytes(self, state: State) -> bytes:
        return self.automaton.forced_bytes(state, self._vocabulary.token_bytes)


class AutomatonGrammar(StoppingGrammar, Generic[State]):
    """The states that the accepted tokens led to."""

    def __init__(self, compiled: CompiledAutomaton[State]) -> None:
        super().__init__(compiled.vocabulary, compiled.named_token_ids)
        self._compiled = compiled
        self._states = [compiled.automaton.start]

    def _accept_text(self, token_ids: Sequence[int]) -> int:
        reached = self._states_behind(token_ids)
        self._states += reached
        return len(reached)

    def _validate_text(self, token_ids: Sequence[int]) -> int:
        return len(self._states_behind(token_ids))

    def _rollback_text(self, num_tokens: int) -> None:
        del self._states[-num_tokens:]

    def _fill_row(self, bitmask: torch.Tensor, row: int, address: int) -> None:
        words = self._compiled.mask_row(self._states[-1])
        ctypes.memmove(address, words, len(words))

    def _may_end(self) -> bool:
        return self._compiled.automaton.is_final(self._states[-1])

    def _forced_bytes(self) -> bytes:
        return self._compiled.forced_bytes(self._states[-1])

    def _reset_text(self) -> None:
        del self._states[1:]

    def _fork_text(self, twin: Self) -> None:
        twin._compiled, twin._states = self._compiled, self._states.copy()

    def _states_behind(self, token_ids: Sequence[int]) -> list[State]:
        """The state after each token of the longest legal prefix."""
        behind, reached, state = self._compiled.automaton.behind, list[State](), self._states[-1]
        for token_id in token_ids:
            following = behind(state, token_id)
            if following is None:
                break
            reached.append(following)
            state = following
        return reached


def _common_beginning(one: bytes, other: bytes) -> bytes:
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]
