"""What a schema can evaluate at most, whichever of its branches hold; and the names it lists, in order."""

from collections.abc import Iterator
from typing import Literal

from constrain.schema.evaluated import Evaluated
from constrain.schema.normal import Normal, NormalObject, NormalSchema

_MAX_VISITED = 2_000


def evaluated_at_most(normal: Normal, schema: NormalSchema, of: Literal["properties", "items"]) -> Evaluated:
    """All that ``schema`` and what it applies to the same value may evaluate."""
    found = Evaluated()
    for count, part in enumerate(in_place(normal, schema)):
        if count > _MAX_VISITED or f"unevaluated{of.capitalize()}" in part:
            return Evaluated(everything=True)
        if of == "properties":
            names, patterns = part.get("properties", ()), part.get("patternProperties", ())
            found |= Evaluated("additionalProperties" in part, frozenset(names), frozenset(patterns))
        else:
            reads = "contains" in part and normal.contains_evaluates is not False
            found |= Evaluated("items" in part or reads, num_items=len(part.get("prefixItems", ())))
    return found


def listed_names(normal: Normal, schema: NormalSchema) -> list[str]:
    """The names of properties, in the order in which they come first; then those that are only required."""
    parts = [part for part, _ in zip(in_place(normal, schema), range(_MAX_VISITED), strict=False)]
    named = [name for part in parts for name in part.get("properties", ())]
    return list(dict.fromkeys([*named, *(name for part in parts for name in part.get("required", ()))]))


def in_place(normal: Normal, schema: NormalSchema) -> Iterator[NormalObject]:
    """``schema`` and what it may apply to the same value but for ``not``; depth first as it is written, each once."""
    seen: set[int] = set()
    todo = [schema]
    while todo:
        part = todo.pop()
        if not isinstance(part, NormalObject) or id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        inside: list[NormalSchema] = [normal.target(part)] if "$ref" in part else []
        for keyword in ("allOf", "anyOf", "oneOf"):
            inside += part.get(keyword, ())
        inside += [part[keyword] for keyword in ("if", "then", "else") if keyword in part]
        inside += part.get("dependentSchemas", {}).values()
        todo.extend(reversed(inside))
