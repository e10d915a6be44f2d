"""What a caller asks of an engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from constrain.errors import InvalidInputError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.sampling.params import SamplingParams


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
    """

    prompt_ids: Sequence[int]
    constraint: GrammarSpec | CompiledGrammar | None = None
    params: SamplingParams = field(default_factory=SamplingParams)
    decode: Callable[[str], Any] | None = None
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        timeout = self.timeout_s
        if timeout is not None and (not isinstance(timeout, Real) or isinstance(timeout, bool) or not timeout >= 0):
            raise InvalidInputError(f"timeout_s={timeout!r}: want a number of seconds from 0 on, or None")
        if not isinstance(self.params, SamplingParams):
            raise InvalidInputError(f"params={self.params!r}: want SamplingParams(...)")
