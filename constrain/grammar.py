"""The contract of grammars: what was compiled, and the state along one sequence.

The laws, which one suite checks for every backend and every wrapper (``tests/contract``):

- bit *t* of the mask is set if and only if ``validate([t]) == 1``, until termination;
- a rejected token changes nothing;
- accept, then rollback, restores the mask bit for bit, the stop token included;
- ``fill_bitmask`` writes every word of its row; ids past the vocabulary are always 0;
- after termination exactly the stop tokens are set, and ``accept`` returns 0;
- a special token or a second stop token is never legal inside the text of a constraint.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import IntEnum

import torch

from constrain.grammar_spec import GrammarSpec
from constrain.vocabulary import Vocabulary


class RowState(IntEnum):
    """What a filled row of a bitmask says."""

    FREE = 0
    """Every id of the vocabulary is set: nothing needs to be masked but ids past the vocabulary."""
    CONSTRAINED = 1
    """Some ids are set."""
    DEAD_END = 2
    """No id is set: the caller ends or backtracks this request if the row is reached."""


class Grammar(ABC):
    """The state of a constraint along one sequence. Owned by one request; never shared between threads at one time."""

    @property
    @abstractmethod
    def num_accepted(self) -> int:
        """How many tokens were accepted and not rolled back, the stop token included."""

    @property
    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether a stop token has been accepted."""

    @abstractmethod
    def accept(self, token_ids: Sequence[int]) -> int:
        """Advance over the longest legal prefix and return its length.

        An illegal token stops the walk and leaves the state as it was before that token.
        """

    @abstractmethod
    def validate(self, token_ids: Sequence[int]) -> int:
        """What ``accept`` would return, without any change of state."""

    @abstractmethod
    def rollback(self, num_tokens: int) -> None:
        """Undo the last ``num_tokens`` accepted tokens.

        Raises ``ValueError`` for a negative number or for more tokens than ``num_accepted``; nothing changes then.
        """

    @abstractmethod
    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> RowState:
        """Write the mask of the next token into ``bitmask[row]``.

        ``bitmask`` is an int32 CPU tensor [N, W] with contiguous rows, W = ``vocabulary.num_mask_words``; bit
        ``t % 32`` of word ``t // 32`` is token ``t``. Raises ``ValueError`` for another dtype, device or width, and for
        an absent row.
        """

    @abstractmethod
    def forced_tokens(self) -> list[int]:
        """The canonical tokens of the text that must come next; a proposal, empty where the text branches.

        They end before a token that could take in what comes behind the forced text. Other tokens may write the same
        text, so these are a draft and not a mask.
        """

    @property
    def num_settled(self) -> int:
        """How many of the first tokens no dead end is to be blamed on, such as thinking before a text: what is behind
        them may be taken back, they may not."""
        return 0

    def value_starts(self) -> list[int]:
        """For each value that is open at this point, how many tokens were accepted before it began; the innermost last.

        Where a dead end may be worth going back to. Empty for a grammar that knows no values.
        """
        return []

    @abstractmethod
    def reset(self) -> None:
        """Go back to the start; the same as rolling back everything."""

    @abstractmethod
    def fork(self) -> "Grammar":
        """An independent grammar in the same state."""


class CompiledGrammar(ABC):
    """A spec compiled for one vocabulary: immutable, shared by requests and threads."""

    @property
    @abstractmethod
    def grammar_spec(self) -> GrammarSpec:
        """What was asked for."""

    @property
    @abstractmethod
    def vocabulary(self) -> Vocabulary:
        """What it was compiled for."""

    @property
    @abstractmethod
    def backend_name(self) -> str:
        """The backend that enforces it."""

    @property
    def backend_reason(self) -> str:
        """Why that backend."""
        return "as asked"

    @property
    def enforced_spec(self) -> GrammarSpec:
        """What is enforced: ``grammar_spec``, or what is left of it where keywords were to be ignored."""
        return self.grammar_spec

    @abstractmethod
    def start(self) -> Grammar:
        """A grammar at the beginning of its text. Cheap beside compiling, and safe from any thread."""
