"""Numbers of JSON as regular expressions."""

from collections.abc import Iterator

from constrain.regex import Node, alternation, chars, concat, parse_regex, repeat

ANY_NUMBER = parse_regex(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
ANY_INTEGER = parse_regex(r"-?(?:0|[1-9][0-9]*)")
_MINUS = parse_regex("-")


def bounded_integer(low: int | None, high: int | None) -> Node | None:
    """The integers from ``low`` to ``high``, both inclusive; None if there is none. ``None`` is no bound."""
    if low is None and high is None:
        return ANY_INTEGER
    options: list[Node] = []
    if high is None or high >= 0:
        options += _spans(max(low or 0, 0), high)
    if low is None or low < 0:
        negative = list(_spans(max(-high if high is not None else 1, 1), None if low is None else -low))
        options += [concat([_MINUS, alternation(negative)])] if negative else []
    return alternation(options) if options else None


def _spans(low: int, high: int | None) -> Iterator[Node]:
    """The numbers from ``low``, at least 0, to ``high``, one option for each length of their digits."""
    length = len(str(low))
    last = length if high is None else len(str(high))
    for digits in range(length, last + 1):
        first = max(low, 10 ** (digits - 1) if digits > 1 else 0)
        final = 10**digits - 1 if high is None else min(high, 10**digits - 1)
        if first <= final:
            yield _between(str(first), str(final))
    if high is None:
        yield concat([_digit(1, 9), repeat(_digit(0, 9), last, None)])


def _between(first: str, last: str) -> Node:
    """The texts of digits from ``first`` to ``last``, all of one length."""
    if set(first) <= {"0"} and set(last) <= {"9"}:
        return repeat(_digit(0, 9), len(first), len(first))
    low, high = int(first[0]), int(last[0])
    rest = len(first) - 1
    if low == high:
        return concat([_digit(low, low), _between(first[1:], last[1:])])
    options = [concat([_digit(low, low), _between(first[1:], "9" * rest)])]
    if low + 1 < high:
        options.append(concat([_digit(low + 1, high - 1), repeat(_digit(0, 9), rest, rest)]))
    options.append(concat([_digit(high, high), _between("0" * rest, last[1:])]))
    return alternation(options)


def _digit(low: int, high: int) -> Node:
    return chars([(ord("0") + low, ord("0") + high)])
