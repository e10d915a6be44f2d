"""Strict JSON: text or Python data becomes plain data of our own, and nothing is silently changed on the way."""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from constrain.errors import InvalidSchemaError, LimitExceededError
from constrain.schema.limits import DEFAULT_LIMITS, SchemaLimits

# Python refuses to read longer ones (sys.set_int_max_str_digits), with an error of its own.
_MAX_INTEGER_DIGITS = 4300


class DuplicateKeyError(ValueError):
    """An object of a JSON text has the same key twice."""


def parse_json_text(text: str, limits: SchemaLimits = DEFAULT_LIMITS) -> Any:
    """The data of a JSON text: no duplicate keys, no NaN, no number that Python would round."""
    if len(text) > limits.max_bytes or len(text.encode("utf-8", "surrogatepass")) > limits.max_bytes:
        raise LimitExceededError(f"the schema's text has more than max_bytes={limits.max_bytes} bytes")
    try:
        data = json.loads(
            text,
            object_pairs_hook=unique_keys,
            parse_float=_exact_float,
            parse_int=_bounded_int,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as exc:
        raise InvalidSchemaError(f"not JSON: {exc}", position=exc.pos) from exc
    except RecursionError as exc:
        raise LimitExceededError(f"the schema is nested deeper than max_depth={limits.max_depth}") from exc
    except ValueError as exc:
        raise InvalidSchemaError(f"not usable as JSON: {exc}") from exc
    return copy_json(data, limits)


def copy_json(data: Any, limits: SchemaLimits = DEFAULT_LIMITS) -> Any:
    """A deep copy of ``data`` in which every container is a new ``dict`` or ``list``; only JSON's types pass.

    Without recursion, so that data of any depth ends in the copy or in an error. A container that occurs twice is
    copied twice: the identity of an object of the copy names its place.
    """
    holder: list[Any] = [None]
    todo: list[tuple[Any, Any, Any, str, int]] = [(data, holder, 0, "", 0)]
    num_values = num_bytes = 0
    while todo:
        value, target, key, pointer, depth = todo.pop()
        num_values += 1
        if isinstance(value, str):
            num_bytes += len(value)
        if depth > limits.max_depth:
            raise LimitExceededError(f"at {pointer:.200}: nested deeper than max_depth={limits.max_depth}")
        if num_values > limits.max_values:
            raise LimitExceededError(f"the schema has more than max_values={limits.max_values} JSON values")
        if num_bytes > limits.max_bytes:
            raise LimitExceededError(f"the schema's text has more than max_bytes={limits.max_bytes} bytes")
        if isinstance(value, Mapping):
            copied: Any = dict.fromkeys(_plain_key(name, pointer) for name in value)
            target[key] = copied
            num_bytes += sum(map(len, copied))
            items: Any = ((name, value[name]) for name in value)
        elif isinstance(value, list | tuple):
            copied = target[key] = [None] * len(value)
            items = enumerate(value)
        else:
            target[key] = _plain_scalar(value, pointer)
            continue
        if len(value) > limits.max_values:
            raise LimitExceededError(f"the schema has more than max_values={limits.max_values} JSON values")
        todo.extend((item, copied, name, join_pointer(pointer, name), depth + 1) for name, item in items)
    return holder[0]


def join_pointer(pointer: str, *tokens: str | int) -> str:
    """``pointer`` with reference tokens appended, escaped as RFC 6901 asks."""
    return pointer + "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of ``pairs``, for ``object_pairs_hook``; raises ``DuplicateKeyError``."""
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DuplicateKeyError(f"the key {twice!r} occurs twice in one object; keep one of them")
    return value


def _plain_key(key: Any, pointer: str) -> str:
    if not isinstance(key, str):
        raise InvalidSchemaError(f"at {pointer or '/'}: the key {key!r} is no string, as JSON wants", pointer=pointer)
    return _plain_text(key, pointer)


def _plain_scalar(value: Any, pointer: str) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _plain_text(value, pointer)
    if isinstance(value, int):
        if abs(int(value)) >= 10**_MAX_INTEGER_DIGITS:
            raise InvalidSchemaError(f"at {pointer or '/'}: the integer is too long for JSON", pointer=pointer)
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    what = f"{value!r}" if isinstance(value, float) else f"{type(value).__name__} {value!r}"[:200]
    raise InvalidSchemaError(f"at {pointer or '/'}: {what} is no JSON value", pointer=pointer)


def _plain_text(text: str, pointer: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as exc:
            message = f"at {pointer or '/'}: {text!r} has half a surrogate pair, which is no Unicode text"
            raise InvalidSchemaError(message, pointer=pointer) from exc
    return str.__str__(text)


def _exact_float(text: str) -> float | int:
    """The float whose shortest form is the number that ``text`` says, or an int where only that is exact."""
    value, exact = float(text), Decimal(text)
    if math.isfinite(value) and Decimal(repr(value)) == exact:
        return value
    if exact == exact.to_integral_value() and exact.adjusted() < _MAX_INTEGER_DIGITS:
        return int(exact)
    raise ValueError(f"the number {text[:60]} has more digits than a double holds; round it")


def _bounded_int(text: str) -> int:
    if len(text) > _MAX_INTEGER_DIGITS:
        raise ValueError(f"the integer {text[:20]}… has more than {_MAX_INTEGER_DIGITS} digits")
    return int(text)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")
