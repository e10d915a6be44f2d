import random

import pytest

from constrain import Vocabulary
from constrain.reasoning.markers import SPECIAL, MarkerMatcher, canonical_tokens, symbols_of_text, symbols_of_token
from tests.reasoning.tiny import ids, special, vocabulary


@pytest.mark.parametrize("seed", range(40))
def test_the_first_end_of_any_marker_is_found_where_a_plain_search_finds_it(seed: int) -> None:
    rng = random.Random(seed)
    markers = [tuple(rng.choices((97, 98, SPECIAL + 3), k=rng.randint(1, 5))) for _ in range(rng.randint(1, 3))]
    text = tuple(rng.choices((97, 98, SPECIAL + 3), k=60))
    matcher = MarkerMatcher(markers)
    ends = [end for end in range(1, 61) if any(text[:end][-len(marker) :] == marker for marker in markers)]
    place, count = matcher.walk(0, text)
    assert count == (ends[0] if ends else 60)
    assert (matcher.found[place] is not None) == bool(ends)
    if ends:
        number = matcher.found[place]
        assert number is not None and text[:count][-len(markers[number]) :] == markers[number]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_held_back_is_the_longest_end_that_begins_a_marker(seed: int) -> None:
    rng = random.Random(seed)
    markers = [tuple(rng.choices(b"ab", k=rng.randint(2, 5))) for _ in range(2)]
    matcher, place, text = MarkerMatcher(markers), 0, ()
    for symbol in rng.choices(b"ab", k=30):
        place, text = matcher.step(place, symbol), (*text, symbol)
        begun = [n for n in range(6) for marker in markers if n <= len(marker) and text[len(text) - n :] == marker[:n]]
        assert matcher.held[place] == max(begun)


def test_names_of_special_tokens_are_read_as_those_tokens() -> None:
    symbols = symbols_of_text("<|channel|>final<think>", vocabulary())
    assert symbols == (SPECIAL + special("<|channel|>"), *b"final", SPECIAL + special("<think>"))
    assert canonical_tokens(symbols, vocabulary()) == (
        special("<|channel|>"),
        *ids("f", "i", "n", "a", "l"),
        special("<think>"),
    )


def test_the_longer_of_two_names_wins() -> None:
    named = Vocabulary([b"", b"", b"", b"x"], stop_token_ids=[0], special_tokens={"<t>": 1, "<t>>": 2})
    assert symbols_of_text("<t>>x<t>x", named) == (SPECIAL + 2, ord("x"), SPECIAL + 1, ord("x"))


def test_an_id_past_the_vocabulary_writes_nothing() -> None:
    for token_id in (-1, -156, vocabulary().size, 2**70):
        assert symbols_of_token(token_id, vocabulary()) == ()
