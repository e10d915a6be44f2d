"""The masks of a draft against one token at a time, on every backend."""

import random

import pytest
import torch

from constrain.backends import make_backend
from constrain.grammar import Grammar, RowState
from constrain.grammar_spec import GrammarSpec, choice, json_object, regex
from constrain.spec.masks import fill_draft_bitmask
from constrain.vocabulary import Vocabulary
from tests.contract.conftest import make_tiny_vocabulary

VOCABULARY = make_tiny_vocabulary()
SPECS = [
    regex("(?:ab|日本?|é)*[a-c]{1,3}"),
    choice(["abc", "ab", "a", "true", "日本"]),
    json_object(),
    regex("[ab]{0,3}z"),  # no token writes a z: a dead end
]
POISON = 0x5A5A5A5A


def masks_one_by_one(grammar: Grammar, draft: list[int]) -> tuple[list[list[int]], list[RowState], int]:
    """By a fork that is advanced token by token."""
    walker, rows, states = grammar.fork(), [], []
    for token in [*draft, -1]:
        row = torch.zeros(1, VOCABULARY.num_mask_words, dtype=torch.int32)
        states.append(walker.fill_bitmask(row, 0))
        rows.append(row[0].tolist())
        if token < 0 or walker.validate([token]) == 0:
            break
        assert walker.accept([token]) == 1
    legal = len(rows) - 1
    return rows + [[-1] * VOCABULARY.num_mask_words] * (len(draft) - legal), states, legal


def random_draft(grammar: Grammar, rng: random.Random) -> list[int]:
    """Mostly legal tokens, the stop token among them; then anything, -1 and ids of no token too."""
    walker, draft = grammar.fork(), []
    for _ in range(rng.randint(0, 6)):
        legal = [t for t in range(VOCABULARY.size) if walker.validate([t])]
        if legal and rng.random() < 0.85:
            draft.append(rng.choice(legal))
            walker.accept(draft[-1:])
        else:
            draft.append(rng.choice([-1, VOCABULARY.size, 1, 10, 11]))
    return draft


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance", "trie"])
@pytest.mark.parametrize("grammar_spec", SPECS, ids=lambda spec: spec.text[:12])
def test_the_masks_of_a_draft_are_those_of_one_token_at_a_time(backend: str, grammar_spec: GrammarSpec) -> None:
    rng = random.Random(5)
    chosen = make_backend(backend, VOCABULARY)
    if chosen.unsupported(grammar_spec):
        pytest.skip("not enforced by this backend")
    compiled = chosen.compile(grammar_spec)
    for _ in range(25):
        grammar = compiled.start()
        grammar.accept(random_draft(grammar, rng))
        draft, before = random_draft(grammar, rng), grammar.num_accepted
        rows, states, legal = masks_one_by_one(grammar, draft)
        bitmask = torch.full((len(draft) + 4, VOCABULARY.num_mask_words), POISON, dtype=torch.int32)
        found = fill_draft_bitmask(bitmask, 2, grammar, draft, VOCABULARY)
        assert bitmask[2:-1].tolist() == rows
        assert (list(found.states), found.num_legal) == (states, legal)
        assert (bitmask[:2] == POISON).all() and (bitmask[-1] == POISON).all(), "wrote outside its rows"
        assert grammar.num_accepted == before
        assert masks_one_by_one(grammar, draft) == (rows, states, legal)


def test_a_request_without_a_constraint_has_free_rows_up_to_minus_one() -> None:
    bitmask = torch.zeros(5, VOCABULARY.num_mask_words, dtype=torch.int32)
    found = fill_draft_bitmask(bitmask, 0, None, [10, 11, -1, 12], VOCABULARY)
    assert found.num_legal == 2 and found.states == (RowState.FREE,) * 3
    free = [bool(bitmask[0, t // 32] >> (t % 32) & 1) for t in range(32 * VOCABULARY.num_mask_words)]
    assert free == [t < VOCABULARY.size for t in range(len(free))]
    assert (bitmask[:3] == bitmask[0]).all() and (bitmask[3:] == -1).all()
    assert fill_draft_bitmask(bitmask, 0, None, [10, VOCABULARY.size], VOCABULARY).num_legal == 1


class Failing(Exception):
    pass


def test_a_grammar_that_raises_is_put_back() -> None:
    vocabulary = Vocabulary([b"", b"a"], stop_token_ids=[0])
    grammar = make_backend("trie", vocabulary).compile(regex("a{9}")).start()
    fill, calls = grammar.fill_bitmask, []

    def failing(bitmask: torch.Tensor, row: int) -> RowState:
        calls.append(row)
        if len(calls) == 3:
            raise Failing
        return fill(bitmask, row)

    grammar.fill_bitmask = failing  # type: ignore[method-assign]
    with pytest.raises(Failing):
        fill_draft_bitmask(torch.zeros(5, 1, dtype=torch.int32), 0, grammar, [1, 1, 1], vocabulary)
    assert grammar.num_accepted == 0
