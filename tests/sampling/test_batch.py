"""Slots keep their place on the device, and the host knows what they ask for."""

from dataclasses import fields
from typing import Any

import pytest

from constrain.errors import InvalidInputError
from constrain.sampling.batch import PersistentBatch, SlotRequest
from constrain.sampling.params import SamplingParams
from constrain.sampling.restrictions import resolve
from constrain.sampling.table import Features, SlotTable

SIZE = 50


def request(seed: int = 0, **given: Any) -> SlotRequest:
    params = SamplingParams(**given)
    return SlotRequest(params, seed, [1], [], resolve(params, SIZE, [2], lambda text: [5]))


def places(table: SlotTable) -> list[int]:
    return [getattr(table, each.name).data_ptr() for each in fields(table)]


def row(table: SlotTable, slot: int) -> list[Any]:
    return [getattr(table, each.name)[slot].item() for each in fields(table)]


def test_a_request_changes_its_own_slot_and_the_tensors_stay_where_they_are() -> None:
    batch = PersistentBatch(SIZE, 3, "cpu")
    before, others = places(batch.table), [row(batch.table, slot) for slot in (0, 2)]
    batch.add(1, request(2**64 - 1, temperature=0.5, top_k=7, top_p=0.25, min_p=0.125, draw="gumbel"))
    assert row(batch.table, 1) == [0.5, 7, 0.25, 0.125, -1, True]
    assert [row(batch.table, slot) for slot in (0, 2)] == others
    batch.remove(1)
    batch.add(1, request(2**63 - 1, temperature=9e-6, top_k=SIZE))
    assert row(batch.table, 1) == [0.0, 0, 1.0, 0.0, 2**63 - 1, False]
    assert places(batch.table) == before


def test_features_say_what_any_request_wants_and_greedy_ones_want_nothing() -> None:
    batch = PersistentBatch(SIZE, 4, "cpu")
    batch.add(0, request(temperature=0, top_k=40, top_p=0.5, min_p=0.5, draw="gumbel"))
    assert batch.features == Features()
    batch.add(1, request(top_k=5))
    assert batch.features == Features(drawn=True, max_top_k=5, all_top_k=True, inverse=True)
    batch.add(2, request(top_k=9, top_p=0.5, draw="gumbel"))
    everything = Features(drawn=True, max_top_k=9, all_top_k=True, top_p=True, inverse=True, gumbel=True)
    assert batch.features == everything
    batch.add(3, request(top_k=SIZE, min_p=0.5))
    assert batch.features.min_p and not batch.features.all_top_k
    batch.remove(3)
    assert batch.features == everything
    batch.remove(2)
    batch.remove(1)
    assert batch.features == Features()


def test_it_knows_which_slots_forbid_tokens_and_which_want_logprobs() -> None:
    batch = PersistentBatch(SIZE, 3, "cpu")
    batch.add(0, request(min_tokens=1, logprobs=0))
    batch.add(1, request(logit_bias={4: 1.0}, logprob_token_ids=[3]))
    assert (batch.restricted, batch.reported) == ({0}, {0, 1})
    batch.remove(0)
    assert (batch.restricted, batch.reported) == (set(), {1})


@pytest.mark.parametrize("slot", [-1, 3, 0])
def test_a_slot_that_is_not_free_is_refused(slot: int) -> None:
    batch = PersistentBatch(SIZE, 3, "cpu")
    batch.add(0, request())
    with pytest.raises(InvalidInputError, match=f"slot {slot}: want a free one"):
        batch.add(slot, request())
    with pytest.raises(InvalidInputError, match="holds no request"):
        batch.remove(1)
