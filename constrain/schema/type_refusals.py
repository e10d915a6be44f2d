"""The parts of types that take some texts and not others by a rule that no schema says: refused, with a way out."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic.types import PaymentCardNumber

_BOUNDS = ("ge", "gt", "le", "lt")
_BOUNDED = ("date", "datetime", "time", "timedelta", "fraction")
_FILE_SYSTEM = "whether a path exists, only the file system knows; use pathlib.Path and check the value"
_FORMATS = {
    "regex": "which texts are regular expressions, no grammar says; use str",
    "zoneinfo": "which time zones exist, only this machine knows; use Literal[...] with the names that you want",
    "file-path": _FILE_SYSTEM,
    "directory-path": _FILE_SYSTEM,
    "name-email": "NameEmail is not supported; use EmailStr, or a model with a name and an EmailStr",
    "color": "which texts are colors, no grammar says; use str with a pattern",
    "json-string": "JSON inside a string is not supported; use the type itself instead of Json[...]",
}


def refusal(schema: Mapping[str, Any]) -> str | None:
    """Why a grammar cannot tell the texts that pydantic's core ``schema`` takes, and what to use; None if it can."""
    match schema.get("type"):
        case "json":
            return "JSON inside a string is not supported; use the type itself instead of Json[...]"
        case "is-subclass":
            return "type[...] takes a class, which no text is; use Literal[...] with the names of the classes"
        case "tagged-union" if callable(schema["discriminator"]):
            return "what a callable Discriminator answers, no schema says; use a field with a Literal as discriminator"
        case "tuple" if schema.get("variadic_item_index", -1) not in (-1, len(schema["items_schema"]) - 1):
            return "a tuple with items after a variadic one is not supported; move the variadic item to the end"
        case "chain" if any(step.get("type") == "is-instance" for step in schema["steps"][1:]):
            return "instances of an abstract class are not told apart by a schema; use a concrete type"
        case str(kind) if kind in _BOUNDED:
            return _time_refusal(kind, schema)
        case "function-plain" | "function-before" | "function-after" | "function-wrap":
            return _function_refusal(schema["function"]["function"])
    return None


def format_refusal(json_schema: Mapping[str, Any]) -> str | None:
    """The same for a finished ``json_schema`` with a ``format``."""
    name = json_schema.get("format")
    if name in ("base64", "base64url") and "minLength" in json_schema:
        return "a min_length of what base64 encodes is not supported; leave it out and check the value"
    if name == "path" and json_schema.keys() & {"minLength", "maxLength"}:
        return "a path has no length; use a str with a length"
    return _FORMATS.get(name) if isinstance(name, str) else None


def _time_refusal(kind: str, schema: Mapping[str, Any]) -> str | None:
    if schema.get("now_op") is not None:
        when = f"{schema['now_op'].capitalize()}{kind.capitalize()}"
        return f"{when} depends on the clock when the text is read; use {kind} and compare the value"
    if any(schema.get(bound) is not None for bound in _BOUNDS):
        return f"bounds of a {kind} are not supported; leave them out and compare the value"
    if isinstance(schema.get("tz_constraint"), int):
        return "a fixed offset is not supported; use AwareDatetime or NaiveDatetime"
    return None


def _function_refusal(function: Callable[..., Any]) -> str | None:
    owner = getattr(function, "__self__", None)
    if owner is PaymentCardNumber:
        return "the check digit of a PaymentCardNumber, no grammar can say; use str with a pattern"
    name = getattr(function, "__qualname__", "")
    if name.startswith("PathType."):
        return _FILE_SYSTEM
    if name == "import_string":
        return "ImportString runs what the text names; use Literal[...] with the names that you want"
    return None
