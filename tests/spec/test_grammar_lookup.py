"""Guesses from what a mask was answered with before."""

from constrain.backends import make_backend
from constrain.grammar import Grammar
from constrain.grammar_spec import regex
from constrain.sampling.params import SamplingParams
from constrain.source import SequenceView
from constrain.spec.draft import DrawKey
from constrain.spec.grammar_lookup import GrammarLookupProposer
from tests.tiny import ONE, SPACE, TWO, A, B, tiny_vocabulary

VOCABULARY = tiny_vocabulary()
KEY = DrawKey(SamplingParams(), 0, 0)


def grammar_of(pattern: str) -> Grammar:
    return make_backend("trie", VOCABULARY).compile(regex(pattern)).start()


def drafts_along(proposer: GrammarLookupProposer, slot: int, pattern: str, output: list[int]) -> list[tuple[int, ...]]:
    """What is drafted before each token of an output that comes one token at a time."""
    grammar, found = grammar_of(pattern), []
    for place, token_id in enumerate(output):
        view = SequenceView(slot, (A, *output[:place]))
        [draft] = proposer.propose([view], [grammar], [4], [KEY])
        assert grammar.num_accepted == place
        found.append(draft.token_ids)
        assert grammar.accept([token_id]) == 1
    return found


def test_the_same_mask_is_answered_as_the_last_time() -> None:
    proposer = GrammarLookupProposer(VOCABULARY)
    pattern = "(?:[ab] ?[12]){3}"
    output = [A, SPACE, ONE, A, SPACE, ONE, A, ONE]
    drafts = drafts_along(proposer, 0, pattern, output)
    assert drafts[0] == ()  # nothing is known
    assert drafts[3] == (A, SPACE, ONE, A)  # the masks of the first round
    assert drafts_along(proposer, 1, pattern, [B, TWO, B, ONE, A, ONE])[0][:1] == (A,)  # another request gains from it


def test_forced_text_needs_no_memory_and_a_wide_mask_gets_no_guess() -> None:
    proposer = GrammarLookupProposer(VOCABULARY)
    assert drafts_along(proposer, 0, "12a", [ONE, TWO, A])[0][:2] == (ONE, TWO)
    [draft] = proposer.propose([SequenceView(0, (A,))], [None], [4], [KEY])
    assert draft.token_ids == ()


def test_a_draft_is_no_longer_than_wanted_and_a_slot_is_forgotten() -> None:
    proposer = GrammarLookupProposer(VOCABULARY)
    drafts_along(proposer, 0, "[ab]{9}", [A] * 9)
    for length in range(5):
        [draft] = proposer.propose([SequenceView(1, (A,))], [grammar_of("[ab]{9}")], [length], [KEY])
        assert draft.token_ids == (A,) * length
    proposer.release(0)
    proposer.release(7)
    assert not proposer._asked.get(0)
