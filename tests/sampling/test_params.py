"""Parameters are checked when they are made."""

import numpy as np
import pytest

from constrain.errors import InvalidInputError
from constrain.sampling.params import SamplingParams


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", True),
        ("temperature", 10**400),
        ("temperature", 1e39),
        ("temperature", "1"),
        ("top_k", -2),
        ("top_k", 1.5),
        ("top_p", 0),
        ("top_p", 1.01),
        ("top_p", None),
        ("max_tokens", 0),
        ("max_tokens", None),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 1.0),
    ],
)
def test_a_bad_field_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field}="):
        SamplingParams(**{field: value})  # type: ignore[arg-type]


def test_numbers_of_numpy_are_numbers() -> None:
    SamplingParams(temperature=np.float32(0.5), max_tokens=np.int64(5), seed=np.uint64(2**64 - 1))


def test_the_edges_are_legal() -> None:
    SamplingParams(temperature=0, top_k=-1, top_p=1, max_tokens=1, seed=2**64 - 1)
    assert SamplingParams(temperature=9e-6).is_greedy and not SamplingParams(temperature=1e-5).is_greedy
