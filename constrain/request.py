"""What a caller asks of an engine."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from constrain.errors import InvalidInputError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.reasoning.options import Reasoning
from constrain.sampling.params import SamplingParams
from constrain.sampling.seeds import output_seed


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One sequence to generate.

    prompt_ids:
        The tokens to continue; at least one.
    constraint:
        What the output must be; None for free text. A compiled grammar must be for the engine's vocabulary.
    decode:
        Turns the finished text into the value of the result; raises :class:`~constrain.errors.InvalidValueError` for a
        text that gives none. None takes the constraint's own, which validates: parsed JSON for the JSON kinds, the text
        for others.
    timeout_s:
        Seconds from ``Engine.add`` after which the request ends with ``finish_reason="deadline"``, looked at between
        steps; None for no limit.
    reasoning:
        Thinking before the constrained content, and its budget; None for a model that does not think. The result tells
        thinking and text apart.
    """

    prompt_ids: Sequence[int]
    constraint: GrammarSpec | CompiledGrammar | None = None
    params: SamplingParams = field(default_factory=SamplingParams)
    decode: Callable[[str], Any] | None = None
    timeout_s: float | None = None
    reasoning: Reasoning | None = None

    def __post_init__(self) -> None:
        if self.timeout_s is not None:
            object.__setattr__(self, "timeout_s", _seconds(self.timeout_s))
        if not isinstance(self.params, SamplingParams):
            raise InvalidInputError(f"params={self.params!r}: want SamplingParams(...)")
        if self.decode is not None and not callable(self.decode):
            raise InvalidInputError(f"decode={self.decode!r}: want a function from the text to its value, or None")
        if self.reasoning is not None and not isinstance(self.reasoning, Reasoning):
            raise InvalidInputError(f"reasoning={self.reasoning!r}: want Reasoning(...), or None")

    def samples(self) -> list["Request"]:
        """One request for each of ``params.n`` outputs, each with a seed of its own that follows from ``params.seed``;
        the first has that itself."""
        if self.params.n == 1:
            return [self]
        seed = secrets.randbits(64) if self.params.seed is None else self.params.seed
        each = (replace(self.params, n=1, seed=output_seed(seed, index)) for index in range(self.params.n))
        return [replace(self, params=params) for params in each]


def _seconds(timeout_s: object) -> float:
    seconds = float("nan")
    if isinstance(timeout_s, Real) and not isinstance(timeout_s, bool):
        with suppress(OverflowError):
            seconds = float(timeout_s)
    if not seconds >= 0:
        raise InvalidInputError(f"timeout_s={timeout_s!r}: want a number of seconds from 0 on, or None")
    return seconds
