"""Counts by hand."""

import pytest

from constrain.spec.statistics import SpecStatistics


def test_drafts_are_counted_by_position() -> None:
    statistics = SpecStatistics()
    statistics.add_step([3, 0, 2], [1, 0, 2], seconds=0.5)
    statistics.add_step([3], [3], seconds=1.5)
    assert (statistics.num_drafts, statistics.num_proposed, statistics.num_accepted) == (3, 8, 6)
    assert (statistics.proposed_by_position, statistics.accepted_by_position) == ([3, 3, 2], [3, 2, 1])
    assert statistics.acceptance_by_position == (1.0, pytest.approx(2 / 3), 0.5)
    assert statistics.acceptance_length == 3.0 and statistics.acceptance_rate == 0.75
    assert (statistics.accepted_per_second, statistics.proposed_per_second) == (3.0, 4.0)


def test_merged_counts_are_counts_of_all() -> None:
    one, other, both = SpecStatistics(), SpecStatistics(), SpecStatistics()
    for statistics, steps in ((one, [(1, 0)]), (other, [(4, 2), (2, 2)]), (both, [(1, 0), (4, 2), (2, 2)])):
        for proposed, accepted in steps:
            statistics.add(proposed, accepted)
    one.merge(other)
    assert one == both


def test_without_drafts_a_step_gives_one_token() -> None:
    statistics = SpecStatistics()
    statistics.add(0, 0)
    assert (statistics.acceptance_length, statistics.acceptance_rate, statistics.num_drafts) == (1.0, 0.0, 0)
    assert statistics.accepted_per_second == 0.0
