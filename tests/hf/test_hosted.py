"""The engine inside ``generate`` against the processor inside ``generate``."""

import re
from typing import Any

import pytest
import torch
from transformers import RepetitionPenaltyLogitsProcessor

from constrain import ConstrainedLogitsProcessor, DeadEndError, InvalidInputError
from constrain.hf import hosted_generate
from tests.hf.test_generate_modes import VOCABULARY, generate, tiny_model
from tests.tiny import CLOSE, OPEN, PAD, A, B

IDS = torch.tensor([[PAD, OPEN, A], [CLOSE, B, A]])
MASK = torch.tensor([[0, 1, 1], [1, 1, 1]])


def hosted(model: Any, **options: Any) -> Any:
    settings = {"attention_mask": MASK, "do_sample": False, "max_new_tokens": 8, "vocabulary": VOCABULARY} | options
    return model.generate(IDS, custom_generate=hosted_generate, **settings)


def test_greedy_is_what_the_processor_gives() -> None:
    model = tiny_model(0)
    wanted = [re.compile("[ab]{3,5}"), ["ab", "bbb"]]
    masker = ConstrainedLogitsProcessor(constraints=wanted, vocabulary=VOCABULARY)
    sequences = hosted(model, constraints=wanted)
    assert torch.equal(sequences, generate(model, masker, IDS, attention_mask=MASK, max_new_tokens=8))


def test_sampling_follows_the_config_and_torch_s_seed() -> None:
    model = tiny_model(0)
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        output = hosted(
            model, constraint=re.compile("[ab]{3,5}"), do_sample=True, temperature=3.0, top_k=9,
            num_return_sequences=4, return_dict_in_generate=True,
        )  # fmt: skip
        assert all(re.fullmatch("[ab]{3,5}", result.unwrap()) for result in output.results)
        outputs.append(output.sequences)
    assert torch.equal(*outputs) and len({tuple(row) for row in outputs[0].tolist()}) > 3


def test_what_the_engine_does_not_do_is_refused() -> None:
    model = tiny_model(0)
    for options in (
        {"num_beams": 2},
        {"prompt_lookup_num_tokens": 2},
        {"repetition_penalty": 1.1},
        {"min_new_tokens": 2},
        {"logits_processor": [RepetitionPenaltyLogitsProcessor(1.1)]},
        {"max_time": 1.0},
        {"constraints": [None] * 3},
    ):
        with pytest.raises(InvalidInputError):
            hosted(model, **options)


def test_a_dead_end_is_raised() -> None:
    with pytest.raises(DeadEndError):
        hosted(tiny_model(0), constraint=re.compile("ac"))
