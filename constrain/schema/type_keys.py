"""The keys of a dict as closed ``properties`` or ``patternProperties``: no backend enforces ``propertyNames``."""

import math
from typing import Any

from constrain.schema.type_patterns import FLOAT, OF_FORMAT, OF_KEY_FORMAT, integer_pattern

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated", "writeOnly", "readOnly"})
_MAX_NAMED_KEYS = 1000


class UnwritableKeysError(ValueError):
    """Keys that no text of a key stands for, or whose rule has no pattern; the message says why."""


def close_keys(json_schema: dict[str, Any], keys: dict[str, Any], root: dict[str, Any]) -> None:
    """Say in ``json_schema``, of a dict, in place, that its keys follow ``keys``; ``root`` resolves references."""
    names, patterns = _alternatives(resolved(keys, root), root)
    if names is None:
        return
    values = json_schema.pop("additionalProperties", True)
    json_schema["additionalProperties"] = False
    if names:
        json_schema["properties"] = dict.fromkeys(names, values)
    if patterns:
        json_schema["patternProperties"] = dict.fromkeys(patterns, values)


def _alternatives(keys: dict[str, Any], root: dict[str, Any]) -> tuple[list[str] | None, list[str]]:
    """The names and the patterns of the keys; None for names: any key."""
    rules = {name: value for name, value in keys.items() if name not in _ANNOTATIONS}
    kind = rules.pop("type", None)
    if "anyOf" in rules:
        return _together([_alternatives(resolved(branch, root), root) for branch in rules["anyOf"]])
    if "enum" in rules or "const" in rules:
        return _named([rules["const"]] if "const" in rules else rules["enum"])
    match kind:
        case "integer":
            return _integers(rules)
        case "number":
            return _floats(rules)
        case "boolean":
            return ["false", "true"], []
        case "string" | None:
            return _texts(rules)
    raise UnwritableKeysError(
        f"keys of JSON objects are text, which a key of type {kind!r} {rules or ''} does not take"
    )


def _together(branches: list[tuple[list[str] | None, list[str]]]) -> tuple[list[str] | None, list[str]]:
    names: list[str] = []
    patterns: list[str] = []
    for some, others in branches:
        if some is None:
            return None, []
        names += some
        patterns += others
    return list(dict.fromkeys(names)), list(dict.fromkeys(patterns))


def _named(values: list[Any]) -> tuple[list[str], list[str]]:
    if len(values) > _MAX_NAMED_KEYS or not all(isinstance(value, str) for value in values):
        raise UnwritableKeysError(f"keys of JSON objects are text; use strings for the keys instead of {values!r:.80}")
    return values, []


def _integers(rules: dict[str, Any]) -> tuple[list[str], list[str]]:
    low, high = rules.pop("minimum", None), rules.pop("maximum", None)
    if (above := rules.pop("exclusiveMinimum", None)) is not None:
        low = max(above + 1, above + 1 if low is None else low)
    if (below := rules.pop("exclusiveMaximum", None)) is not None:
        high = min(below - 1, below - 1 if high is None else high)
    step = rules.pop("multipleOf", 1)
    if not rules and low is not None and high is not None and 0 <= high - low < _MAX_NAMED_KEYS:
        return [str(number) for number in range(low, high + 1) if number % step == 0], []
    if rules or high is not None or step != 1 or (low is not None and low < 0):
        raise UnwritableKeysError("these bounds of keys have no pattern; use bounds that at most 1000 integers meet")
    return [], [integer_pattern(low)]


def _floats(rules: dict[str, Any]) -> tuple[list[str], list[str]]:
    low, high = rules.pop("minimum", -math.inf), rules.pop("maximum", math.inf)
    if rules or (low > -(10**15) and low != 0) or high < 10**15:
        raise UnwritableKeysError("bounds of keys that are no integers have no pattern; leave them out")
    return [], [FLOAT if low else FLOAT.replace("-?", "")]


def _texts(rules: dict[str, Any]) -> tuple[list[str] | None, list[str]]:
    if "format" in rules:
        name = str(rules["format"])
        pattern = OF_FORMAT.get(name, OF_KEY_FORMAT.get(name, ""))
        if pattern == "":
            raise UnwritableKeysError(f"keys of format {name!r} have no pattern; use str")
        del rules["format"]
        rules |= {"pattern": pattern} if pattern is not None else {}
    if not rules:
        return None, []
    if rules.keys() == {"pattern"}:
        return [], [rules["pattern"]]
    if rules.keys() <= {"minLength", "maxLength"}:
        return [], [rf"^[^\n]{{{rules.get('minLength', 0)},{rules.get('maxLength', '')}}}$"]
    raise UnwritableKeysError(f"keys with all of {', '.join(rules)} have no one pattern; use a pattern alone")


def resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """What ``schema`` refers to in the definitions of ``root``, or itself."""
    while str(schema.get("$ref", "")).startswith("#/$defs/"):
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")]
    return schema
