"""Where forced text may be cut into tokens for good: before a token that could grow with what comes next."""

from bisect import bisect_right

import numpy as np
import numpy.typing as npt
import torch

from constrain.grammar import Grammar
from constrain.per_vocabulary import once_per_vocabulary
from constrain.vocabulary import Vocabulary


def settled_tokens(grammar: Grammar, vocabulary: Vocabulary, proposal: list[int]) -> list[int]:
    """The longest prefix of ``proposal``, legal tokens of ``grammar``, that no longer token can take in.

    The proposal is canonical for its own text. Of the whole text, of which more is still unknown, a token is canonical
    only if no token that is legal in its place begins with all the text from there on and writes more. ``grammar`` is
    left as it was.
    """
    tokens, suffix, settled = _tokens_of(vocabulary), b"", len(proposal)
    for place in range(len(proposal) - 1, -1, -1):
        suffix = vocabulary.token_bytes[proposal[place]] + suffix
        if len(suffix) >= tokens.longest:
            break
        longer = tokens.beginning_with(suffix)
        if len(longer) and _is_any_legal(grammar, vocabulary, proposal[:place], longer):
            settled = place
    return proposal[:settled]


def _is_any_legal(grammar: Grammar, vocabulary: Vocabulary, before: list[int], ids: npt.NDArray[np.int64]) -> bool:
    count = grammar.accept(before) if before else 0
    assert count == len(before), (count, before)
    try:
        bitmask = torch.zeros(1, vocabulary.num_mask_words, dtype=torch.int32)
        grammar.fill_bitmask(bitmask, 0)
    finally:
        grammar.rollback(count)
    return bool(((bitmask.numpy()[0][ids >> 5] >> (ids & 31)) & 1).any())


class _Tokens:
    """The tokens of a vocabulary in the order of their bytes."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        ids = sorted(
            (i for i, token in enumerate(vocabulary.token_bytes) if token), key=vocabulary.token_bytes.__getitem__
        )
        self._bytes = [vocabulary.token_bytes[i] for i in ids]
        self._ids = np.array(ids, dtype=np.int64)
        self.longest = max(map(len, self._bytes), default=0)

    def beginning_with(self, prefix: bytes) -> npt.NDArray[np.int64]:
        """The ids of the tokens that begin with ``prefix`` and are longer."""
        above = prefix + b"\xff" * (self.longest + 1 - len(prefix))
        return self._ids[bisect_right(self._bytes, prefix) : bisect_right(self._bytes, above)]


_tokens_of = once_per_vocabulary(_Tokens)
