"""``unevaluatedProperties`` and ``unevaluatedItems`` for ``jsonschema``'s validators.

Those of ``jsonschema`` 4.26 differ from the drafts in places: draft 2019-09 forgets ``additionalProperties`` of another
branch, ``unevaluatedItems`` forgets ``dependentSchemas``, and neither follows a ``$id`` inside a branch.
"""

from collections.abc import Iterator
from typing import Any

from jsonschema.exceptions import ValidationError
from referencing import jsonschema as specifications

from constrain.schema.matching import searches


def unevaluated_properties(validator: Any, subschema: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword, for ``validators.create``."""
    if not validator.is_type(value, "object"):
        return
    known = _names(validator, value, schema, own=False)
    for name in value:
        if name not in known and not _inside(validator, subschema).is_valid(value[name]):
            yield ValidationError(f"the property {name!r} is not evaluated by any subschema", path=[name])


def unevaluated_items(validator: Any, subschema: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword, for ``validators.create``."""
    if not validator.is_type(value, "array"):
        return
    known = _indexes(validator, value, schema, own=False)
    for index, item in enumerate(value):
        if index not in known and not _inside(validator, subschema).is_valid(item):
            yield ValidationError(f"the item {index} is not evaluated by any subschema", path=[index])


def _names(validator: Any, value: Any, schema: Any, own: bool = True) -> set[str]:
    """The properties that ``schema`` evaluates, given that it holds; ``own`` counts its unevaluatedProperties."""
    if not isinstance(schema, dict):
        return set()
    if "additionalProperties" in schema or (own and "unevaluatedProperties" in schema):
        return set(value)
    known = set(value) & set(schema.get("properties", ()))
    for pattern in schema.get("patternProperties", ()):
        known.update(name for name in value if searches(pattern, name))
    for branch in _branches(validator, value, schema):
        known |= _names(branch, value, branch.schema)
    return known


def _indexes(validator: Any, value: Any, schema: Any, own: bool = True) -> set[int]:
    """The items that ``schema`` evaluates, given that it holds."""
    if not isinstance(schema, dict):
        return set()
    everything = set(range(len(value)))
    first = schema.get("prefixItems", ())
    if "items" in schema and not isinstance(schema["items"], list):
        return everything
    if isinstance(schema.get("items"), list):
        first = schema["items"]
        if "additionalItems" in schema:
            return everything
    if own and "unevaluatedItems" in schema:
        return everything
    known = set(range(min(len(first), len(value))))
    if "contains" in schema and _counts_contains(validator):
        inside = _inside(validator, schema["contains"])
        known.update(index for index in everything - known if inside.is_valid(value[index]))
    for branch in _branches(validator, value, schema):
        known |= _indexes(branch, value, branch.schema)
    return known


def _branches(validator: Any, value: Any, schema: Any) -> Iterator[Any]:
    """Validators of the subschemas that apply to ``value`` itself and hold."""
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in validator.VALIDATORS:
            yield _target(validator, validator._resolver.lookup(schema[keyword]))
    if "$recursiveRef" in schema and "$recursiveRef" in validator.VALIDATORS:
        yield _target(validator, specifications.lookup_recursive_ref(validator._resolver))
    conditional = list(schema.get("allOf", ())) + list(schema.get("anyOf", ())) + list(schema.get("oneOf", ()))
    if isinstance(value, dict):
        dependent = schema.get("dependentSchemas", {})
        conditional += [subschema for name, subschema in dependent.items() if name in value]
    if "if" in schema:
        holds = _inside(validator, schema["if"]).is_valid(value)
        conditional += [schema["if"], schema.get("then", True)] if holds else [schema.get("else", True)]
    for subschema in conditional:
        branch = _inside(validator, subschema)
        if branch.is_valid(value):
            yield branch


def _inside(validator: Any, schema: Any) -> Any:
    resolver = validator._resolver
    if isinstance(schema, dict):
        resolver = resolver.in_subresource(specifications.DRAFT202012.create_resource(schema))
    return validator.evolve(schema=schema, _resolver=resolver)


def _target(validator: Any, resolved: Any) -> Any:
    return validator.evolve(schema=resolved.contents, _resolver=resolved.resolver)


def _counts_contains(validator: Any) -> bool:
    return "prefixItems" in validator.VALIDATORS  # draft 2020-12; in 2019-09 contains evaluates nothing
