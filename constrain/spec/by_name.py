"""Proposers by name."""

from collections.abc import Callable

from constrain.errors import InvalidInputError
from constrain.spec.combined import CombinedProposer
from constrain.spec.draft import Proposer
from constrain.spec.forced import ForcedTokensProposer
from constrain.spec.grammar_lookup import GrammarLookupProposer
from constrain.spec.ngram import NgramProposer
from constrain.vocabulary import Vocabulary

_MAKERS: dict[str, Callable[[Vocabulary], Proposer]] = {
    "forced": lambda _: ForcedTokensProposer(),
    "grammar": GrammarLookupProposer,
    "ngram": lambda _: NgramProposer(),
}


def make_proposer(name: str, vocabulary: Vocabulary) -> Proposer:
    """``"forced"``, ``"grammar"`` (forced, and what a mask was answered with before), ``"ngram"``, or several joined by
    ``+``, each going on where the one before it stopped.

    Raises ``InvalidInputError`` for another name.
    """
    parts = name.split("+") if isinstance(name, str) else []
    if not parts or any(part not in _MAKERS for part in parts):
        known = ", ".join(map(repr, sorted(_MAKERS)))
        raise InvalidInputError(f"proposer={name!r}: want {known}, several joined by '+', or a Proposer")
    proposers: list[Proposer] = [_MAKERS[part](vocabulary) for part in parts]
    return proposers[0] if len(proposers) == 1 else CombinedProposer(proposers, vocabulary)
