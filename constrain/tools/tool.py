"""One tool: its name, what it is for, and the JSON of its arguments."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from constrain.errors import ConstrainError, InvalidGrammarError, InvalidSchemaError
from constrain.grammar_spec import GrammarSpec, JsonForm, json_schema
from constrain.schema import Constraint, as_constraint

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class Tool:
    """What a model may call. ``decode`` validates the JSON of the arguments and makes their value."""

    name: str
    description: str
    grammar_spec: GrammarSpec
    decode: Callable[[str], Any]

    def described(self) -> dict[str, Any]:
        """The tool as chat templates take it, in the form of OpenAI's API."""
        function: dict[str, Any] = {"name": self.name, "description": self.description}
        return {"type": "function", "function": {**function, "parameters": json.loads(self.grammar_spec.text)}}


def as_tool(obj: Any, number: int, form: JsonForm) -> Tool:
    """The tool that ``obj`` means, the one of that number in a list.

    A function gives a dict of its arguments, a pydantic model (or a dataclass, or a TypedDict) an instance, and a
    mapping as OpenAI's API has it (``{"type": "function", "function": {"name", "description", "parameters"}}``, or what
    is inside) a dict. Raises ``InvalidGrammarError`` that names the tool where it has no usable name or schema.
    """
    if isinstance(obj, Tool):
        return obj
    if isinstance(obj, Mapping):
        name, description = _described(obj, number)
        wanted: Any = _parameters(obj.get("function", obj), name)
    else:
        if not (isinstance(obj, type) or inspect.isroutine(obj) or isinstance(obj, partial)):
            raise InvalidGrammarError(
                f"tool {number} is {obj!r:.80}: want a function, a pydantic model or a mapping in OpenAI's form"
            )
        name = str(getattr(_innermost(obj), "__name__", ""))
        description, wanted = inspect.getdoc(_innermost(obj)) or "", obj
    if not _NAME.fullmatch(name):
        raise InvalidGrammarError(f"tool {number} is called {name!r}: want 1 to 64 letters, digits, '_', '-' or '.'")
    constraint = _constraint(wanted, name, form)
    assert constraint.grammar_spec is not None
    if not _is_object(json.loads(constraint.grammar_spec.text)):
        raise InvalidGrammarError(
            f"tool {name!r}: its arguments are no JSON object; give a type or schema of an object"
        )
    return Tool(name, description, constraint.grammar_spec, constraint.decode)


def _constraint(wanted: Any, name: str, form: JsonForm) -> Constraint:
    try:
        return as_constraint(json_schema(wanted, form=form) if isinstance(wanted, Mapping) else wanted, form=form)
    except InvalidSchemaError as exc:
        raise InvalidSchemaError(f"tool {name!r}: {exc}", pointer=exc.pointer, position=exc.position) from exc
    except ConstrainError as exc:
        raise InvalidGrammarError(f"tool {name!r}: {exc}") from exc


def _described(obj: Mapping[str, Any], number: int) -> tuple[str, str]:
    function = obj.get("function", obj)
    if obj.get("type", "function") != "function" or not isinstance(function, Mapping):
        raise InvalidGrammarError(f"tool {number} is no function: want {{'type': 'function', 'function': {{...}}}}")
    name = function.get("name")
    if not isinstance(name, str):
        raise InvalidGrammarError(f"tool {number} has the name {name!r}: want a string under 'name'")
    return name, str(function.get("description") or "")


def _parameters(function: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    parameters = function.get("parameters")
    if parameters is None:
        return _NO_ARGUMENTS
    if not isinstance(parameters, Mapping):
        raise InvalidGrammarError(
            f"tool {name!r} has the parameters {parameters!r:.80}: want a JSON schema as a mapping"
        )
    # Arguments are an object whether the schema says so or not.
    return parameters if "type" in parameters or "$ref" in parameters else {"type": "object", **parameters}


def _is_object(schema: Any) -> bool:
    place = schema
    for _ in range(10):
        if not isinstance(place, Mapping):
            return False
        reference = place.get("$ref")
        if place.get("type") == "object":
            return True
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return False
        place = schema
        for token in reference.split("/")[1:]:
            place = place.get(token.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return False


def _innermost(obj: Any) -> Any:
    while isinstance(obj, partial):
        obj = obj.func
    return obj
