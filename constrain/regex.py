"""Python's ``re`` syntax as a small tree, and as canonical text that every backend reads alike.

The language is that of ``re.fullmatch`` on ``str``. The stdlib's own parser and matcher say what a pattern means, so
classes, flags and categories are exactly Python's; what no automaton can do is refused by name.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from constrain.errors import InvalidGrammarError, LimitExceededError, UnsupportedGrammarError

# The private modules of `re` (3.11 to 3.14): the only way to mean exactly what Python means.
_compiler: Any = re._compiler  # type: ignore[attr-defined]
_parser: Any = re._parser  # type: ignore[attr-defined]

MAX_DEPTH = 100
"""How deep groups and repeats may nest."""

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of ``ranges``: sorted, disjoint, not adjacent, inclusive, without surrogates."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concat:
    """The parts one after the other; without parts, the empty text (only inside this module)."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """Any of the options."""

    options: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """``body`` from ``minimum`` to ``maximum`` times; ``None`` is without bound."""

    body: "Node"
    minimum: int
    maximum: int | None


Node = Chars | Concat | Alternation | Repeat


def parse_regex(pattern: str) -> Node:
    """The tree of ``pattern``: no empty alternatives, no empty classes, no anchors, no flags.

    Raises ``InvalidGrammarError`` (with a position where one is known) for what does not parse, matches nothing or only
    the empty text; ``UnsupportedGrammarError`` for what no automaton does; ``LimitExceededError`` for deep nesting.
    """
    if not isinstance(pattern, str):
        raise InvalidGrammarError(f"a regular expression must be a str, not {type(pattern).__name__}: {pattern!r}")
    try:
        parsed = _parser.parse(pattern)
        node = _sequence(parsed, _Place(parsed.state.flags, at_start=True, at_end=True))
        too_deep = _depth(node) > MAX_DEPTH
    except re.error as exc:
        raise InvalidGrammarError(f"the regular expression does not parse: {exc}", position=exc.pos) from exc
    except OverflowError as exc:
        raise InvalidGrammarError(f"the regular expression does not parse: {exc}") from exc
    except RecursionError:
        too_deep = True
    if too_deep:
        raise LimitExceededError(f"the regular expression nests deeper than {MAX_DEPTH} groups and repeats")
    if node == _NOTHING:
        raise InvalidGrammarError(f"the regular expression {pattern!r} matches nothing; no text could be generated")
    if node == _EMPTY:
        raise InvalidGrammarError(f"the regular expression {pattern!r} matches only the empty text: no token writes it")
    return node


def format_regex(node: Node) -> str:
    """``node`` as text that Python's ``re``, Rust's ``regex`` and ECMAScript-like parsers read alike.

    Literals, ``[...]``, ``(?:...)``, ``|`` and repeats only; all but ASCII stands for itself.
    """
    match node:
        case Chars():
            return _format_chars(node.ranges)
        case Concat():
            return "".join(_format_part(part, Alternation) for part in node.parts)
        case Alternation():
            return "|".join(format_regex(option) for option in node.options)
        case Repeat():
            body = _format_part(node.body, Alternation | Concat | Repeat)
            return body + _format_count(node.minimum, node.maximum)


def canonical_regex(pattern: str) -> str:
    """The canonical text of ``pattern``, with the same language; raises as :func:`parse_regex` does."""
    return format_regex(parse_regex(pattern))


def concat(parts: Iterable[Node]) -> Node:
    """The parts one after the other, flattened."""
    flat: list[Node] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Concat) else [part])
    if _NOTHING in flat:
        return _NOTHING
    return flat[0] if len(flat) == 1 else Concat(tuple(flat))


def alternation(options: Iterable[Node]) -> Node:
    """Any of the options: single characters united, a common beginning written once, an empty option made a ``?``."""
    flat: list[Node] = []
    for option in options:
        flat.extend(option.options if isinstance(option, Alternation) else [option])
    single = chars(span for option in flat if isinstance(option, Chars) for span in option.ranges)
    united = (single if isinstance(option, Chars) else option for option in flat)
    distinct = [option for option in dict.fromkeys(united) if option not in (_NOTHING, _EMPTY)]
    node = _factored(distinct) if len(distinct) > 1 else distinct[0] if distinct else _NOTHING
    return repeat(node, 0, 1) if _EMPTY in flat else node


def _factored(options: Sequence[Node]) -> Node:
    # The stdlib's parser takes out one common beginning; taking out all makes canonical text a fixed point of parsing.
    written = [option.parts if isinstance(option, Concat) else (option,) for option in options]
    shared = next(
        (n for n, parts in enumerate(zip(*written, strict=False)) if len(set(parts)) > 1), min(map(len, written))
    )
    if not shared:
        return Alternation(tuple(options))
    return concat([*written[0][:shared], alternation(concat(parts[shared:]) for parts in written)])


def repeat(body: Node, minimum: int, maximum: int | None) -> Node:
    """``body`` repeated; the plainest of nested stars is written once."""
    if maximum == 0 or body == _EMPTY or (body == _NOTHING and minimum == 0):
        return _EMPTY
    if body == _NOTHING or (minimum, maximum) == (1, 1):
        return body
    if isinstance(body, Repeat) and body.minimum == 0 and (body.maximum is None or (minimum, maximum) == (0, 1)):
        return body
    return Repeat(body, minimum, maximum)


def chars(ranges: Iterable[tuple[int, int]]) -> Chars:
    """One character out of ``ranges`` in any order, overlapping or not; surrogates are left out."""
    return Chars(_without(_united(ranges), _SURROGATES))


_SURROGATES: Ranges = ((0xD800, 0xDFFF),)
_NOTHING: Node = Chars(())
_EMPTY: Node = Concat(())


# From the stdlib's tree to ours.


@dataclass(frozen=True, slots=True)
class _Place:
    """What holds where a construct stands: its flags, and whether nothing can precede or follow it."""

    flags: int
    at_start: bool
    at_end: bool


_UNSUPPORTED = {
    "ASSERT": "a look-around",
    "ASSERT_NOT": "a negative look-around",
    "ATOMIC_GROUP": "an atomic group (?>...)",
    "GROUPREF": "a back-reference",
    "GROUPREF_EXISTS": "a conditional group (?(1)...)",
    "POSSESSIVE_REPEAT": "a possessive quantifier",
}
_START_ANCHORS = {"AT_BEGINNING": "^", "AT_BEGINNING_STRING": r"\A"}
_END_ANCHORS = {"AT_END": "$", "AT_END_STRING": r"\Z"}


def _sequence(items: Sequence[Any], place: _Place) -> Node:
    # Only anchors are known to take no text here; `a?^b` is refused, although it could be shown to mean `b`.
    taking = [n for n, (op, _) in enumerate(items) if str(op) != "AT"]
    first, last = (taking[0], taking[-1]) if taking else (len(items), -1)
    parts = []
    for n, (op, argument) in enumerate(items):
        here = replace(place, at_start=place.at_start and n <= first, at_end=place.at_end and n >= last)
        parts.append(_item(str(op), argument, here))
    return concat(parts)


def _item(op: str, argument: Any, place: _Place) -> Node:
    match op:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            return chars(matched_ranges(op, argument, place.flags))
        case "AT":
            return _anchor(str(argument), place)
        case "BRANCH":
            return alternation([_sequence(option, place) for option in argument[1]])
        case "SUBPATTERN":
            _, added, removed, body = argument
            flags = _compiler._combine_flags(place.flags, added, removed)
            return _sequence(body, replace(place, flags=flags))
        case "MAX_REPEAT" | "MIN_REPEAT":
            minimum, maximum, body = argument
            inner = replace(place, at_start=False, at_end=False) if maximum > 1 else place
            bound = None if maximum == _parser.MAXREPEAT else int(maximum)
            return repeat(_sequence(body, inner), int(minimum), bound)
        case "FAILURE":
            return _NOTHING
        case _:
            raise _unsupported(_UNSUPPORTED.get(op, op))


def _anchor(kind: str, place: _Place) -> Node:
    # At the very end `$` and `\Z` are alike: the newline that `$` allows behind it could not be matched by anything.
    if (kind in _START_ANCHORS and place.at_start) or (kind in _END_ANCHORS and place.at_end):
        return _EMPTY
    written = (_START_ANCHORS | _END_ANCHORS).get(kind)
    raise _unsupported(r"a word boundary \b or \B" if written is None else f"the anchor {written} inside the pattern")


def _unsupported(construct: str) -> UnsupportedGrammarError:
    return UnsupportedGrammarError(
        f"the regular expression has {construct}, which no backend enforces; the whole output is matched, so write "
        "the same texts with alternatives, classes and repeats"
    )


def _depth(node: Node) -> int:
    # Of the tree and not of the pattern, so that canonical text is never deeper than what it came from.
    match node:
        case Chars():
            return 0
        case Concat():
            return 1 + max(map(_depth, node.parts), default=0)
        case Alternation():
            return 1 + max(map(_depth, node.options))
        case Repeat():
            return 1 + _depth(node.body)


# Sets of characters.


def matched_ranges(op: str, argument: Any, flags: int) -> Ranges:
    """The characters that one item of the stdlib's tree matches."""
    plain = _plain_ranges(op, argument, flags)
    if not flags & re.IGNORECASE or op == "ANY":
        return plain
    # Case plays a part for these few thousand characters only; the matcher itself says which it takes.
    text = _cased_text()
    cased = _united((ord(char), ord(char)) for char in text)
    taken = _spans_matched(op, argument, flags, text)
    return _united([*_without(plain, cased), *((ord(text[i]), ord(text[i])) for a, b in taken for i in range(a, b))])


def _plain_ranges(op: str, argument: Any, flags: int) -> Ranges:
    match op:
        case "ANY":
            return complement(() if flags & re.DOTALL else ((0x0A, 0x0A),))
        case "LITERAL":
            return ((argument, argument),)
        case "NOT_LITERAL":
            return complement(((argument, argument),))
    negated = str(argument[0][0]) == "NEGATE"
    members = argument[1:] if negated else argument
    found = _united(span for kind, value in members for span in _member_ranges(str(kind), value, flags))
    return complement(found) if negated else found


def _member_ranges(kind: str, value: Any, flags: int) -> Ranges:
    match kind:
        case "LITERAL":
            return ((value, value),)
        case "RANGE":
            return (value,)
        case _:
            return _category_ranges(value, flags & (re.ASCII | re.UNICODE))


@lru_cache(maxsize=64)
def _category_ranges(category: Any, flags: int) -> Ranges:
    everything = "".join(map(chr, range(0x110000)))
    spans = _spans_matched("IN", [(_parser.CATEGORY, category)], flags, everything)
    return tuple((start, stop - 1) for start, stop in spans)


@lru_cache(maxsize=1)
def _cased_text() -> str:
    """Every character that IGNORECASE could treat otherwise than the plain comparison."""
    odd = {code for same in _compiler._EXTRA_CASES for code in (same, *_compiler._EXTRA_CASES[same])}
    return "".join(chr(c) for c in range(0x110000) if c in odd or _compiler._sre.unicode_iscased(c))


def _spans_matched(op: str, argument: Any, flags: int, text: str) -> list[tuple[int, int]]:
    """The runs of ``text`` that the item matches, by Python's own matcher."""
    state = _parser.State()
    state.flags = flags
    body = _parser.SubPattern(state, [(getattr(_parser, op), argument)])
    several = _parser.SubPattern(state, [(_parser.MAX_REPEAT, (1, _parser.MAXREPEAT, body))])
    return [match.span() for match in _compiler.compile(several, flags).finditer(text)]


def _united(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """All code points that are not in ``ranges``, which are sorted and disjoint."""
    edges = [-1, *(edge for span in ranges for edge in span), 0x110000]
    return tuple((low + 1, high - 1) for low, high in zip(edges[::2], edges[1::2], strict=True) if low + 1 < high)


def _without(ranges: Ranges, removed: Ranges) -> Ranges:
    return complement(_united([*complement(ranges), *removed]))


# Canonical text.


def _format_part(node: Node, grouped: Any) -> str:
    text = format_regex(node)
    return f"(?:{text})" if isinstance(node, grouped) else text


def _format_chars(ranges: Ranges) -> str:
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _escape(ranges[0][0], r"\^$.|?*+()[]{}")
    # Members are sorted and distinct, so that `&&`, `~~` and `--` (set operations in Rust) cannot arise.
    return f"[{''.join(_format_span(low, high) for low, high in ranges)}]"


def _format_span(low: int, high: int) -> str:
    first, last = _escape(low, r"\^[]-"), _escape(high, r"\^[]-")
    return first if high == low else first + last if high == low + 1 else f"{first}-{last}"


def _escape(code: int, special: str) -> str:
    char = chr(code)
    if char in special:
        return "\\" + char
    if code < 0x20 or code == 0x7F:
        return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char, f"\\x{code:02x}")
    return char


def _format_count(minimum: int, maximum: int | None) -> str:
    match minimum, maximum:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{minimum},}}"
        case _:
            return f"{{{minimum}}}" if minimum == maximum else f"{{{minimum},{maximum}}}"
