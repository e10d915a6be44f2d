"""Proposers one behind the other."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from constrain.errors import InvalidInputError
from constrain.grammar import Grammar
from constrain.source import SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.vocabulary import Vocabulary


class CombinedProposer(Proposer):
    """Each proposer goes on where the one before it stopped, until the length is reached: forced tokens first, say, and
    then a draft model that sees them. A later one is not asked behind a stop token or a token that the grammar refuses.
    """

    def __init__(self, proposers: Sequence[Proposer], vocabulary: Vocabulary) -> None:
        if not proposers:
            raise InvalidInputError("proposers=[]: want at least one")
        self._proposers = tuple(proposers)
        self._vocabulary = vocabulary

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        drafts = self._proposers[0].propose(views, grammars, lengths, keys)
        for proposer in self._proposers[1:]:
            open_rows = [row for row, draft in enumerate(drafts) if self._goes_on(draft, grammars[row], lengths[row])]
            if open_rows:
                more = self._behind(proposer, drafts, open_rows, views, grammars, lengths, keys)
                for row, draft in zip(open_rows, more, strict=True):
                    drafts[row] = _joined(drafts[row], draft)
        return drafts

    def release(self, slot: int) -> None:
        for proposer in self._proposers:
            proposer.release(slot)

    def _goes_on(self, draft: Draft, grammar: Grammar | None, length: int) -> bool:
        if len(draft) >= length or (draft.token_ids and draft.token_ids[-1] in self._vocabulary.stop_token_ids):
            return False
        return grammar is None or grammar.validate(draft.token_ids) == len(draft)

    def _behind(
        self,
        proposer: Proposer,
        drafts: Sequence[Draft],
        rows: Sequence[int],
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        ids = {row: drafts[row].token_ids for row in rows}
        advanced: list[tuple[Grammar, int]] = []
        try:
            for row in rows:
                grammar = grammars[row]
                if grammar is not None and ids[row]:
                    advanced.append((grammar, grammar.accept(ids[row])))
            return proposer.propose(
                [replace(views[row], token_ids=(*views[row].token_ids, *ids[row])) for row in rows],
                [grammars[row] for row in rows],
                [lengths[row] - len(ids[row]) for row in rows],
                [replace(keys[row], output_index=keys[row].output_index + len(ids[row])) for row in rows],
            )
        finally:
            for grammar, count in advanced:
                grammar.rollback(count)


def _joined(first: Draft, second: Draft) -> Draft:
    """One draft; certain tokens get probability 1 where the others have probabilities."""
    if not first.token_ids or not second.token_ids:
        return first if first.token_ids else second
    ids = (*first.token_ids, *second.token_ids)
    like = first.probabilities if first.probabilities is not None else second.probabilities
    if like is None:
        return Draft(ids)
    width, device = like.shape[1], like.device
    return Draft(ids, torch.cat([each.distributions(width, device) for each in (first, second)]))
