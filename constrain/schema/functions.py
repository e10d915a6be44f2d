"""The arguments of a function as a type: what a model must write to call it. The function itself is never called."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NotRequired, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from constrain.errors import InvalidGrammarError

Complete = Callable[[dict[str, Any]], dict[str, Any]]


def arguments_adapter(function: Callable[..., Any], name: str) -> tuple[TypeAdapter[Any], Complete]:
    """An adapter for the dict of ``function``'s arguments, and what adds the defaults of those that are left out.

    Every argument is a key, in the order of the signature; one without annotation takes any value.
    """
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(_unwrapped(function), include_extras=True)
    except (NameError, TypeError, ValueError) as exc:
        raise InvalidGrammarError(f"the arguments of {name} are not known: {exc}") from exc
    fields: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for key, parameter in parameters.items():
        _refuse_unnamed(name, parameter)
        annotation, default = hints.get(key, Any), parameter.default
        if isinstance(default, FieldInfo):
            annotation = Annotated[annotation, default]
            required = default.is_required()
            default = None if required else default.get_default(call_default_factory=True, validated_data={})
        else:
            required = default is parameter.empty
        if not required:
            defaults[key] = default
        fields[key] = annotation if required else NotRequired[annotation]
    make: Any = TypedDict
    arguments = make(name.rpartition(".")[2], fields)
    arguments.__doc__ = inspect.getdoc(function)
    arguments.__pydantic_config__ = {"extra": "forbid"}
    try:
        return TypeAdapter(arguments), partial(_complete, tuple(fields), defaults)
    except (PydanticUserError, TypeError, NameError, ImportError) as exc:
        message = str(exc).split("\n\nFor further information", 1)[0]
        raise InvalidGrammarError(f"the arguments of {name} have no JSON schema: {message}") from exc


def _complete(names: tuple[str, ...], defaults: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] if name in given else defaults[name] for name in names}


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, partial):
        function = function.func
    return function


def _refuse_unnamed(name: str, parameter: inspect.Parameter) -> None:
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise InvalidGrammarError(f"{name}: the argument {parameter.name!r} is positional-only; JSON gives it by name")
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise InvalidGrammarError(f"{name}: {parameter} takes arguments without names; list them in the signature")
