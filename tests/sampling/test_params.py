"""Parameters are checked when they are made."""

import dataclasses
import pickle
import re
from typing import Any

import numpy as np
import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.params import SamplingFields, SamplingParams, check_with_constraint

NAN, INF = float("nan"), float("inf")
BAD: dict[str, list[object]] = {
    "temperature": [-0.1, NAN, INF, True, 10**400, 1e39, "1", None],
    "top_k": [-2, 1.5, True, None],
    "top_p": [0, 1.01, NAN, None],
    "min_p": [-0.01, 1.01, NAN, None, True],
    "repetition_penalty": [0, -1, NAN, INF, "1.2", None],
    "presence_penalty": [-2.01, 2.01, NAN, None],
    "frequency_penalty": [-2.01, 2.01, NAN, None],
    "seed": [-1, 2**64, 1.0, True],
    "draw": ["Inverse", None, 1],
    "n": [0, 1.0, None],
    "max_tokens": [0, None, 2.0],
    "min_tokens": [-1, None, 2.0],
    "stop": [[""], "", [b"x"], 5, None, {"a": 1}, "\ud800", ["a", "b\udfff"], torch.tensor(3)],
    "stop_token_ids": [
        [-1],
        [1.0],
        ["1"],
        7,
        "7",
        [True],
        [2**31],
        None,
        torch.tensor(3),
        np.array(3),
        bytearray(b"a"),
    ],
    "ignore_eos": [1, None, "yes"],
    "logit_bias": [[1], {"1": 2.0}, {-1: 2.0}, {1: NAN}, {1: INF}, {1: "2"}, {1: 1e31}, {1.0: 1.0}],
    "allowed_token_ids": [[], [-1], 5, {1: 2}],
    "bad_words": [[""], " ", [1], None, "\ud800"],
    "logprobs": [-2, True, 1.0],
    "prompt_logprobs": [-2, True, "all"],
    "logprob_token_ids": [[-1], 3, None],
    "logprobs_mode": ["raw", None],
    "extra": [[("a", 1)], {1: 2}, "a"],
}


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in BAD.items() for value in values])
def test_a_bad_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field}=.*: want ") as raised:
        SamplingParams(**{field: value})  # type: ignore[arg-type]
    assert not isinstance(raised.value.__cause__, Exception)


def test_every_field_has_a_door() -> None:
    fields = {field.name for field in dataclasses.fields(SamplingParams)}
    assert fields == set(BAD) == set(SamplingFields.__annotations__)


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=1.0)  # type: ignore[call-arg]


def test_numbers_of_numpy_are_numbers() -> None:
    params = SamplingParams(temperature=np.float32(0.5), max_tokens=np.int64(5), seed=np.uint64(2**64 - 1))  # type: ignore[arg-type]
    assert (params.temperature, params.max_tokens, params.seed) == (0.5, 5, 2**64 - 1)
    assert type(params.seed) is type(params.max_tokens) is int
    assert SamplingParams(stop_token_ids=np.array([3, 4])).stop_token_ids == (3, 4)  # type: ignore[arg-type]


def test_the_edges_are_legal() -> None:
    SamplingParams(temperature=0, top_k=-1, top_p=1, min_p=1, max_tokens=1, min_tokens=1, seed=2**64 - 1)
    SamplingParams(presence_penalty=-2, frequency_penalty=2, repetition_penalty=1e-3, logprobs=-1, prompt_logprobs=0)
    assert SamplingParams(temperature=9e-6).is_greedy and not SamplingParams(temperature=1e-5).is_greedy


def test_what_came_is_kept_in_plain_form() -> None:
    given: dict[str, Any] = {"stop": "\n", "bad_words": ["no", "no"], "stop_token_ids": range(2)}
    bias = {7: 1}
    params = SamplingParams(**given, allowed_token_ids={5}, logit_bias=bias, extra={"a": [1]})  # type: ignore[arg-type]
    bias[8] = 2
    assert (params.stop, params.bad_words, params.stop_token_ids) == (("\n",), ("no",), (0, 1))
    assert (params.allowed_token_ids, params.logit_bias) == ((5,), {7: 1.0})
    assert pickle.loads(pickle.dumps(params)) == params and hash(params) == hash(dataclasses.replace(params))


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"min_tokens": 6, "max_tokens": 5}, ["min_tokens=6", "max_tokens=5"]),
        ({"n": 2, "temperature": 0}, ["n=2", "temperature=0"]),
        ({"allowed_token_ids": [1, 2], "logit_bias": {1: -INF, 2: -INF, 3: 1}}, ["allowed_token_ids", "logit_bias"]),
    ],
)
def test_contradicting_fields_are_both_named(fields: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(InvalidInputError) as raised:
        SamplingParams(**fields)
    assert all(name in str(raised.value) for name in named)


@pytest.mark.parametrize("fields", [{"ignore_eos": True}, {"stop": ["\n"]}])
def test_a_constraint_rules_out_what_ends_its_text_early_or_never(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(next(iter(fields))) + ".*contradicts the constraint"):
        check_with_constraint(SamplingParams(**fields))
    check_with_constraint(SamplingParams(min_tokens=3, bad_words=["x"], stop_token_ids=[4]))
