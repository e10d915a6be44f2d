"""Where to go back to from a dead end."""

from constrain.engine.active import ActiveRequest

TRIES_AT_ONE_PLACE = 3
"""Tokens that are banned at one output index before a place further back is tried."""


def place_to_rewind_to(sequence: ActiveRequest) -> int | None:
    """The output index whose token is to be banned and drawn anew; None where nothing is left to try. Never one of the
    tokens that the grammar calls settled, such as thinking.

    One token back first, then to the first token of the innermost open value of the grammar, then of the values around
    it; where a grammar knows no values, ever twice as far.
    """
    return next((place for place in _places_left(sequence) if place >= sequence.num_fixed), None)


def is_fixed(sequence: ActiveRequest) -> bool:
    """Whether a place is left to try, were its tokens not handed out for good."""
    return any(place < sequence.num_fixed for place in _places_left(sequence))


def _places_left(sequence: ActiveRequest) -> list[int]:
    settled = 0 if sequence.grammar is None else sequence.grammar.num_settled
    return [
        place
        for place in _places(sequence)
        if place >= settled and len(sequence.bans.get(place, ())) < TRIES_AT_ONE_PLACE
    ]


def _places(sequence: ActiveRequest) -> list[int]:
    end = sequence.num_output
    starts = sequence.grammar.value_starts() if sequence.grammar is not None else []
    if not starts:
        return [end - step for step in (1 << power for power in range(end.bit_length())) if step <= end]
    return list(dict.fromkeys(place for place in (end - 1, *reversed(starts)) if 0 <= place < end))
