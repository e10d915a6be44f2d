"""Jump-forward as a draft: the tokens of the text that a grammar forces."""

from collections.abc import Sequence

from constrain.grammar import Grammar
from constrain.source import SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer


class ForcedTokensProposer(Proposer):
    """Proposes the canonical tokens of forced text. They are verified like any draft, so that a model which would write
    the text with other tokens may do so."""

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        return [
            Draft() if grammar is None or length < 1 else Draft(tuple(grammar.forced_tokens()[:length]))
            for grammar, length in zip(grammars, lengths, strict=True)
        ]
