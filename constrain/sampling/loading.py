"""Finding the processors that a user names and those that an installed package brings."""

import importlib
import inspect
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from constrain.errors import InvalidInputError
from constrain.sampling.processors import LogitsProcessor

GROUP = "constrain.logits_processors"
"""The entry-point group in which a package names its processors."""


def load_processors(
    wanted: Iterable[str | type[LogitsProcessor] | LogitsProcessor] = (), *, installed: bool = True
) -> list[LogitsProcessor]:
    """Processors, ready for a sampler: every installed one, in the order of names, and then those wanted, in order.

    wanted:
        ``"module:Class"``, the name of an entry point, a class, or an instance. A class is made without arguments.
    installed:
        Whether entry points load unasked.

    One that is named twice is made once. Raises ``InvalidInputError``, which names the processor, where one cannot be
    loaded, and for a name that nobody has.
    """
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        raise InvalidInputError(f"processors={wanted!r}: want a list of classes, instances or names")
    found = _installed()
    asked: list[Any] = [*(found if installed else ()), *wanted]
    loaded: list[LogitsProcessor] = []
    made: set[type] = set()
    for each in asked:
        if isinstance(each, LogitsProcessor):
            loaded.append(each)
            continue
        name, kind = _resolved(each, found)
        if kind not in made:
            made.add(kind)
            loaded.append(_made(name, kind))
    return loaded


def _installed() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        other = found.setdefault(point.name, point)
        if other.value != point.value:
            raise InvalidInputError(
                f"logits processor {point.name!r} is named by two packages, as {other.value} and {point.value}; "
                "uninstall one of them"
            )
    return found


def _resolved(each: Any, found: dict[str, EntryPoint]) -> tuple[str, type[LogitsProcessor]]:
    name = each if isinstance(each, str) else getattr(each, "__qualname__", repr(each))
    try:
        kind = _named(each, found) if isinstance(each, str) else each
    except Exception as exc:
        raise InvalidInputError(f"logits processor {name!r} cannot be loaded: {type(exc).__name__}: {exc}") from exc
    if not inspect.isclass(kind) or not issubclass(kind, LogitsProcessor):
        raise InvalidInputError(f"logits processor {name!r} is {kind!r}; want a subclass of LogitsProcessor")
    return name, kind


def _named(name: str, found: dict[str, EntryPoint]) -> Any:
    if name in found:
        return found[name].load()
    module, colon, path = name.partition(":")
    if not colon or not module or not path:
        raise LookupError(f"no entry point of {GROUP} has this name ({sorted(found)}); want one, or module:Class")
    value: Any = importlib.import_module(module)
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _made(name: str, kind: type[LogitsProcessor]) -> LogitsProcessor:
    try:
        return kind()
    except Exception as exc:
        raise InvalidInputError(f"logits processor {name!r} cannot be made: {type(exc).__name__}: {exc}") from exc
