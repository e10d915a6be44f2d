"""Processors of older forms: functions of one request, and those of transformers."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from constrain.errors import InvalidInputError
from constrain.sampling.params import SamplingParams
from constrain.sampling.processors import RowProcessor, RowView

RowFunction = Callable[[torch.Tensor, RowView], torch.Tensor]


def as_row_function(function: Any) -> RowFunction:
    """Adapt what was made for one request.

    ``f(output_ids, logits)`` and ``f(prompt_ids, output_ids, logits)`` get lists of ids, which hold the drafts before
    the row as well, and the logits [V] of the row. A ``LogitsProcessor`` of transformers, or a list of them, gets
    ``input_ids`` [1, L] of prompt and output and ``scores`` [1, V]. Each returns the new logits. Under speculation it
    is called for every row of a draft, so what it returns must follow from its arguments.
    Raises ``InvalidInputError`` for anything else.
    """
    if not callable(function):
        raise InvalidInputError(f"{function!r} is no function; want f(output_ids, logits) or a logits processor")
    if _is_of_transformers(function):
        return lambda logits, row: _call_transformers(function, logits, row)
    if _takes_prompt(function):
        return lambda logits, row: _tensor(function(list(row.prompt_ids), row.written_ids, logits))
    return lambda logits, row: _tensor(function(row.written_ids, logits))


class FunctionProcessor(RowProcessor):
    """One function, or transformers processor, for every request; see :func:`as_row_function`."""

    def __init__(self, function: Any, *, keeps_argmax: bool = False) -> None:
        self._function = as_row_function(function)
        self.keeps_argmax = keeps_argmax

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        """Every request is processed."""
        return True

    def process_row(self, logits: torch.Tensor, row: RowView) -> torch.Tensor:
        """What the function returns."""
        return self._function(logits, row)


class RequestFunctions(RowProcessor):
    """The functions that a request brings in ``extra={"logits_processors": [f, ...]}``, in turn."""

    FIELD = "logits_processors"
    extra_fields = frozenset({FIELD})

    def __init__(self) -> None:
        self._functions: dict[int, list[RowFunction]] = {}

    def check(self, params: SamplingParams) -> None:
        """Each is a function that can be adapted."""
        self._adapted(params)

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        """Requests that bring functions are processed."""
        self._functions[slot] = self._adapted(params)
        return bool(self._functions[slot])

    def remove(self, slot: int) -> None:
        """Drop the functions."""
        self._functions.pop(slot, None)

    def process_row(self, logits: torch.Tensor, row: RowView) -> torch.Tensor:
        """What the last function returns, of what those before it returned."""
        for function in self._functions[row.slot]:
            logits = function(logits, row)
        return logits

    def _adapted(self, params: SamplingParams) -> list[RowFunction]:
        functions = (params.extra or {}).get(self.FIELD, ())
        if not isinstance(functions, Sequence) or isinstance(functions, str):
            raise InvalidInputError(f"extra[{self.FIELD!r}]={functions!r}: want a list of functions")
        return [as_row_function(function) for function in functions]


def _is_of_transformers(function: object) -> bool:
    # By name, so that nothing is imported: whoever made one has imported transformers.
    names = {"LogitsProcessor", "LogitsProcessorList"}
    return any(
        each.__name__ in names and each.__module__.startswith("transformers.") for each in type(function).__mro__
    )


def _call_transformers(function: Any, logits: torch.Tensor, row: RowView) -> torch.Tensor:
    input_ids = torch.tensor([[*row.prompt_ids, *row.written_ids]], dtype=torch.int64, device=logits.device)
    return _tensor(function(input_ids, logits[None]))[0]


def _takes_prompt(function: Any) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"the parameters of {function!r} cannot be read; wrap it in a function") from exc
    for count in (2, 3):
        try:
            signature.bind(*[None] * count)
        except TypeError:
            continue
        return count == 3
    raise InvalidInputError(
        f"{function!r} has the parameters {signature}; want f(output_ids, logits) or f(prompt_ids, output_ids, logits)"
    )


def _tensor(result: object) -> torch.Tensor:
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"it returned {type(result).__name__}; want the logits, also where they changed in place")
    return result
