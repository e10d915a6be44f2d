"""Counted repeats inside each other, which xgrammar unrolls: how large they become in a grammar in EBNF."""

import re
from dataclasses import dataclass, field

from constrain.errors import Unsupported

MAX_REPEATS = 1_000
"""The largest count. ``[A-Z].{0,5000}[0-9]`` compiles for more than 10 s."""
MAX_NESTED_REPEATS = 64
"""The largest product of nested counts. ``(?:.{0,10}){0,10}`` takes 18 s a mask, ``(?:.{0,30}){0,30}`` over 100 s."""

_TOKEN = re.compile(
    r"""(?P<skip>\#[^\n]*|\s+)
      | (?P<opaque>"(?:\\.|[^"\\])*"|\[\^?(?:\\.|[^\]\\])*\]|/(?:\\.|[^/\\\n])+/)
      | (?P<rule>[A-Za-z_][\w.-]*)\s*::=
      | (?P<name>[A-Za-z_][\w.-]*)
      | \{\s*(?P<least>\d*)\s*(?P<comma>,?)\s*(?P<most>\d*)\s*\}
      | (?P<open>\() | (?P<close>\)) | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def too_many_repeats(largest: int, product: int) -> list[Unsupported]:
    """A refusal, unless counts of at most ``largest``, nested to ``product``, are harmless."""
    if largest > MAX_REPEATS or product > max(largest, MAX_NESTED_REPEATS):
        return [Unsupported("counted repeats, so large or nested that xgrammar takes seconds; llguidance does not")]
    return []


def unsupported_repeats(text: str) -> list[Unsupported]:
    """What ``text``, a grammar in EBNF, repeats too often, through its rules, too."""
    rules = _rules(text)
    largest = max((repeat.count for rule in rules.values() for repeat in rule.repeats), default=1)
    products: dict[str, int] = {}
    for name in rules:
        _product(name, rules, products)
    return too_many_repeats(largest, max(products.values(), default=1))


@dataclass(slots=True)
class _Repeat:
    """A count around some names and further repeats."""

    count: int
    names: set[str] = field(default_factory=set)
    repeats: list["_Repeat"] = field(default_factory=list)


def _rules(text: str) -> dict[str, _Repeat]:
    """Each rule as a repeat of once."""
    rules: dict[str, _Repeat] = {}
    stack = [_Repeat(1)]
    last = _Repeat(1)
    for match in _TOKEN.finditer(text):
        kind, group = match.lastgroup, match.groupdict()
        if kind == "skip":
            continue
        if kind == "rule":
            stack = [rules.setdefault(match["rule"], _Repeat(1))]
            last = _Repeat(1)
        elif group["least"] is not None:
            last.count *= max(int(group["most"] or group["least"] or 1), 1)
        elif kind == "open":
            stack.append(_Repeat(1))
        elif kind == "close" and len(stack) > 1:
            last = stack.pop()
            stack[-1].repeats.append(last)
        else:
            last = _Repeat(1, {match["name"]} if kind == "name" else set())
            stack[-1].repeats.append(last)
    return rules


def _product(name: str, rules: dict[str, _Repeat], products: dict[str, int]) -> int:
    """The largest product of counts inside rule ``name``; a rule inside itself counts once."""
    if name in products or name not in rules:
        return products.get(name, 1)
    products[name] = 1
    largest = 1
    todo = [(rules[name], 1)]
    while todo:
        repeat, outer = todo.pop()
        here = outer * repeat.count
        inner = max((_product(each, rules, products) for each in repeat.names), default=1)
        largest = max(largest, here * inner)
        todo.extend((each, here) for each in repeat.repeats)
    products[name] = largest
    return largest
