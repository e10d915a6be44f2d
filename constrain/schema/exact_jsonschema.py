"""``jsonschema``'s validators made exact: decimal numbers, equality as JSON has it, patterns one by one."""

from collections.abc import Iterator
from decimal import Decimal
from functools import cache, partialmethod
from typing import Any

import attrs
from jsonschema import exceptions, validators

from constrain.schema.dialects import DRAFT_4, DRAFT_6, DRAFT_7, DRAFT_2019_09, DRAFT_2020_12, Dialect, dialect_of
from constrain.schema.exact import hashable, is_multiple
from constrain.schema.matching import searches
from constrain.schema.unevaluated import unevaluated_items, unevaluated_properties


@cache
def exact_class(dialect: Dialect) -> Any:
    """The class of validators for ``dialect``; numbers of schemas and values are to be ``int`` or ``Decimal``."""
    base: Any = {
        DRAFT_4: validators.Draft4Validator,
        DRAFT_6: validators.Draft6Validator,
        DRAFT_7: validators.Draft7Validator,
        DRAFT_2019_09: validators.Draft201909Validator,
        DRAFT_2020_12: validators.Draft202012Validator,
    }[dialect]
    checker = base.TYPE_CHECKER
    if dialect is not DRAFT_4:  # whose integers have no fraction, even of zeros
        checker = checker.redefine("integer", _is_integer)
    keywords = {
        "multipleOf": _multiple_of,
        "uniqueItems": _unique_items,
        "additionalProperties": _additional_properties,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
    }
    if "unevaluatedItems" in base.VALIDATORS:
        keywords |= {"unevaluatedProperties": unevaluated_properties, "unevaluatedItems": unevaluated_items}
    # create() and not extend(): a class that is registered for a dialect would change jsonschema for everybody.
    exact: Any = validators.create(
        meta_schema=base.META_SCHEMA,
        validators={**base.VALIDATORS, **keywords},
        type_checker=checker,
        format_checker=base.FORMAT_CHECKER,
        id_of=base.ID_OF,
        applicable_validators=_ref_alone if dialect.ref_hides_siblings else lambda schema: schema.items(),
    )
    exact.evolve = partialmethod(_evolve, dialect)
    return exact


def _evolve(validator: Any, dialect: Dialect, **changes: Any) -> Any:
    """As ``jsonschema``'s, which turns to its own class for the ``$schema`` of a subschema: here to the exact one."""
    cls = exact_class(dialect_of(changes.setdefault("schema", validator.schema), dialect))
    for attribute in attrs.fields(cls):
        if attribute.init and attribute.alias not in changes:
            changes[attribute.alias] = getattr(validator, attribute.name)
    return cls(**changes)


def _ref_alone(schema: dict[str, Any]) -> Any:
    return [("$ref", schema["$ref"])] if "$ref" in schema else schema.items()


def _is_integer(checker: Any, value: Any) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _multiple_of(validator: Any, divisor: Any, value: Any, schema: Any) -> Iterator[exceptions.ValidationError]:
    if validator.is_type(value, "number") and not is_multiple(value, divisor):
        yield exceptions.ValidationError(f"{value} is not a multiple of {divisor}")


def _unique_items(validator: Any, unique: Any, value: Any, schema: Any) -> Iterator[exceptions.ValidationError]:
    if unique and validator.is_type(value, "array") and len(set(map(hashable, value))) < len(value):
        yield exceptions.ValidationError(f"{value!r:.200} has items that are equal")


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[exceptions.ValidationError]:
    if validator.is_type(value, "string") and not searches(pattern, value):
        yield exceptions.ValidationError(f"{value!r:.200} does not match {pattern!r:.200}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[exceptions.ValidationError]:
    if not validator.is_type(value, "object"):
        return
    for pattern, subschema in patterns.items():
        for name, item in value.items():
            if searches(pattern, name):
                yield from validator.descend(item, subschema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, extra: Any, value: Any, schema: Any) -> Iterator[exceptions.ValidationError]:
    # jsonschema 4.26 joins the patterns with "|", which breaks groups and an empty pattern.
    if not validator.is_type(value, "object"):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, item in value.items():
        if name in known or any(searches(pattern, name) for pattern in patterns):
            continue
        if extra is False:
            yield exceptions.ValidationError(f"the property {name!r} is not allowed", path=[name])
        else:
            yield from validator.descend(item, extra, path=name)
