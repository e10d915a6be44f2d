"""Prompt lookup against a search by brute force."""

import random

import pytest

from constrain.backends import make_backend
from constrain.errors import InvalidInputError
from constrain.grammar_spec import regex
from constrain.sampling.params import SamplingParams
from constrain.source import SequenceView
from constrain.spec.draft import DrawKey
from constrain.spec.ngram import NgramProposer
from tests.tiny import AB, COLON, ONE, TWO, A, B, tiny_vocabulary

KEY = DrawKey(SamplingParams(), 0, 0)


def drafted(proposer: NgramProposer, tokens: list[int], length: int, slot: int = 0) -> list[int]:
    [draft] = proposer.propose([SequenceView(slot, tokens)], [None], [length], [KEY])
    assert draft.probabilities is None
    return list(draft.token_ids)


def by_brute_force(tokens: list[int], min_n: int, max_n: int, length: int) -> list[int]:
    for n in range(min(max_n, len(tokens) - 1), min_n - 1, -1):
        for start in range(len(tokens) - n):
            if tokens[start : start + n] == tokens[-n:]:
                return tokens[start + n : start + n + length]
    return []


def test_the_longest_match_counts_and_the_earliest_of_its_places() -> None:
    proposer = NgramProposer(1, 3)
    assert drafted(proposer, [1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 2) == [9, 2]
    assert drafted(proposer, [2, 3, 9, 2, 3, 8, 7, 2, 3], 9) == [9, 2, 3, 8, 7, 2, 3]
    assert drafted(NgramProposer(2, 3), [3, 9, 1, 3], 2) == []
    assert drafted(proposer, [4, 4, 4], 3) == [4]
    assert drafted(proposer, [4], 3) == drafted(proposer, [4, 5], 3) == drafted(proposer, [4, 4], 0) == []


def test_drafts_equal_brute_force_while_slots_grow_and_change_hands() -> None:
    rng = random.Random(2)
    for min_n, max_n in ((1, 1), (1, 3), (2, 4), (3, 3)):
        proposer = NgramProposer(min_n, max_n)
        sequences: dict[int, list[int]] = {}
        for _ in range(400):
            slot = rng.randrange(3)
            if rng.random() < 0.05:
                sequences[slot] = [rng.randrange(3) for _ in range(rng.randint(1, 300))]  # another request, unreleased
            tokens = sequences.setdefault(slot, [0])
            tokens += [rng.randrange(3) for _ in range(rng.randrange(4))]
            length = rng.randrange(6)
            assert drafted(proposer, tokens, length, slot) == by_brute_force(tokens, min_n, max_n, length), tokens


def test_a_released_slot_starts_anew() -> None:
    proposer = NgramProposer()
    assert drafted(proposer, [1, 2, 1], 1) == [2]
    proposer.release(0)
    proposer.release(5)
    assert drafted(proposer, [1, 3, 1], 1) == [3]


@pytest.mark.parametrize(("min_n", "max_n"), [(0, 2), (3, 2)])
def test_lengths_that_make_no_sense_are_refused(min_n: int, max_n: int) -> None:
    with pytest.raises(InvalidInputError):
        NgramProposer(min_n, max_n)


def test_under_a_grammar_the_first_place_counts_whose_next_token_is_legal() -> None:
    grammar = make_backend("trie", tiny_vocabulary()).compile(regex("(?:ab|b):[12]+")).start()
    assert grammar.accept([AB]) == 1
    proposer = NgramProposer(1, 3)

    def draft(tokens: list[int]) -> tuple[int, ...]:
        return proposer.propose([SequenceView(0, tokens)], [grammar], [3], [KEY])[0].token_ids

    assert draft([B, AB, TWO, A, AB, COLON, ONE, AB, B, AB]) == (COLON, ONE, AB)
    assert draft([AB, TWO, AB, A, AB]) == ()
    # The longest match goes on with what the grammar refuses, a shorter one does not.
    assert draft([AB, COLON, ONE, A, AB, TWO, A, AB]) == (COLON, ONE, A)
    assert grammar.num_accepted == 1
