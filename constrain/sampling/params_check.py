"""The door of :class:`~constrain.sampling.params.SamplingParams`: each field alone, and its plain form."""

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar

from constrain.errors import InvalidInputError

_T = TypeVar("_T")
MAX_ID = 2**31 - 1
"""No vocabulary is larger; whether an id lies in the one at hand is checked with the vocabulary."""


def checked_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as floats, ints, texts and tuples of these; ``InvalidInputError`` names what cannot be used."""
    return {name: _CHECKS[name](name, value) for name, value in given.items()}


def _number(wanted: str, holds: Callable[[Any], bool]) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        # Compared before it is converted: float() raises for an int that is too large.
        _require(isinstance(value, Real) and not isinstance(value, bool) and holds(value), name, value, wanted)
        return float(value)

    return check


def _integer(wanted: str, low: int, high: float = float("inf")) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        _require(_is_int(value) and low <= int(value) <= high, name, value, wanted)
        return int(value)

    return check


def _one_of(*choices: object) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        # 1 == True, but a flag that came as a number is a slip.
        known = any(type(value) is type(choice) and value == choice for choice in choices)
        _require(known, name, value, " or ".join(map(repr, choices)))
        return value

    return check


def _optional(check: Callable[[str, Any], _T]) -> Callable[[str, Any], _T | None]:
    def check_or_none(name: str, value: Any) -> _T | None:
        return None if value is None else check(name, value)

    return check_or_none


def _ids(wanted: str, *, may_be_empty: bool = True) -> Callable[[str, Any], tuple[int, ...]]:
    def check(name: str, value: Any) -> tuple[int, ...]:
        ids = _as_tuple(name, value, wanted)
        _require(all(_is_int(each) and 0 <= int(each) <= MAX_ID for each in ids), name, value, wanted)
        _require(may_be_empty or bool(ids), name, value, wanted)
        return tuple(dict.fromkeys(map(int, ids)))

    return check


def _texts(wanted: str, is_text: Callable[[str], bool]) -> Callable[[str, Any], tuple[str, ...]]:
    def check(name: str, value: Any) -> tuple[str, ...]:
        texts = (value,) if isinstance(value, str) else _as_tuple(name, value, wanted)
        _require(all(_is_text(each) and is_text(each) for each in texts), name, value, wanted)
        return tuple(dict.fromkeys(texts))

    return check


def _bias(name: str, value: Any) -> dict[int, float]:
    wanted = "a mapping of token ids (integers from 0 on) to numbers in [-1e30, 1e30], or minus infinity to forbid"
    _require(isinstance(value, Mapping), name, value, wanted)
    for token_id, bias in value.items():
        is_number = isinstance(bias, Real) and not isinstance(bias, bool)
        usable = is_number and (bias == float("-inf") or -1e30 <= bias <= 1e30)
        _require(_is_int(token_id) and 0 <= int(token_id) <= MAX_ID and usable, name, {token_id: bias}, wanted)
    return {int(token_id): float(bias) for token_id, bias in value.items()}


def _extra(name: str, value: Any) -> dict[str, Any]:
    usable = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    _require(usable, name, value, "a mapping of names to what custom processors read, or None")
    return dict(value)


_penalty = _number("a number in [-2, 2]", lambda value: -2 <= value <= 2)
_how_many = _optional(_integer("an integer >= 0, or -1 for the whole vocabulary, or None for no logprobs", -1))
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "temperature": _number("a number in [0, 1e30]", lambda value: 0 <= value <= 1e30),
    "top_k": _integer("an integer >= 1, or 0 or -1 for off", -1),
    "top_p": _number("a number in (0, 1]", lambda value: 0 < value <= 1),
    "min_p": _number("a number in [0, 1]", lambda value: 0 <= value <= 1),
    "repetition_penalty": _number("a number over 0, in [1e-30, 1e30]", lambda value: 1e-30 <= value <= 1e30),
    "presence_penalty": _penalty,
    "frequency_penalty": _penalty,
    "seed": _optional(_integer("an integer in [0, 2**64), or None", 0, 2**64 - 1)),
    "draw": _one_of("inverse", "gumbel"),
    "n": _integer("an integer >= 1", 1),
    "max_tokens": _integer("an integer >= 1", 1),
    "min_tokens": _integer("an integer >= 0", 0),
    "stop": _texts("a text or texts, none of them empty", bool),
    "stop_token_ids": _ids("a sequence of token ids"),
    "ignore_eos": _one_of(True, False),
    "logit_bias": _optional(_bias),
    "allowed_token_ids": _optional(_ids("a sequence of at least one token id, or None for all", may_be_empty=False)),
    "bad_words": _texts("a text or texts, none of them blank", lambda text: bool(text.strip())),
    "logprobs": _how_many,
    "prompt_logprobs": _how_many,
    "logprob_token_ids": _ids("a sequence of token ids"),
    "logprobs_mode": _one_of("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"),
    "extra": _optional(_extra),
}


def _as_tuple(name: str, value: Any, wanted: str) -> tuple[Any, ...]:
    # A str or a mapping is iterable, but meant as something else; an array of no dimensions only looks iterable.
    iterable = isinstance(value, Iterable) and not isinstance(value, str | bytes | bytearray | Mapping)
    _require(iterable and getattr(value, "ndim", 1) > 0, name, value, wanted)
    return tuple(value)


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    """A lone surrogate is no character, and no tokens write one."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise InvalidInputError(f"{name}={value!r}: want {wanted}")
