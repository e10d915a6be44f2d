"""What may not be drawn, as bits."""

import numpy as np
import pytest
import torch

from constrain.errors import InvalidInputError, VocabularyError
from constrain.sampling.params import SamplingParams
from constrain.sampling.restrictions import Restrictions, resolve
from tests.sampling.requests import spelled

SIZE, STOP = 100, 2
A, B, C = spelled("abc")


def restrictions(**fields: object) -> Restrictions:
    return resolve(SamplingParams(**fields), SIZE, [STOP], spelled)  # type: ignore[arg-type]


def left(
    made: Restrictions, output: list[int], drafts: list[int] | None = None, legal: set[int] | None = None
) -> set[int]:
    """The ids that a row allows after it was restricted."""
    return restricted(made, output, drafts or [], set(range(SIZE)) if legal is None else legal)[0]


def restricted(made: Restrictions, output: list[int], drafts: list[int], legal: set[int]) -> tuple[set[int], bool]:
    bits = np.zeros(160, bool)  # two words wider than the vocabulary
    bits[list(legal)] = True
    row = torch.from_numpy(np.packbits(bits, bitorder="little").view(np.int32))
    yielded = made.restrict_(row, output, drafts)
    after = np.unpackbits(row.numpy().view(np.uint8), bitorder="little")
    return set(np.flatnonzero(after).tolist()), yielded


def test_nothing_asked_needs_no_mask() -> None:
    made = restrictions(logit_bias={5: 2.0}, stop_token_ids=[7])
    assert not made.needs_mask(0) and left(made, []) == set(range(SIZE))


def test_only_allowed_ids_are_left_and_the_stop_token_is_no_exception() -> None:
    made = restrictions(allowed_token_ids=[31, 32, 99])
    assert made.needs_mask(10**6) and left(made, []) == {31, 32, 99}
    assert left(made, [], legal={STOP, 32}) == {32}


def test_a_bias_of_minus_infinity_forbids() -> None:
    made = restrictions(logit_bias={31: float("-inf"), 5: -3.0}, allowed_token_ids=[5, 31, 63])
    assert left(made, []) == {5, 63}


def test_bad_words_are_matched_across_the_end_of_the_output_and_in_drafts() -> None:
    made = restrictions(bad_words=["abc"])
    everything = set(range(SIZE))
    assert left(made, [A, B]) == everything - {C}
    assert left(made, [A], [B]) == everything - {C}
    assert left(made, [], [A, B]) == everything - {C}
    assert left(made, [A, B], [A]) == everything
    assert left(made, [B]) == left(made, []) == everything
    assert left(made, [A + 26, B]) == everything - {C}, "with a space before it"
    assert left(made, [C, A, B, A], [B]) == everything - {C}


def test_bad_words_of_one_token_are_forbidden_everywhere_in_both_forms() -> None:
    made = restrictions(bad_words=[" b", "c"])
    assert left(made, []) == set(range(SIZE)) - {B, B + 26, C, C + 26}


def test_a_bad_word_that_has_no_tokens_is_refused_and_named() -> None:
    def fails(text: str) -> list[int]:
        raise VocabularyError("no")

    with pytest.raises(InvalidInputError, match=r"bad_words.*'é'"):
        resolve(SamplingParams(bad_words=["é"]), SIZE, [STOP], fails)
    only_bare = resolve(
        SamplingParams(bad_words=["a"]), SIZE, [STOP], lambda text: fails(text) if " " in text else spelled(text)
    )
    assert left(only_bare, []) == set(range(SIZE)) - {A}, "a space that no token writes cannot be drawn"


def test_minimum_length_counts_output_and_drafts_and_holds_back_all_that_ends() -> None:
    made = restrictions(min_tokens=3, stop_token_ids=[40])
    assert left(made, [A]) == left(made, [A], [A]) == set(range(SIZE)) - {STOP, 40}
    assert left(made, [A], [A, A]) == left(made, [A, A, A]) == set(range(SIZE))
    assert made.needs_mask(2) and not made.needs_mask(3)


def test_minimum_length_does_not_hold_back_a_stop_token_that_is_ignored() -> None:
    made = restrictions(min_tokens=3, ignore_eos=True)
    assert made.ending_ids == frozenset() and not made.needs_mask(0)


def test_minimum_length_yields_where_only_the_end_is_left_and_says_so() -> None:
    made = restrictions(min_tokens=3, stop_token_ids=[40], bad_words=["a"])
    assert restricted(made, [], [], {STOP, 40}) == ({STOP, 40}, True)
    assert restricted(made, [], [], {STOP, A}) == ({STOP}, True), "bad words do not yield"
    assert restricted(made, [], [], {STOP, B}) == ({B}, False)
    assert restricted(made, [], [], {A}) == (set(), False), "nothing was left to yield to"


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_token_ids": [SIZE, 1]},
        {"logit_bias": {SIZE: 1.0}},
        {"stop_token_ids": [SIZE]},
        {"logprob_token_ids": [SIZE]},
        {"logprobs": SIZE + 1},
        {"prompt_logprobs": SIZE + 1},
    ],
)
def test_ids_and_counts_past_the_vocabulary_are_refused_and_named(fields: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(fields))):
        restrictions(**fields)
    restrictions(logprobs=SIZE, prompt_logprobs=-1, allowed_token_ids=[SIZE - 1])
