"""Structural tags for xgrammar: which formats keep the laws, and what stands inside them."""

import json
from collections.abc import Iterator
from typing import Any

from constrain.backends._json_schema import child_pointer, read_text
from constrain.backends._xgrammar_ebnf import regex_ebnf, unsupported_ebnf
from constrain.backends._xgrammar_json import unsupported_schema
from constrain.backends._xgrammar_repeats import unsupported_repeats
from constrain.errors import Unsupported
from constrain.regex import parse_regex

_FORMATS = frozenset({
    "const_string", "json_schema", "any_text", "grammar", "regex", "sequence", "or", "tag", "triggered_tags",
    "tags_with_separator", "optional", "plus", "star", "repeat",
})  # fmt: skip


def unsupported_tag(tag: Any) -> list[Unsupported]:
    """Every format in ``tag`` that names token ids or that xgrammar would not enforce exactly."""
    found = []
    for pointer, place in _formats(tag):
        name = place["type"]
        if name == "json_schema":
            if set(place) - {"type", "json_schema"}:
                found.append(Unsupported("options beside json_schema", pointer, "json_schema"))
            schema = read_text(place.get("json_schema"))
            for item in map(schema.at_home, unsupported_schema(schema)):
                found.append(Unsupported(item.reason, f"{pointer}/json_schema{item.pointer}", item.keyword))
        elif name == "regex" and isinstance(place.get("pattern"), str):
            found += unsupported_repeats(regex_ebnf(parse_regex(place["pattern"])))
        elif name == "grammar":
            found += unsupported_ebnf(str(place.get("grammar")))
        elif name not in _FORMATS:
            found.append(Unsupported(f"the format {name!r} is not known to keep the laws", pointer, "type"))
    return found


def portable_tag(tag: Any) -> str:
    """``tag`` as JSON text, with its regular expressions in Python's dialect, as everywhere in constrain."""
    for _, place in list(_formats(tag)):
        if place["type"] == "json_schema":
            place["json_schema"] = read_text(place["json_schema"]).schema
        if place["type"] == "regex" and isinstance(place.get("pattern"), str):
            place["grammar"] = regex_ebnf(parse_regex(place.pop("pattern")))
            place["type"] = "grammar"
    return json.dumps(tag)


def _formats(tag: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mapping of ``tag`` with a ``type``, the outermost one and the insides of schemas aside."""
    stack: list[tuple[str, Any]] = [("/format", tag.get("format"))] if isinstance(tag, dict) else []
    while stack:
        pointer, place = stack.pop()
        if isinstance(place, dict):
            if isinstance(place.get("type"), str):
                yield pointer, place
            stack += [(child_pointer(pointer, key), item) for key, item in place.items() if key != "json_schema"]
        elif isinstance(place, list):
            stack += [(child_pointer(pointer, index), item) for index, item in enumerate(place)]
