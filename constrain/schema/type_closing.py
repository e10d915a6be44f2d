"""The last step from a type to its schema: what can be said only when all its references are known."""

from typing import Any

from constrain.schema.dialects import DRAFT_2020_12
from constrain.schema.type_keys import UnwritableKeysError, close_keys, resolved
from constrain.schema.type_patterns import OF_FORMAT
from constrain.schema.type_refusals import format_refusal

_BOUNDS: dict[str, tuple[str, Any]] = {
    "ge": ("minimum", max),
    "gt": ("exclusiveMinimum", max),
    "le": ("maximum", min),
    "lt": ("exclusiveMaximum", min),
}


class TypeRefusedError(Exception):
    """A part of a type that no schema can tell; the message says which, why, and what to use."""


def close_types(root: dict[str, Any]) -> dict[str, Any]:
    """Narrow ``root`` in place: tags are required, keys have patterns, pydantic's own formats are patterns.

    Raises ``TypeRefusedError`` with the place of what cannot be said.
    """
    todo: list[tuple[str, Any]] = [("", root)]
    while todo:
        place, node = todo.pop()
        if not isinstance(node, dict):
            continue
        reason = format_refusal(node)
        if reason is not None:
            raise TypeRefusedError(f"at {place or '/'}: {reason}")
        reason = _rename_bounds(node)
        if reason is not None:
            raise TypeRefusedError(f"at {place or '/'}: {reason}")
        _replace_format(node)
        try:
            _close_keys(node, root)
        except UnwritableKeysError as exc:
            raise TypeRefusedError(f"at {place or '/'}: {exc}") from exc
        _require_tags(node, root)
        todo.extend((place + pointer, child) for _, pointer, child in DRAFT_2020_12.children(node))
    return root


def _rename_bounds(node: dict[str, Any]) -> str | None:
    """Bounds that pydantic 2.14 writes under names of its own where it checks them after a validator."""
    for name, (keyword, stricter) in _BOUNDS.items():
        if name not in node:
            continue
        if node.get("type") not in ("integer", "number"):
            return f"{name}={node[name]!r:.40} of this type stands in no schema; put it on the parts that are numbers"
        value = node.pop(name)
        node[keyword] = stricter(value, node.get(keyword, value))
    return None


def _replace_format(node: dict[str, Any]) -> None:
    name = node.get("format")
    if not isinstance(name, str) or name not in OF_FORMAT:
        return
    del node["format"]
    pattern = OF_FORMAT[name]
    if pattern is None:
        return
    if "pattern" in node:
        node["allOf"] = [*node.get("allOf", ()), {"pattern": pattern}]
    else:
        node["pattern"] = pattern


def _close_keys(node: dict[str, Any], root: dict[str, Any]) -> None:
    if isinstance(node.get("propertyNames"), dict) and not node.keys() & {"properties", "patternProperties"}:
        close_keys(node, node.pop("propertyNames"), root)


def _require_tags(node: dict[str, Any], root: dict[str, Any]) -> None:
    """Require the tag in every branch of a discriminated union, which pydantic reads even where it has a default.

    The branches exclude each other then, so that ``oneOf`` is ``anyOf``, which every backend follows.
    """
    discriminator = node.get("discriminator")
    if not isinstance(discriminator, dict) or "oneOf" not in node:
        return
    del node["discriminator"]
    node["anyOf"] = node.pop("oneOf")
    for branch in node["anyOf"]:
        _require_tag(branch, discriminator.get("propertyName"), root)


def _require_tag(branch: Any, tag: Any, root: dict[str, Any]) -> None:
    branch = resolved(branch, root)
    for inner in [*branch.get("oneOf", ()), *branch.get("anyOf", ())]:  # a discriminated union among the branches
        _require_tag(inner, tag, root)
    if tag in branch.get("properties", {}) and tag not in branch.get("required", []):
        branch["required"] = [*branch.get("required", []), tag]
