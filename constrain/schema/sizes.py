"""What is checked before anything is compiled: patterns that parse, and sizes that no library survives."""

import re
from collections.abc import Iterator
from typing import Any

from constrain.errors import (
    InvalidGrammarError,
    InvalidSchemaError,
    LimitExceededError,
    Unsupported,
    UnsupportedGrammarError,
)
from constrain.schema.documents import is_metaschema
from constrain.schema.ecma import translate_pattern
from constrain.schema.exact import scaled
from constrain.schema.graph import SchemaGraph, SchemaNode
from constrain.schema.json_text import join_pointer
from constrain.schema.limits import SchemaLimits

# The private parser of `re` (3.11 to 3.14): the only one that agrees with it.
_parser: Any = re._parser  # type: ignore[attr-defined]


def check_sizes(graph: SchemaGraph, limits: SchemaLimits) -> None:
    """Raise for a pattern that is none, or for what exceeds ``limits``; the error names the place."""
    for node in graph.nodes:
        if is_metaschema(node.document):
            continue
        for keyword, pointer, pattern in _patterns(node):
            _check_pattern(keyword, pointer, pattern, limits)
        divisor = node.keywords.get("multipleOf")
        if divisor is not None and scaled(divisor)[0] > limits.max_multiple_of:
            place = join_pointer(node.pointer, "multipleOf")
            raise LimitExceededError(
                f"at {place}: multipleOf {divisor} has more than max_multiple_of={limits.max_multiple_of} units"
            )
    _check_least_counts(graph, limits)


def _patterns(node: SchemaNode) -> Iterator[tuple[str, str, str]]:
    keywords = node.keywords
    if isinstance(keywords.get("pattern"), str):
        yield "pattern", join_pointer(node.pointer, "pattern"), keywords["pattern"]
    for pattern in keywords.get("patternProperties", ()):
        yield "patternProperties", join_pointer(node.pointer, "patternProperties", pattern), pattern


def _check_pattern(keyword: str, pointer: str, pattern: str, limits: SchemaLimits) -> None:
    if len(pattern.encode()) > limits.max_pattern_bytes:
        limit = f"max_pattern_bytes={limits.max_pattern_bytes}"
        raise LimitExceededError(f"at {pointer:.200}: the pattern is longer than {limit}")
    try:
        parsed = _parser.parse(translate_pattern(pattern))
    except InvalidGrammarError as exc:
        raise InvalidSchemaError(f"at {pointer}: {exc}", pointer=pointer, position=exc.position) from exc
    except UnsupportedGrammarError as exc:
        unsupported = Unsupported(str(exc), pointer, keyword)
        raise UnsupportedGrammarError(str(unsupported), unsupported=[unsupported]) from exc
    if _repetition(parsed) > limits.max_repetition:
        limit = f"max_repetition={limits.max_repetition}"
        raise LimitExceededError(f"at {pointer:.200}: the counts of the pattern multiply to more than {limit}")


def _repetition(tree: Any) -> int:
    """The largest product of bounded counts inside each other in a tree of ``re``'s parser."""
    largest = 1
    todo = [(tree, 1)]
    while todo:
        value, product = todo.pop()
        largest = max(largest, product)
        if isinstance(value, tuple) and len(value) == 2 and str(value[0]).endswith("REPEAT"):
            least, most, body = value[1]
            count = least if most is _parser.MAXREPEAT else most
            todo.append((body, product * max(int(count), 1)))
        elif isinstance(value, tuple | list | _parser.SubPattern):
            todo.extend((item, product) for item in value)
    return largest


def _check_least_counts(graph: SchemaGraph, limits: SchemaLimits) -> None:
    """Multiply the least counts along every path; a node inside itself counts once."""
    products: dict[int, int] = {}
    for start in graph.nodes:
        path = [(start, start.successors)]
        on_path = {id(start)}
        while path and id(start) not in products:
            node, successors = path[-1]
            following = next(
                (item for item in successors if id(item) not in products and id(item) not in on_path), None
            )
            if following is not None:
                path.append((following, following.successors))
                on_path.add(id(following))
                continue
            path.pop()
            on_path.discard(id(node))
            inner = max((products.get(id(item), 1) for item in node.successors), default=1)
            products[id(node)] = product = _least_count(node) * inner
            if product > limits.max_repetition:
                limit = f"max_repetition={limits.max_repetition}"
                raise LimitExceededError(f"at {node.pointer or '/'}: the least counts multiply to more than {limit}")


def _least_count(node: SchemaNode) -> int:
    counts = (node.keywords.get(name, 1) for name in ("minItems", "minLength", "minProperties"))
    return max(1, *(int(count) for count in counts))
