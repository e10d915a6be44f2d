"""The JSON schema of a Python type, as pydantic makes it, narrowed to texts that the type really takes and keeps."""

import json
import re
from typing import Any

from pydantic import ByteSize, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic.types import Base64Encoder, Base64UrlEncoder, EncodedBytes, EncodedStr
from pydantic_core import SchemaValidator

from constrain.errors import InvalidGrammarError
from constrain.schema import type_patterns as patterns
from constrain.schema.type_closing import TypeRefusedError, close_types
from constrain.schema.type_numbers import decimal, finite_number
from constrain.schema.type_refusals import refusal

_BASE64_DIGITS = {Base64Encoder: "+/", Base64UrlEncoder: "-_"}


def type_schema(adapter: TypeAdapter[Any], name: str) -> dict[str, Any]:
    """The JSON schema of what ``adapter`` validates; ``name`` stands for the type in errors.

    Objects are closed unless their type keeps extras, and the tag of a discriminated union is required. Raises
    ``InvalidGrammarError`` for a part whose texts no schema tells apart, with the field.
    """
    try:
        return adapter.json_schema(by_alias=True, mode="validation", schema_generator=ClosedJsonSchema)
    except TypeRefusedError as exc:
        raise InvalidGrammarError(f"{name} cannot be generated: {exc}") from exc
    except (PydanticUserError, TypeError, ValueError) as exc:
        message = str(exc).split("\n\nFor further information", 1)[0]
        raise InvalidGrammarError(f"{name} has no JSON schema: {message}") from exc


class ClosedJsonSchema(GenerateJsonSchema):
    """pydantic's generator, narrowed."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  as pydantic declares it

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        """As the base class, without what only pydantic or OpenAPI understands."""
        self._names: dict[int, str] = {}
        self._fields: list[str] = []
        return close_types(super().generate(schema, mode))

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Any part of the type; refused with the name of its field where a schema cannot say what it takes."""
        fields = schema.get("fields")
        if isinstance(fields, dict):
            owner = schema.get("model_name") or schema.get("cls_name") or getattr(schema.get("cls"), "__name__", "")
            self._names |= {id(field): f"{owner}.{name}" for name, field in fields.items()}
        elif schema["type"] == "dataclass-args":
            self._names |= {id(field): f"{schema['dataclass_name']}.{field['name']}" for field in fields}
        reason = refusal(schema)
        if reason is not None:
            raise self._refused(reason)
        if id(schema) not in self._names:
            return super().generate_inner(schema)
        self._fields.append(self._names[id(schema)])
        try:
            return super().generate_inner(schema)
        finally:
            self._fields.pop()

    def field_is_present(self, field: Any) -> bool:
        """Whether a field can be given."""
        return field.get("init") is not False and super().field_is_present(field)

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model, closed."""
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """A dataclass, closed."""
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """A TypedDict, closed."""
        return _closed(super().typed_dict_schema(schema))

    def enum_schema(self, schema: Any) -> JsonSchemaValue:
        """An enum, if JSON gives each member back."""
        return self._readable(schema, super().enum_schema(schema))

    def literal_schema(self, schema: Any) -> JsonSchemaValue:
        """A literal, if JSON gives each value back."""
        return self._readable(schema, super().literal_schema(schema))

    def float_schema(self, schema: Any) -> JsonSchemaValue:
        """A number; one that must be finite stays far from where floats end."""
        number = super().float_schema(schema)
        finite = schema.get("allow_inf_nan", self._config.allow_inf_nan) is False
        return finite_number(number) if finite else number

    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        """A number; a string where digits are limited, and nothing else, since a number has no keyword for that."""
        json_schema = super().decimal_schema(schema)
        # pydantic 2.14 allows a string everywhere, which may hold anything.
        number = next((item for item in json_schema.get("anyOf", []) if item.get("type") == "number"), json_schema)
        made = decimal(schema, number)
        if made is None:
            raise self._refused(
                "the digits of a bounded Decimal are limited only with at most four decimal_places, at most 15 "
                "max_digits and no multiple_of; leave out the digits or the bounds"
            )
        return made

    def complex_schema(self, schema: Any) -> JsonSchemaValue:
        """A complex number, as Python writes it, without the parentheses."""
        return {"type": "string", "pattern": patterns.COMPLEX}

    def fraction_schema(self, schema: Any) -> JsonSchemaValue:
        """A fraction, as Python writes it."""
        return {"type": "string", "pattern": patterns.FRACTION}

    def str_schema(self, schema: Any) -> JsonSchemaValue:
        """A string; where spaces around it are stripped before its rules apply, one without them."""
        pattern, flags = schema.get("pattern"), re.UNICODE | re.DEBUG
        if isinstance(pattern, re.Pattern) and pattern.flags & ~flags:
            raise self._refused("the flags of a compiled pattern are not supported; write the pattern without them")
        json_schema = super().str_schema(schema)
        strips = schema.get("strip_whitespace", self._config.str_strip_whitespace)
        if strips and json_schema.keys() & {"minLength", "pattern"}:
            _add_pattern(json_schema, r"^[^\s\ufeff\x85](?:[^\n]*[^\s\ufeff\x85])?$")
        if schema.get("ascii_only"):
            _add_pattern(json_schema, "^[ -~]*$")
        return json_schema

    def bytes_schema(self, schema: Any) -> JsonSchemaValue:
        """The bytes of a text, or what the configuration decodes; lengths count bytes."""
        json_schema: JsonSchemaValue = super().bytes_schema(schema)
        encoding = self._config.val_json_bytes
        del json_schema["format"]
        if encoding == "utf8":
            if "maxLength" in json_schema:
                _add_pattern(json_schema, "^[ -~]*$")
            return json_schema
        if json_schema.keys() - {"type"}:
            raise self._refused(f"lengths of bytes in {encoding} are not supported; leave them out")
        pattern = "^(?:[0-9a-f]{2})*$" if encoding == "hex" else patterns.base64_pattern("-_", ascii_only=False)
        return {**json_schema, "pattern": pattern}

    def function_after_schema(self, schema: Any) -> JsonSchemaValue:
        """What a validator is given; of pydantic's own validators, what they take."""
        owner = getattr(schema["function"]["function"], "__self__", None)
        if owner is ByteSize:
            return {"type": "integer", "minimum": 0}
        json_schema: JsonSchemaValue = super().function_after_schema(schema)
        if isinstance(owner, EncodedBytes | EncodedStr):
            last_two = _BASE64_DIGITS.get(owner.encoder)
            if last_two is None:
                raise self._refused("an encoder of your own is not known; use Base64Str or Base64UrlStr")
            ascii_only = isinstance(owner, EncodedStr)
            return {**json_schema, "pattern": patterns.base64_pattern(last_two, ascii_only=ascii_only)}
        return json_schema

    def datetime_schema(self, schema: Any) -> JsonSchemaValue:
        """A date and a time with a zone; without one where the type wants none."""
        if schema.get("tz_constraint") == "naive":
            return {"type": "string", "pattern": patterns.NAIVE_DATETIME}
        return super().datetime_schema(schema)

    def timedelta_schema(self, schema: Any) -> JsonSchemaValue:
        """A duration as pydantic reads it: in weeks, or in days and less."""
        return {"type": "string", "pattern": patterns.DURATION}

    def url_schema(self, schema: Any) -> JsonSchemaValue:
        """A URL of the schemes that the type takes."""
        json_schema: JsonSchemaValue = super().url_schema(schema)
        return _url(json_schema, schema)

    def multi_host_url_schema(self, schema: Any) -> JsonSchemaValue:
        """The same, with one host."""
        json_schema: JsonSchemaValue = super().multi_host_url_schema(schema)
        return _url(json_schema, schema)

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        """A dict, whose keys are closed when the references of the whole are known."""
        return self._with_keys(schema, super().dict_schema(schema))

    def frozendict_schema(self, schema: Any) -> JsonSchemaValue:
        """As a dict."""
        return self._with_keys(schema, super().frozendict_schema(schema))

    def ordered_dict_schema(self, schema: Any) -> JsonSchemaValue:
        """As a dict."""
        return self._with_keys(schema, super().ordered_dict_schema(schema))

    def counter_schema(self, schema: Any) -> JsonSchemaValue:
        """As a dict of integers."""
        json_schema = {**super().counter_schema(schema), "additionalProperties": {"type": "integer"}}
        return self._with_keys(schema, json_schema)

    def _with_keys(self, schema: Any, json_schema: JsonSchemaValue) -> JsonSchemaValue:
        if "keys_schema" not in schema:
            return json_schema
        keys = self.generate_inner(schema["keys_schema"])
        for values in json_schema.pop("patternProperties", {}).values():
            json_schema["additionalProperties"] = values
        return {**json_schema, "propertyNames": keys} if keys != {"type": "string"} else json_schema

    def _get_alias_name(self, field: Any, name: str) -> str:
        """The key of a field, by the configuration of its own model: ``by_alias`` of all would win over that."""
        alias = field.get("validation_alias", name)
        if isinstance(alias, str):
            return alias if self._config.validate_by_alias is not False else name
        if self._config.validate_by_alias is False:
            return name
        paths = alias if all(isinstance(path, list) for path in alias) else [alias]
        for path in paths:
            if len(path) == 1 and isinstance(path[0], str):
                return path[0]
        raise self._refused(
            "an AliasPath reads the field from inside another one; use a nested model or a plain alias", field
        )

    def _readable(self, schema: Any, json_schema: JsonSchemaValue) -> JsonSchemaValue:
        validator = SchemaValidator(schema)
        for value in [json_schema["const"]] if "const" in json_schema else json_schema["enum"]:
            try:
                validator.validate_json(json.dumps(value))
            except ValidationError as exc:
                kind = getattr(schema.get("cls"), "__name__", "Literal")
                raise self._refused(
                    f"{kind} does not take the JSON value {value!r} of its member; give members strings or numbers"
                ) from exc
        return json_schema

    def _refused(self, reason: str, field: Any = None) -> TypeRefusedError:
        place = self._names.get(id(field)) or (self._fields[-1] if self._fields else "")
        return TypeRefusedError(f"{place}: {reason}" if place else reason)


def _closed(json_schema: JsonSchemaValue) -> JsonSchemaValue:
    if json_schema.get("type") == "object" and "$ref" not in json_schema:
        json_schema.setdefault("additionalProperties", False)
    return json_schema


def _add_pattern(json_schema: JsonSchemaValue, pattern: str) -> None:
    if "pattern" in json_schema:
        json_schema.setdefault("allOf", []).append({"pattern": pattern})
    else:
        json_schema["pattern"] = pattern


def _url(json_schema: JsonSchemaValue, schema: Any) -> JsonSchemaValue:
    del json_schema["format"], json_schema["minLength"]  # no URL is empty
    return {**json_schema, "pattern": patterns.url_pattern(schema.get("allowed_schemes"))}
