"""Index tables against loops over tokens."""

import random

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.spec.metadata import SpecDecodeMetadata


def test_rows_are_found_among_the_positions_of_drafts_and_prompts() -> None:
    metadata = SpecDecodeMetadata.make(
        [3, 0, 2, 0, 1], [1, 2, 3, 105, 106, 208], cu_num_positions=[4, 104, 107, 207, 209]
    )
    assert metadata.logits_indices.tolist() == [0, 1, 2, 3, 103, 104, 105, 106, 206, 207, 208]
    assert metadata.target_logits_indices.tolist() == [0, 1, 2, 5, 6, 9]
    assert metadata.bonus_logits_indices.tolist() == [3, 4, 7, 8, 10]
    assert metadata.cu_num_drafts.tolist() == [3, 3, 5, 5, 6] and metadata.max_drafts == 3
    assert metadata.draft_token_ids.tolist() == [1, 2, 3, 105, 106, 208]
    assert (len(metadata), metadata.num_rows) == (5, 11)


def test_ragged_batches_equal_a_loop_over_their_tokens() -> None:
    rng = random.Random(3)
    for _ in range(50):
        counts = [rng.choice([0, 0, 1, 2, 5]) for _ in range(rng.randint(1, 9))]
        extra = [rng.choice([0, 0, 7]) for _ in counts]
        ends, logits, target, bonus, places, requests = [], [], [], [], [], []
        end = row = 0
        for request, (count, more) in enumerate(zip(counts, extra, strict=True)):
            end += count + 1 + more
            ends.append(end)
            for place in range(count + 1):
                logits.append(end - count - 1 + place)
                (target if place < count else bonus).append(row)
                places.append(place)
                requests.append(request)
                row += 1
        metadata = SpecDecodeMetadata.make(counts, range(sum(counts)), cu_num_positions=ends)
        assert metadata.logits_indices.tolist() == logits
        assert metadata.target_logits_indices.tolist() == target
        assert metadata.bonus_logits_indices.tolist() == bonus
        assert metadata.row_requests.tolist() == requests
        by_position = metadata.rows_by_position.tolist()
        assert by_position == sorted(range(row), key=lambda each: (places[each], each))
        assert metadata.requests_by_position.tolist() == [requests[each] for each in by_position]
        assert metadata.places_by_position.tolist() == [places[each] for each in by_position]
        plain = SpecDecodeMetadata.make(counts, range(sum(counts)))
        assert plain.logits_indices.tolist() == list(range(row))


def test_all_is_int64_and_a_batch_without_drafts_has_its_bonus_rows() -> None:
    metadata = SpecDecodeMetadata.make([0, 0], [])
    assert metadata.bonus_logits_indices.tolist() == [0, 1] and metadata.max_drafts == 0
    assert metadata.draft_token_ids.dtype == metadata.num_drafts.dtype == torch.int64
    assert not len(metadata.draft_token_ids) and not len(metadata.target_logits_indices)


@pytest.mark.parametrize(
    ("counts", "drafts", "ends"),
    [([2], [1], None), ([-1], [], None), ([1], [5], [1]), ([1, 0], [5], [2, 2]), ([1], [5], [2, 3])],
)
def test_numbers_that_do_not_fit_are_refused(counts: list[int], drafts: list[int], ends: list[int] | None) -> None:
    with pytest.raises(InvalidInputError):
        SpecDecodeMetadata.make(counts, drafts, cu_num_positions=ends)
