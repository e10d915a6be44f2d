"""Every output of a request has a seed of its own."""

import pytest

from constrain.errors import InvalidInputError
from constrain.sampling.seeds import output_seed


def test_the_first_output_has_the_seed_of_the_request_and_the_others_their_own() -> None:
    assert output_seed(5, 0) == 5
    seeds = [output_seed(seed, index) for seed in (0, 1, 5, 2**64 - 1) for index in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**64 for seed in seeds) and max(seeds) >= 2**63
    assert seeds == [output_seed(seed, index) for seed in (0, 1, 5, 2**64 - 1) for index in range(50)]


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (2**64, 0), (0, -1)])
def test_what_is_no_seed_is_refused(seed: int, index: int) -> None:
    with pytest.raises(InvalidInputError, match="want 64 bits"):
        output_seed(seed, index)
