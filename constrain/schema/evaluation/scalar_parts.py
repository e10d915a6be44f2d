"""The leaves of strings and numbers."""

from collections.abc import Callable
from functools import partial

from constrain.schema.evaluation.circuit import Reference
from constrain.schema.evaluation.kinds import NEGATIVE
from constrain.schema.evaluation.nodes import Node
from constrain.schema.evaluation.plan_builder import PlanBuilder
from constrain.schema.evaluation.spans import EarlyTest, multiple_of, of_bound, of_multiple
from constrain.schema.evaluation.values import Number
from constrain.schema.exact import is_multiple


def string_parts(builder: PlanBuilder, node: Node) -> list[Reference]:
    """What ``node`` asks of a string."""
    parts = builder.counted(node.min_length, node.max_length)
    for pattern in node.patterns:
        automaton = pattern.automaton
        if automaton is None:
            parts.append(_text_leaf(builder, pattern.matches))
        elif automaton.start.verdict:
            parts.append(automaton.start.verdict > 0)
        else:
            parts.append(builder.circuit.leaf())
            builder.patterns.append((int(parts[-1]), automaton))
    if node.format is not None:
        for proving in node.format.automata:
            parts.append(builder.circuit.leaf())
            builder.patterns.append((int(parts[-1]), proving))
        parts += builder.counted(0, node.format.max_length)
        parts.append(_text_leaf(builder, node.format.test))
    return parts


def _text_leaf(builder: PlanBuilder, test: Callable[[str], bool]) -> int:
    slot = builder.circuit.leaf()
    builder.texts.append((slot, test))
    return slot


def number_parts(builder: PlanBuilder, node: Node) -> list[Reference]:
    """What ``node`` asks of a number."""
    parts: list[Reference] = []
    negative = builder.kind == NEGATIVE
    if node.integers:
        by_value = node.integers == "value"
        early = of_multiple(1) if by_value else None
        parts.append(_number_leaf(builder, _is_integer if by_value else _is_written_as_integer, early))
        builder.integers.append(int(parts[-1]))
        builder.multiples.append((int(parts[-1]), multiple_of(1)))
    if (bound := node.minimum) is not None:
        known = (False if negative else None) if bound > 0 else (None if negative else True)
        parts.append(_bound_leaf(builder, partial(_is_at_least, bound)) if known is None else known)
    if (bound := node.maximum) is not None:
        known = (None if negative else False) if bound < 0 else (True if negative else None)
        parts.append(_bound_leaf(builder, partial(_is_at_most, bound)) if known is None else known)
    if (bound := node.exclusive_minimum) is not None:
        known = (False if negative else None) if bound >= 0 else (None if negative else True)
        parts.append(_bound_leaf(builder, partial(_is_above, bound)) if known is None else known)
    if (bound := node.exclusive_maximum) is not None:
        known = (None if negative else False) if bound <= 0 else (True if negative else None)
        parts.append(_bound_leaf(builder, partial(_is_below, bound)) if known is None else known)
    if node.multiple_of is not None:
        test = partial(_is_multiple_of, node.multiple_of)
        parts.append(_number_leaf(builder, test, of_multiple(node.multiple_of)))
        builder.multiples.append((int(parts[-1]), multiple_of(node.multiple_of)))
    return parts


def _bound_leaf(builder: PlanBuilder, test: Callable[[Number, bytes], bool]) -> int:
    return _number_leaf(builder, test, of_bound(test))


def _number_leaf(builder: PlanBuilder, test: Callable[[Number, bytes], bool], early: EarlyTest | None) -> int:
    slot = builder.circuit.leaf()
    builder.numbers.append((slot, test))
    if early is not None:
        builder.spans.append((slot, early))
    return slot


def _is_integer(value: Number, text: bytes) -> bool:
    return isinstance(value, int) or is_multiple(value, 1)


def _is_written_as_integer(value: Number, text: bytes) -> bool:
    return text.lstrip(b"-").isdigit()


def _is_at_least(bound: Number, value: Number, text: bytes) -> bool:
    return value >= bound


def _is_at_most(bound: Number, value: Number, text: bytes) -> bool:
    return value <= bound


def _is_above(bound: Number, value: Number, text: bytes) -> bool:
    return value > bound


def _is_below(bound: Number, value: Number, text: bytes) -> bool:
    return value < bound


def _is_multiple_of(divisor: Number, value: Number, text: bytes) -> bool:
    return is_multiple(value, divisor)
