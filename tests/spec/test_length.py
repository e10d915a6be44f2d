"""How many tokens are drafted."""

import pytest

from constrain.errors import InvalidInputError
from constrain.spec.length import AdaptiveLength, ConstantLength, LengthByBatch


def test_ranges_are_inclusive_and_gaps_carry() -> None:
    length = LengthByBatch([(1, 4, 5), (8, 16, 3), (17, 64, 0)])
    assert [length.length(size) for size in (1, 4, 5, 7, 8, 16, 17, 64, 65, 999)] == [5, 5, 5, 5, 3, 3, 0, 0, 0, 0]
    assert length.max_length == 5
    assert ConstantLength(3).length(1) == ConstantLength(3).length(99) == ConstantLength(3).max_length == 3


@pytest.mark.parametrize("ranges", [[], [(2, 4, 1)], [(1, 4, 1), (4, 5, 1)], [(1, 0, 1)], [(1, 2, -1)]])
def test_ranges_that_overlap_or_begin_late_are_refused(ranges: list[tuple[int, int, int]]) -> None:
    with pytest.raises(InvalidInputError):
        LengthByBatch(ranges)


def test_the_adaptive_length_falls_with_the_acceptance_and_rises_again() -> None:
    length = AdaptiveLength(6, token_cost=0.1, momentum=0.5)
    assert length.length(8) == 6
    for _ in range(20):
        length.observe([length.length(8)] * 4, [0, 0, 0, 1])
    assert length.length(8) == 1
    for _ in range(20):
        k = length.length(8)
        length.observe([k] * 4, [k] * 4)
    assert length.length(8) == 6


def test_the_adaptive_length_maximises_tokens_over_cost() -> None:
    length = AdaptiveLength(3, token_cost=0.2, momentum=0.0)
    length.observe([3] * 10, [0] * 2 + [1] * 4 + [3] * 4)  # a = 8/10, 4/8, 4/4
    assert length.acceptance == (0.8, 0.5, 1.0)
    speeds = [1 / 1.0, 1.8 / 1.2, 2.2 / 1.4, 2.6 / 1.6]
    assert length.length(1) == max(range(1, 4), key=lambda k: speeds[k]) == 3
    length.observe([3] * 10, [0] * 9 + [3])
    assert length.acceptance == (0.1, 1.0, 1.0) and length.length(1) == 1


def test_positions_that_no_draft_reached_count_like_the_one_before() -> None:
    length = AdaptiveLength(4, momentum=0.0)
    length.observe([2, 0], [1, 0])
    assert length.acceptance == (1.0, 0.0, 0.0, 0.0)
    with pytest.raises(InvalidInputError):
        AdaptiveLength(2, min_length=3)
