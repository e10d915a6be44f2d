"""The cached source against plain forward passes of one row without a cache."""

import random
from typing import Any

import pytest
import torch

from constrain import FunctionSource, InvalidInputError, LimitExceededError, SequenceView, TransformersSource
from constrain.hf import attention
from constrain.hf import source as source_module
from constrain.hf.slot_cache import SlotCache
from constrain.hf.source import _common_prefix
from tests.hf.models import CONFIGS, assert_plain, scenario, tiny_model


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_cache_changes_no_logits(name: str) -> None:
    model = tiny_model(name)
    for seed in range(10):
        scenario(model, random.Random(seed), steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_cache_changes_no_logits_in_200_scenarios(name: str) -> None:
    model = tiny_model(name)
    for seed in range(100, 300):
        scenario(model, random.Random(seed), steps=12)


def test_eager_attention_takes_the_masks_too() -> None:
    for seed in range(3):
        scenario(tiny_model("gemma3", "eager"), random.Random(seed), steps=8)


MUTANTS: dict[str, Any] = {
    "no window": lambda patch: patch.setattr(
        attention, "attention_windows", lambda config: dict.fromkeys(config.layer_types)
    ),
    "no row move": lambda patch: patch.setattr(SlotCache, "move", lambda *_: None),
    "no row swap": lambda patch: patch.setattr(SlotCache, "swap", lambda *_: None),
    "common prefix ignored": lambda patch: patch.setattr(
        source_module, "_common_prefix", lambda seen, ids: min(len(seen), len(ids))
    ),
}


@pytest.mark.parametrize("mutant", sorted(MUTANTS))
def test_the_scenarios_see_a_broken_source(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("gemma3")
    MUTANTS[mutant](monkeypatch)
    with pytest.raises(AssertionError, match="not close"):
        for seed in range(10):
            scenario(model, random.Random(seed), steps=8, probe=False)


def test_a_repeated_prefix_is_not_computed_again() -> None:
    model = tiny_model("llama")
    lengths: list[int] = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: lengths.append(kwargs["input_ids"].shape[1]), with_kwargs=True
    )
    source = TransformersSource(model, probe=False)
    ids = list(range(20))
    for new in ([21], [22, 23], [24]):
        source([SequenceView(0, ids)])
        ids += new
    source([SequenceView(0, (*ids[:10], 50))])
    assert lengths == [20, 1, 2, 1]


def test_a_forward_pass_that_raises_leaves_nothing_behind() -> None:
    model = tiny_model("llama")
    source = TransformersSource(model, chunk_size=4)
    source([SequenceView(0, [1, 2, 3])])
    failing = model.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("out of memory")))
    with pytest.raises(RuntimeError):
        source([SequenceView(0, [1, 9, 9, 9, 9, 9, 9]), SequenceView(1, [5])])
    failing.remove()
    views = [SequenceView(1, [5, 6]), SequenceView(0, [1, 2, 3, 4])]
    assert_plain(model, views, source(views))


def test_width_and_context_come_from_the_model() -> None:
    source = TransformersSource(tiny_model("llama"))
    assert (source.logits_width, source.max_length, source.device.type) == (97, 256, "cpu")


@pytest.mark.parametrize(
    ("left", "right", "length"), [([], [1], 0), ([1, 2], (1, 2, 3), 2), ([1, 2, 3], [1], 1), ([1, 2, 3], [1, 5, 3], 1)]
)
def test_common_prefix(left: list[int], right: list[int], length: int) -> None:
    assert _common_prefix(left, right) == length


def lengths_of_passes(model: Any) -> list[tuple[int, ...]]:
    """Shapes [B, Q] of the forward passes from now on."""
    shapes: list[tuple[int, ...]] = []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    return shapes


def test_a_long_prompt_is_read_in_chunks_and_alone() -> None:
    model = tiny_model("mistral")
    shapes = lengths_of_passes(model)
    source = TransformersSource(model, chunk_size=16, probe=False)
    views = [SequenceView(0, list(range(40)), 3), SequenceView(1, [1, 2]), SequenceView(2, [3])]
    logits = source(views)
    assert shapes == [(1, 16), (1, 16), (3, 8)]
    assert_plain(model, views, logits)


def test_rows_of_a_step_are_brought_together_once() -> None:
    model = tiny_model("llama")
    source = TransformersSource(model, probe=False)
    rows = {slot: [slot, slot + 1, *range(slot)] for slot in range(6)}
    source([SequenceView(slot, ids) for slot, ids in rows.items()])
    swaps: list[tuple[int, int]] = []
    swap = source._cache.swap
    source._cache.swap = lambda row, other, length: (swaps.append((row, other)), swap(row, other, length))[1]  # type: ignore[method-assign]
    for _ in range(3):
        views = []
        for slot in (5, 0, 2):
            rows[slot].append(slot + 7)
            views.append(SequenceView(slot, rows[slot]))
        assert_plain(model, views, source(views))
    assert swaps == [(5, 1)]


@pytest.mark.parametrize("option", ["chunk_size", "max_rows", "max_length"])
def test_options_are_checked(option: str) -> None:
    with pytest.raises(InvalidInputError, match=option):
        TransformersSource(tiny_model("llama"), **{option: 0})


def test_memory_is_bounded_and_says_so() -> None:
    model = tiny_model("llama")
    source = TransformersSource(model, max_rows=3, max_length=300)
    assert (source.max_rows, source.max_length) == (3, 256)  # the model's own context is shorter
    source = TransformersSource(model, max_rows=3, max_length=20)
    views = [SequenceView(slot, list(range(15 + slot))) for slot in range(3)]
    source(views)
    assert (source._cache.num_rows, source._cache.length) == (3, 20)
    with pytest.raises(LimitExceededError, match="4 slots"):
        source([SequenceView(3, [1])])
    with pytest.raises(LimitExceededError, match="21 tokens"):
        source([SequenceView(0, list(range(21)))])
    assert_plain(model, views, source(views))  # a refused call has changed nothing
    source.release(1)
    views = [SequenceView(3, [1])]
    assert_plain(model, views, source(views))


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ([SequenceView(0, [1]), SequenceView(0, [2])], "same slot"),
        ([SequenceView(0, [1], 2)], "num_logits=2 of 1"),
        ([SequenceView(0, [1], 0)], "num_logits=0"),
    ],
)
def test_views_without_meaning_are_refused(views: list[SequenceView], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        TransformersSource(tiny_model("llama"))(views)


def test_hidden_states_are_those_of_a_plain_pass_at_the_new_positions() -> None:
    model = tiny_model("qwen3")
    source = TransformersSource(model, chunk_size=16, hidden_layers=(1, -1))
    rows = {0: list(range(40)), 1: [5, 6], 2: [7]}
    starts = {0: 0, 1: 0}
    for _ in range(2):
        source([SequenceView(slot, ids, 1, hidden_states=slot < 2) for slot, ids in rows.items()])
        for slot in (0, 1):
            with torch.inference_mode():
                output = model(torch.tensor([rows[slot]]), use_cache=False, output_hidden_states=True)
            hidden = source.hidden_states(slot)
            assert hidden.start == starts[slot]
            for states, layer in zip(hidden.states, (1, -1), strict=True):
                expected = output.hidden_states[layer][0, hidden.start :]
                torch.testing.assert_close(states, expected, atol=1e-4, rtol=1e-4)
        with pytest.raises(InvalidInputError, match="slot 2 did not ask"):
            source.hidden_states(2)
        starts = {0: 37, 1: 2}
        rows[0][37:] = [50, 51]  # three rejected, two new
        rows[1] += [52]
    source([SequenceView(0, rows[0])])
    with pytest.raises(InvalidInputError, match="slot 0"):
        source.hidden_states(0)
    with pytest.raises(InvalidInputError, match="hidden_layers"):
        TransformersSource(model, hidden_layers=(4,))
    with pytest.raises(InvalidInputError, match="FunctionSource gives no hidden states"):
        FunctionSource(lambda prefixes: prefixes).hidden_states(0)
