"""Forced, combined and guarded proposers."""

import warnings
from collections.abc import Sequence

import pytest
import torch

from constrain.backends import make_backend
from constrain.errors import InvalidInputError
from constrain.grammar import Grammar
from constrain.grammar_spec import regex
from constrain.sampling.params import SamplingParams
from constrain.source import SequenceView
from constrain.spec.combined import CombinedProposer
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.spec.forced import ForcedTokensProposer
from constrain.spec.guarded import GuardedProposer
from tests.tiny import AB, COLON, EOS, ONE, OPEN, QUOTE, TWO, A, B, tiny_vocabulary

VOCABULARY = tiny_vocabulary()
KEY = DrawKey(SamplingParams(), 0, 4)


def grammar_of(pattern: str) -> Grammar:
    return make_backend("trie", VOCABULARY).compile(regex(pattern)).start()


class Scripted(Proposer):
    """Always the same draft; keeps what it was asked, and where the grammars stood."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.asked: list[tuple[tuple[int, ...], int, int, int]] = []
        self.released: list[int] = []

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        for view, grammar, length, key in zip(views, grammars, lengths, keys, strict=True):
            accepted = -1 if grammar is None else grammar.num_accepted
            self.asked.append((tuple(view.token_ids), accepted, length, key.output_index))
        return [self.draft for _ in views]

    def release(self, slot: int) -> None:
        self.released.append(slot)


def propose(proposer: Proposer, grammar: Grammar | None, length: int) -> Draft:
    [draft] = proposer.propose([SequenceView(0, [A])], [grammar], [length], [KEY])
    return draft


def test_forced_tokens_are_proposed_up_to_the_length() -> None:
    grammar = grammar_of('\\{"ab":(?:1|2)')
    whole = grammar.forced_tokens()
    assert propose(ForcedTokensProposer(), grammar, 9).token_ids == tuple(whole) == (OPEN, QUOTE, AB, QUOTE, COLON)
    assert propose(ForcedTokensProposer(), grammar, 2).token_ids == (OPEN, QUOTE)
    assert propose(ForcedTokensProposer(), grammar, 0) == propose(ForcedTokensProposer(), None, 5) == Draft()


def test_the_second_proposer_goes_on_behind_the_first_and_grammars_come_back() -> None:
    second = Scripted(Draft((ONE, TWO, ONE)))
    combined = CombinedProposer([ForcedTokensProposer(), second], VOCABULARY)
    grammar = grammar_of("\\{:[12]+")
    assert propose(combined, grammar, 4).token_ids == (OPEN, COLON, ONE, TWO, ONE)
    assert second.asked == [((A, OPEN, COLON), 2, 2, 6)] and grammar.num_accepted == 0
    assert propose(GuardedProposer(combined, VOCABULARY), grammar, 4).token_ids == (OPEN, COLON, ONE, TWO)
    combined.release(3)
    assert second.released == [3]


def test_the_second_proposer_is_not_asked_behind_a_stop_a_full_or_an_illegal_draft() -> None:
    second = Scripted(Draft((ONE,)))
    for first, grammar in (
        (Draft((A, EOS)), None),
        (Draft((A, A, A)), None),
        (Draft((A, B)), grammar_of("aa+")),
    ):
        combined = CombinedProposer([Scripted(first), second], VOCABULARY)
        assert propose(combined, grammar, 3) == first
    assert second.asked == []
    with pytest.raises(InvalidInputError):
        CombinedProposer([], VOCABULARY)


def test_certain_tokens_have_probability_one_beside_drawn_ones() -> None:
    drawn = Draft((ONE,), torch.full((1, VOCABULARY.size), 1 / VOCABULARY.size))
    for order in ([Scripted(Draft((A,))), Scripted(drawn)], [Scripted(drawn), Scripted(Draft((A,)))]):
        draft = propose(CombinedProposer(order, VOCABULARY), None, 4)
        assert draft.probabilities is not None
        certain = draft.probabilities[draft.token_ids.index(A)]
        assert certain[A] == certain.sum() == 1
        assert draft.probabilities[draft.token_ids.index(ONE)].max() == pytest.approx(1 / VOCABULARY.size)


def test_drafts_are_cut_to_what_can_be_verified() -> None:
    def cut(*token_ids: int, pattern: str | None = None, length: int = 9) -> tuple[int, ...]:
        proposer = GuardedProposer(Scripted(Draft(token_ids)), VOCABULARY)
        return propose(proposer, None if pattern is None else grammar_of(pattern), length).token_ids

    assert cut(A, B, A, length=2) == (A, B) and cut(A, length=-1) == ()
    assert cut(A, -1, B) == cut(A, VOCABULARY.size, B) == (A,)
    assert cut(A, EOS, B) == (A, EOS)
    assert cut(A, B, A, pattern="ab[12]") == (A, B)
    assert cut(A, EOS, pattern="ab") == (A,)


def test_a_drawn_draft_keeps_its_first_illegal_token() -> None:
    drawn = Draft((A, A, A, A), torch.ones(4, VOCABULARY.size))
    draft = propose(GuardedProposer(Scripted(drawn), VOCABULARY), grammar_of("aab"), 9)
    assert draft.token_ids == (A, A, A)
    assert draft.probabilities is not None and len(draft.probabilities) == 3


class Raising(Proposer):
    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        for grammar in grammars:
            if grammar is not None:
                grammar.accept([A])
        raise RuntimeError("no memory")

    def release(self, slot: int) -> None:
        raise RuntimeError("unknown slot")


def test_a_proposer_that_raises_costs_its_drafts_and_is_warned_of_once() -> None:
    proposer, grammar = GuardedProposer(Raising(), VOCABULARY), grammar_of("ab")
    with pytest.warns(RuntimeWarning, match="Raising raised RuntimeError: no memory"):
        assert propose(proposer, grammar, 3) == Draft()
    assert grammar.num_accepted == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert propose(proposer, grammar, 3) == Draft()
        proposer.release(0)


def test_a_proposer_that_returns_anything_else_counts_as_raising() -> None:
    class Short(Scripted):
        def propose(self, *args: object) -> list[Draft]:  # type: ignore[override]
            return []

    with pytest.warns(RuntimeWarning, match="1 drafts were wanted"):
        assert propose(GuardedProposer(Short(Draft()), VOCABULARY), None, 3) == Draft()
