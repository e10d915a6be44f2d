"""The JSON schema of a Python type, as pydantic makes it, without what its validation would throw away or refuse."""

from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from constrain.errors import InvalidGrammarError
from constrain.schema.dialects import DRAFT_2020_12

_INTEGER_KEY = "^(0|-?[1-9][0-9]*)$"


def type_schema(adapter: TypeAdapter[Any], name: str) -> dict[str, Any]:
    """The JSON schema of what ``adapter`` validates; ``name`` stands for the type in errors.

    Objects are closed unless their type keeps extras, and the tag of a discriminated union is required.
    """
    try:
        return adapter.json_schema(by_alias=True, mode="validation", schema_generator=ClosedJsonSchema)
    except (PydanticUserError, TypeError, ValueError) as exc:
        message = str(exc).split("\n\nFor further information", 1)[0]
        raise InvalidGrammarError(f"{name} has no JSON schema: {message}") from exc


class ClosedJsonSchema(GenerateJsonSchema):
    """pydantic's generator, narrowed to texts that the type really takes and keeps."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  as pydantic declares it

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        """As the base class, with the OpenAPI ``discriminator`` turned into JSON Schema."""
        return _require_tags(super().generate(schema, mode))

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model, closed."""
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """A dataclass, closed."""
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """A TypedDict, closed."""
        return _closed(super().typed_dict_schema(schema))

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        """A dict; integer keys, of which JSON Schema knows nothing, become a pattern."""
        json_schema = super().dict_schema(schema)
        if schema.get("keys_schema", {}).get("type") == "int" and "patternProperties" not in json_schema:
            values = json_schema.pop("additionalProperties", True)
            json_schema |= {"patternProperties": {_INTEGER_KEY: values}, "additionalProperties": False}
        return json_schema

    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        """A number; a string where digits are limited, since no keyword limits those of a number.

        pydantic 2.14 allows both everywhere, with a pattern of look-aheads that no grammar can follow.
        """
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        number: JsonSchemaValue = super().decimal_schema(schema)
        number = next((item for item in number.get("anyOf", []) if item.get("type") == "number"), number)
        bounded = any(schema.get(name) is not None for name in ("ge", "gt", "le", "lt", "multiple_of"))
        if bounded or (digits is None and places is None):
            return number
        return {"type": "string", "pattern": _decimal_pattern(digits, places)}


def _decimal_pattern(digits: int | None, places: int | None) -> str:
    """Decimals as pydantic counts: ``digits`` of all, ``places`` of them after the point at most."""
    if digits is None:
        return rf"^-?(0|[1-9][0-9]*)(\.[0-9]{{1,{places}}})?$" if places else "^-?(0|[1-9][0-9]*)$"
    places = min(places or 0, digits)
    if places == digits:
        return rf"^-?0\.[0-9]{{1,{places}}}$"
    integer = f"(0|[1-9][0-9]{{0,{digits - places - 1}}})"
    return rf"^-?{integer}(\.[0-9]{{1,{places}}})?$" if places else f"^-?{integer}$"


def _closed(json_schema: JsonSchemaValue) -> JsonSchemaValue:
    if json_schema.get("type") == "object" and "$ref" not in json_schema:
        json_schema.setdefault("additionalProperties", False)
    return json_schema


def _require_tags(json_schema: JsonSchemaValue) -> JsonSchemaValue:
    """Require the tag in every branch of a discriminated union, which pydantic reads even where it has a default.

    The branches exclude each other then, so that ``oneOf`` is ``anyOf``, which every backend follows.
    """
    todo: list[Any] = [json_schema]
    while todo:
        node = todo.pop()
        if not isinstance(node, dict):
            continue
        discriminator = node.get("discriminator")
        if isinstance(discriminator, dict) and "oneOf" in node:
            del node["discriminator"]
            node["anyOf"] = node.pop("oneOf")
            for branch in node["anyOf"]:
                _require_tag(branch, discriminator.get("propertyName"), json_schema)
        todo.extend(child for _, _, child in DRAFT_2020_12.children(node))
    return json_schema


def _require_tag(branch: Any, tag: Any, root: JsonSchemaValue) -> None:
    while isinstance(branch, dict) and str(branch.get("$ref", "")).startswith("#/$defs/"):
        branch = root["$defs"][branch["$ref"].removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")]
    if isinstance(branch, dict) and tag in branch.get("properties", {}) and tag not in branch.get("required", []):
        branch["required"] = [*branch.get("required", []), tag]
