"""What a request may ask of sampling."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TypedDict

from constrain.errors import InvalidInputError

GREEDY_BELOW = 1e-5
"""A temperature under this picks the argmax."""


class SamplingFields(TypedDict, total=False):
    """The fields of :class:`SamplingParams`, as keyword arguments."""

    temperature: float
    top_k: int
    top_p: float
    seed: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to draw, and how much. Checked when made: ``InvalidInputError`` names the field.

    temperature:
        0 to 1e30; below 1e-5 is greedy: the token of the highest logit, the lowest id on ties.
    top_k:
        Keep the k most probable tokens, ties by lowest id; 0 or -1 keeps all.
    top_p:
        In (0, 1]. After top-k, keep the smallest set of most probable tokens whose mass is at least this.
    seed:
        64 bits. The draws depend on it and on the index of the output token only, so a request repeats itself alone
        or in any batch. None takes a fresh one, which the result names.
    max_tokens:
        The most tokens to generate, the stop token included.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int = 256

    def __post_init__(self) -> None:
        temperature_ok = _is_number(self.temperature) and 0 <= self.temperature <= 1e30
        _require(temperature_ok, self, "temperature", "a number in [0, 1e30]")
        _require(_is_int(self.top_k) and self.top_k >= -1, self, "top_k", "an integer >= 1, or 0 or -1 for off")
        _require(_is_number(self.top_p) and 0 < self.top_p <= 1, self, "top_p", "a number in (0, 1]")
        _require(_is_int(self.max_tokens) and self.max_tokens >= 1, self, "max_tokens", "an integer >= 1")
        seed_ok = self.seed is None or (_is_int(self.seed) and 0 <= self.seed < 2**64)
        _require(seed_ok, self, "seed", "an integer in [0, 2**64), or None")

    @property
    def is_greedy(self) -> bool:
        """Whether the argmax is taken instead of a draw."""
        return self.temperature < GREEDY_BELOW


def _require(holds: bool, params: SamplingParams, field: str, wanted: str) -> None:
    if not holds:
        raise InvalidInputError(f"{field}={getattr(params, field)!r}: want {wanted}")


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
