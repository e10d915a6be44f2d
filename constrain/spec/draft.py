"""What a proposer gives, and the protocol that every proposer keeps."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from constrain.grammar import Grammar
from constrain.sampling.params import SamplingParams
from constrain.source import SequenceView


@dataclass(frozen=True, slots=True)
class Draft:
    """Tokens that may come next, to be verified.

    token_ids:
        K ids of the vocabulary; empty for no draft.
    probabilities:
        [K, V] float32, the distribution that each token was drawn from. None for a deterministic draft (each token was
        certain), and where the rule of verification does not ask for them.
    """

    token_ids: tuple[int, ...] = ()
    probabilities: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.token_ids)

    def cut(self, length: int) -> "Draft":
        """The first ``length`` tokens."""
        if length >= len(self.token_ids):
            return self
        probabilities = None if self.probabilities is None else self.probabilities[:length]
        return Draft(self.token_ids[:length], probabilities)

    def distributions(self, width: int, device: torch.device) -> torch.Tensor:
        """[K, width] float32: what each token was drawn from, probability 1 for certain ones."""
        if self.probabilities is not None:
            return self.probabilities.to(device, torch.float32)
        certain = torch.zeros(len(self.token_ids), width, device=device)
        return certain.scatter_(1, torch.tensor(self.token_ids, device=device)[:, None], 1.0)


@dataclass(frozen=True, slots=True)
class DrawKey:
    """How a request draws: what a proposer needs that draws itself.

    ``output_index`` is that of the first token of the draft. With ``gumbel`` the request draws by Gumbel noise, which a
    proposer shares to agree with it.
    """

    params: SamplingParams
    seed: int
    output_index: int
    gumbel: bool = False


class Proposer(ABC):
    """Guesses what comes next. Wrong guesses cost time and never change a request's output."""

    @abstractmethod
    def propose(
        self,
        views: Sequence[SequenceView],  # B
        grammars: Sequence[Grammar | None],  # B
        lengths: Sequence[int],  # B
        keys: Sequence[DrawKey],  # B
    ) -> list[Draft]:
        """A draft for each view, of at most its length (0: none is wanted).

        ``views`` are prompts and committed outputs. A grammar stands behind the last token of its view, and must stand
        there again when this returns; a proposer may advance it, or leave it and have its tokens cut.
        """

    def release(self, slot: int) -> None:  # noqa: B027  # doing nothing is right for a proposer without a cache
        """Forget ``slot``: its request has ended."""
