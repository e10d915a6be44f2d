"""The door between a proposer and an engine: whatever a proposer does, no request fails."""

import operator
import warnings
from collections.abc import Sequence

from constrain.grammar import Grammar
from constrain.source import SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.vocabulary import Vocabulary


class GuardedProposer(Proposer):
    """Gives what ``proposer`` gives, made fit for verification.

    A proposer that raises, or returns anything but a draft for each view, costs its drafts of this step and is warned
    of once; so does a panic of a library underneath. A draft is cut to its length, to ids of the vocabulary, behind its
    first stop token and to what its grammar takes. A draft with probabilities keeps the first token that the grammar
    refuses: the target's probability of it is 0, and dropping it instead would bias what is drawn in its place.
    Grammars are put back where they stood.

    Parameters
    ----------
    probabilities:
        Whether the rule of verification asks for them; they are dropped where it does not.
    """

    def __init__(self, proposer: Proposer, vocabulary: Vocabulary, *, probabilities: bool = True) -> None:
        self._proposer = proposer
        self._vocabulary = vocabulary
        self._keeps_probabilities = probabilities
        self._has_warned = False

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        accepted = [0 if grammar is None else grammar.num_accepted for grammar in grammars]
        drafts: Sequence[Draft] = [Draft()] * len(views)
        try:
            made = self._proposer.propose(views, grammars, lengths, keys)
            if len(made) != len(views) or not all(isinstance(draft, Draft) for draft in made):
                raise TypeError(f"{len(views)} drafts were wanted")
            drafts = made
        except BaseException as exc:  # a panic of a Rust library is no Exception
            self._warn(exc)
        for view, grammar, before in zip(views, grammars, accepted, strict=True):
            if grammar is not None and grammar.num_accepted != before:
                self._put_back(view, grammar, before)
        return [
            self._fit(draft, grammar, length) for draft, grammar, length in zip(drafts, grammars, lengths, strict=True)
        ]

    def release(self, slot: int) -> None:
        try:
            self._proposer.release(slot)
        except BaseException as exc:
            self._warn(exc)

    def _put_back(self, view: SequenceView, grammar: Grammar, before: int) -> None:
        """A grammar that cannot be put back is found out when its mask is filled, and ends its request."""
        try:
            if grammar.num_accepted > before:
                grammar.rollback(grammar.num_accepted - before)
            else:
                grammar.accept(view.token_ids[len(view.token_ids) - (before - grammar.num_accepted) :])
        except BaseException as exc:
            self._warn(exc)

    def _warn(self, exc: BaseException) -> None:
        if isinstance(exc, KeyboardInterrupt | SystemExit | GeneratorExit):
            raise exc
        if not self._has_warned:
            self._has_warned = True
            name = type(self._proposer).__name__
            message = f"{name} raised {type(exc).__name__}: {exc}; its drafts are dropped, and requests go on without"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def _fit(self, draft: Draft, grammar: Grammar | None, length: int) -> Draft:
        try:
            return self._cut(self._checked(draft).cut(max(length, 0)), grammar)
        except BaseException as exc:
            self._warn(exc)
            return Draft()

    def _checked(self, draft: Draft) -> Draft:
        ids = tuple(map(operator.index, draft.token_ids))
        probabilities = draft.probabilities if self._keeps_probabilities else None
        if probabilities is not None and probabilities.shape != (len(ids), self._vocabulary.size):
            raise ValueError(
                f"probabilities of shape {tuple(probabilities.shape)} came with {len(ids)} tokens; want "
                f"{(len(ids), self._vocabulary.size)}"
            )
        return Draft(ids, probabilities)

    def _cut(self, draft: Draft, grammar: Grammar | None) -> Draft:
        for place, token_id in enumerate(draft.token_ids):
            if not 0 <= token_id < self._vocabulary.size:
                draft = draft.cut(place)
                break
            if token_id in self._vocabulary.stop_token_ids:
                draft = draft.cut(place + 1)
                break
        if grammar is None or not draft.token_ids:
            return draft
        num_legal = grammar.validate(draft.token_ids)
        return draft.cut(num_legal if draft.probabilities is None else num_legal + 1)
