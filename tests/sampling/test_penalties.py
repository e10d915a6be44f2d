"""The state behind penalties: whatever was added and taken back, it is the state made from what is there."""

import random
from collections import Counter
from typing import Any

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.ops.pages import PAGE, Pages, _add_torch, _add_triton
from constrain.sampling.penalties import PenaltyState
from tests.sampling.penalty_oracle import Wish

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # on the CPU, kernels are interpreted


def numbers_of(pages: Pages | None, slot: int) -> dict[int, float]:
    """Those of a slot that are not 0, found through the list, and every one of them again through the table."""
    if pages is None:
        return {}
    base, used = int(pages.base[slot]), int(pages.used[slot])
    table = pages.table[slot].tolist()
    found = {}
    for place in range(used):
        page = int(pages.numbers[base + place])
        assert table[page] == place + 1
        for lane, cell in enumerate(pages.cells[base + place].tolist()):
            if cell:
                found[page * PAGE + lane] = cell
    assert sum(entry != 0 for entry in table) == used
    return found


def cells_of(wish: Wish) -> dict[int, float]:
    if (wish.repetition, wish.presence, wish.frequency) == (1, 0, 0):
        return {}
    prompt = set(wish.prompt) if wish.repetition != 1 else set()
    counts = Counter(wish.output)
    return {token: 2 * counts[token] + (token in prompt) for token in {*counts, *prompt}}


def assert_is(state: PenaltyState, slots: dict[int, Wish], num_slots: int) -> None:
    adjustments = state.adjustments
    for slot in range(num_slots):
        wish = slots.get(slot, Wish())
        if adjustments is None:
            assert not wish.bias and not cells_of(wish)
            continue
        assert numbers_of(adjustments.counts, slot) == cells_of(wish)
        bias = {token: torch.tensor(value).item() for token, value in wish.bias.items()}
        assert numbers_of(adjustments.bias, slot) == bias
        columns = (adjustments.repetition, adjustments.presence, adjustments.frequency)
        wanted = torch.tensor([wish.repetition, wish.presence, wish.frequency]).tolist()
        assert [float(column[slot]) for column in columns] == wanted


@pytest.mark.parametrize("width", [1, 33, 700, 32001])
@pytest.mark.parametrize("seed", range(4))
def test_any_history_leaves_the_state_made_from_scratch(width: int, seed: int) -> None:
    rng = random.Random(seed * 31 + width)
    num_slots = 5
    state = PenaltyState(num_slots, width, DEVICE)
    slots: dict[int, Wish] = {}

    def ids(most: int) -> list[int]:
        return [min(int(rng.expovariate(6 / width)), width - 1) for _ in range(rng.randrange(most))]

    for step in range(80):
        slot = rng.randrange(num_slots)
        if slot not in slots:
            slots[slot] = Wish(
                rng.choice([1.0, 1.5]), rng.choice([0.0, 0.5]), rng.choice([0.0, 0.25]),
                {token: rng.uniform(1, 2) for token in ids(9)} if rng.random() < 0.4 else {},
                ids(60), ids(5),
            )  # fmt: skip
            slots[slot].enter(state, slot, max_new_tokens=rng.choice([1, 4, 10_000]))
        elif rng.random() < 0.08:
            state.remove(slot)
            del slots[slot]
        elif rng.random() < 0.3:
            wish = slots[slot]
            kept = rng.randrange(len(wish.output) + 1)
            state.uncommit(slot, wish.output[kept:])
            wish.output = wish.output[:kept]
        else:
            some = rng.sample(sorted(slots), rng.randrange(1, len(slots) + 1))
            new = [ids(rng.choice([2, 8, 150])) for _ in some]
            state.commit(some, new)
            for each, tokens in zip(some, new, strict=True):
                slots[each].output = [*slots[each].output, *tokens]
        if step % 8 == 7:
            assert_is(state, slots, num_slots)
    for slot in slots:
        state.remove(slot)
    assert state.adjustments is None


@pytest.mark.parametrize("amount", [2, -2])
@pytest.mark.parametrize("num_tokens", [1, 3, 64])
def test_the_kernel_counts_as_its_torch_twin(num_tokens: int, amount: int) -> None:
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(num_tokens)
    states = []
    for add in (_add_torch, _add_triton):
        state = PenaltyState(9, 1000, DEVICE)
        for slot in range(9):
            state.add(slot, prompt_ids=range(0, 100 * slot, 7), repetition=1.5)
        assert state.adjustments is not None and state.adjustments.counts is not None
        generator.manual_seed(num_tokens)
        tokens = torch.randint(-1, 300, (6, num_tokens), generator=generator)
        slots = torch.tensor([8, 0, 3, 4, 1, 2])[:, None]
        add(state.adjustments.counts, torch.cat([slots, tokens], dim=1).to(DEVICE, torch.int32), amount)
        states.append([numbers_of(state.adjustments.counts, slot) for slot in range(9)])
    assert states[0] == states[1]
    assert any(abs(cell) > 2 for cell in states[0][0].values()) or num_tokens < 64


def test_a_slot_that_asks_for_nothing_costs_nothing() -> None:
    state = PenaltyState(4, 100, DEVICE)
    state.add(0, prompt_ids=[1, 2], output_ids=[3], max_new_tokens=5)
    state.commit([0], [[1, 2, 3]])
    state.uncommit(0, [3])
    assert state.adjustments is None
    state.add(1, presence=1.0)
    adjustments = state.adjustments
    assert adjustments is not None and adjustments.bias is None and adjustments.counts is not None
    assert len(adjustments.counts.cells) < 20  # pages; none of them the other slots'


def test_the_pool_is_bounded_by_the_tokens_and_used_again() -> None:
    state = PenaltyState(8, 16 * 4096, DEVICE)
    rng = random.Random(0)
    for _ in range(20):
        for slot in range(8):
            state.add(slot, frequency=0.5, max_new_tokens=10**6)
        for _ in range(60):
            state.commit(range(8), [[rng.randrange(16 * 4096) for _ in range(5)] for _ in range(8)])
        for slot in range(8):
            assert state.adjustments is not None and state.adjustments.counts is not None
            assert len(state.adjustments.counts.cells) <= 2 * 8 * (256 + 2 * 300)
            state.remove(slot)


def test_room_asked_for_beforehand_keeps_the_tensors() -> None:
    state = PenaltyState(2, 1000, DEVICE, num_pages=126)
    state.add(0, presence=1.0)
    assert state.adjustments is not None and state.adjustments.counts is not None
    before = state.adjustments.counts.cells.data_ptr()
    state.add(1, presence=1.0)
    state.commit([0, 1], [range(0, 900, 3), range(0, 900, 2)])
    assert state.adjustments.counts is not None and state.adjustments.counts.cells.data_ptr() == before


@pytest.mark.parametrize(
    "wrong",
    [
        {"slot": 2},
        {"slot": -1},
        {"slot": 0},
        {"slot": 1, "prompt_ids": [10]},
        {"slot": 1, "output_ids": [-1]},
        {"slot": 1, "logit_bias": {10: 1.0}},
    ],
)
def test_a_slot_or_an_id_that_is_not_there_is_refused(wrong: dict[str, Any]) -> None:
    state = PenaltyState(2, 10, DEVICE)
    state.add(0, presence=0.5)
    with pytest.raises(InvalidInputError):
        state.add(**wrong, repetition=1.5)
    state.add(1, repetition=1.5, prompt_ids=[9])  # and the slot is still free
    assert state.adjustments is not None


def test_a_vocabulary_too_wide_for_the_table_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        PenaltyState(1, 32767 * 16 + 1)
