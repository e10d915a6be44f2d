"""Guessing by what the grammar asks: where it asked the same before, the model answered so."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from constrain.grammar import Grammar, RowState
from constrain.source import SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.vocabulary import Vocabulary

MOST_CHOICES = 512
"""Masks with more tokens (the inside of a string) say too little of what comes next."""
_MOST_KNOWN = 100_000


@dataclass(slots=True)
class _Asked:
    """A place where a guess was made: how many tokens stood before it, those of the draft, and the mask."""

    num_tokens: int
    draft: tuple[int, ...]
    mask: int


class GrammarLookupProposer(Proposer):
    """Proposes forced tokens, and between them the token that was taken the last time a mask was the same.

    The colon, blank and quote behind the name of a property, or the comma behind a value: a grammar leaves a few ways
    to write them, and a model has one. Masks of all requests share one table, by a hash of their bits, so later ones
    gain from the first. A wrong guess costs what any wrong draft does.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._taken: dict[int, int] = {}  # by the hash of a mask
        self._asked: dict[int, list[_Asked]] = {}  # by slot
        self._row = torch.zeros(1, vocabulary.num_mask_words, dtype=torch.int32)

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        drafts: list[Draft] = []
        for view, grammar, length in zip(views, grammars, lengths, strict=True):
            self._learn(view)
            self._asked[view.slot] = []
            ids = [] if grammar is None or length < 1 else self._walk(view, grammar, length)
            drafts.append(Draft(tuple(ids[:length])))
        return drafts

    def release(self, slot: int) -> None:
        self._asked.pop(slot, None)

    def _learn(self, view: SequenceView) -> None:
        for asked in self._asked.get(view.slot, ()):
            place = asked.num_tokens + len(asked.draft)
            if len(view.token_ids) > place and tuple(view.token_ids[asked.num_tokens : place]) == asked.draft:
                self._taken[asked.mask] = view.token_ids[place]
        if len(self._taken) > _MOST_KNOWN:
            self._taken.clear()

    def _walk(self, view: SequenceView, grammar: Grammar, length: int) -> list[int]:
        """A draft, one place beyond it looked at: the token that comes there is learnt, too."""
        ids: list[int] = []
        before = grammar.num_accepted
        try:
            while not grammar.is_terminated and len(ids) <= length:
                more = grammar.forced_tokens() or self._remembered(view, grammar, ids)
                if not more or grammar.accept(more) < len(more):
                    break
                ids += more
        finally:
            grammar.rollback(grammar.num_accepted - before)
        return ids

    def _remembered(self, view: SequenceView, grammar: Grammar, ids: list[int]) -> list[int]:
        if grammar.fill_bitmask(self._row, 0) is not RowState.CONSTRAINED:
            return []
        words = self._row.numpy()[0]
        if int(np.bitwise_count(words.view(np.uint32)).sum()) > MOST_CHOICES:
            return []
        mask = hash(words.tobytes())
        self._asked[view.slot].append(_Asked(len(view.token_ids), tuple(ids), mask))
        return [self._taken[mask]] if mask in self._taken else []
