"""The words that a walk may try: what the patterns of a schema spell out, and the scalars of its valid instances."""

import json
import re
from collections.abc import Iterator
from typing import Any

from constrain.conformance.case import Case

_SPELLED = re.compile(r"(?:[^\\\[\](){}|^$.*+?]|\\[/.\-])+")
_MAX_WORDS = 200


def words_of(case: Case) -> list[str]:
    """Each once, at most 200: literal pieces of patterns, texts without their quotes, numbers as JSON has them."""
    found: dict[str, None] = {}
    for pattern in _patterns(case.schema):
        found.update((piece.replace("\\", ""), None) for piece in _SPELLED.findall(pattern))
    for instance in case.instances:
        if instance.valid:
            found.update((word, None) for word in _scalars(instance.data))
    return [word for word in found if word and word.isprintable()][:_MAX_WORDS]


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword == "pattern" and isinstance(value, str):
                yield value
            elif keyword == "patternProperties" and isinstance(value, dict):
                yield from value
            yield from _patterns(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _patterns(item)


def _scalars(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _scalars(name)
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, str):
        yield json.dumps(value, ensure_ascii=False)[1:-1]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield json.dumps(value)
