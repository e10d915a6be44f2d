"""A vocabulary of a dozen tokens and a source that says exactly what it is told."""

from collections.abc import Mapping, Sequence

import torch

from constrain.source import LogitsSource, SequenceView
from constrain.vocabulary import Vocabulary

TOKENS = [b"", b"", b"a", b"b", b"ab", b"{", b"}", b'"', b":", b"1", b"2", b" "]
PAD, EOS, A, B, AB, OPEN, CLOSE, QUOTE, COLON, ONE, TWO, SPACE = range(len(TOKENS))


def tiny_vocabulary(logits_width: int | None = 40) -> Vocabulary:
    """Twelve tokens under 40 logits: 2 mask words, of which the second holds padding only."""
    return Vocabulary(TOKENS, stop_token_ids=[EOS], special_token_ids=[PAD], logits_width=logits_width)


class ScriptedSource(LogitsSource):
    """Logits that prefer, for each prompt's first token, the tokens of a script in their order.

    The wanted token has logit 5, every other a fixed value below 1 that falls with its id. Keeps what it was asked.
    """

    def __init__(self, scripts: Mapping[int, Sequence[int]], *, width: int = 40, prompt_length: int = 1) -> None:
        self.scripts = scripts
        self.width = width
        self.prompt_length = prompt_length
        self.calls: list[list[SequenceView]] = []
        self.released: list[int] = []

    @property
    def logits_width(self) -> int:
        return self.width

    def row(self, token_ids: Sequence[int]) -> torch.Tensor:
        logits = torch.linspace(0.9, 0.0, self.width)
        script = self.scripts[token_ids[0]]
        index = len(token_ids) - self.prompt_length
        logits[script[index] if index < len(script) else EOS] = 5.0
        return logits

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        self.calls.append([SequenceView(view.slot, tuple(view.token_ids), view.num_logits) for view in views])
        return torch.stack(
            [
                self.row(view.token_ids[: len(view.token_ids) - back])
                for view in views
                for back in range(view.num_logits - 1, -1, -1)
            ]
        )

    def release(self, slot: int) -> None:
        self.released.append(slot)
