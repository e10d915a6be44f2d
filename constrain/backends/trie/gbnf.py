r"""GBNF, the EBNF of llama.cpp and xgrammar, read into a network.

    root   ::= "[" (item ("," item)*)? "]"   # a comment
    item   ::= [a-z] [^"\x00-\x1F]{0,10} | "yes" | .

Escapes, in literals and classes: ``\n \t \r \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH``; they name characters, not
bytes. A rule ends where the next one begins, so alternatives may go over several lines.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from constrain.backends.trie.network import Fragment, Network
from constrain.errors import InvalidGrammarError, LimitExceededError
from constrain.regex import chars, complement

MAX_DEPTH = 100
"""How deep groups may nest."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_RULE = re.compile(rf"({_NAME.pattern}){_BLANK.pattern}::=")
_COUNT = re.compile(r"\{\s*([0-9]{1,9})\s*(?:(,)\s*([0-9]{1,9})?\s*)?\}")
_ESCAPE = re.compile(r'\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([ntr"\\\[\]^-]))')
_PLAIN_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_REPEATS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_LAST = 0x10FFFF

T = TypeVar("T")


def network_of_gbnf(text: str) -> Network:
    """The trimmed network of the grammar ``text``, which starts at ``root``.

    Raises ``InvalidGrammarError`` with a position for what does not parse and for rules that nobody defines, and
    without one where ``root`` is missing or derives no text at all.
    """
    network = Network()
    add_gbnf(network, text)
    if not network.trim():
        raise InvalidGrammarError("the rule 'root' derives no text: every way through it ends in itself")
    return network


def add_gbnf(network: Network, text: str) -> Fragment:
    """A call of the ``root`` of the grammar ``text``, whose rules are added to ``network``; errors as above."""
    parser = _Parser(text, network)
    parser.parse()
    for name, position in parser.used.items():
        if name not in parser.bodies:
            raise InvalidGrammarError(f"the grammar uses the rule {name!r} and does not define it", position=position)
    if "root" not in parser.bodies:
        raise InvalidGrammarError(f"the grammar has no rule 'root' to start at, only {sorted(parser.bodies)}")
    for name, body in parser.bodies.items():
        network.define(parser.rule(name), body)
    return network.call(parser.rule("root"))


class _Parser:
    """Recursive descent over ``text``; ``at`` is the place reached."""

    def __init__(self, text: str, network: Network) -> None:
        self.text = text
        self.at = 0
        self.network = network
        self.rules = {"root": self.network.add_rule()}
        self.bodies: dict[str, Fragment] = {}
        self.used: dict[str, int] = {}

    def rule(self, name: str) -> int:
        if name not in self.rules:
            self.rules[name] = self.network.add_rule()
        return self.rules[name]

    def parse(self) -> None:
        self.skip_blank()
        while self.at < len(self.text):
            head = _RULE.match(self.text, self.at)
            if head is None:
                raise self.error("want a rule, `name ::= ...`")
            if head[1] in self.bodies:
                raise self.error(f"the rule {head[1]!r} is defined twice")
            self.at = head.end()
            self.skip_blank()
            self.bodies[head[1]] = self.alternatives(0)

    def alternatives(self, depth: int) -> Fragment:
        if depth > MAX_DEPTH:
            raise LimitExceededError(f"the grammar nests deeper than {MAX_DEPTH} groups")
        options = [self.sequence(depth)]
        while self.taken("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else self.network.either(options)

    def sequence(self, depth: int) -> Fragment:
        parts: list[Fragment] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)" and not _RULE.match(self.text, self.at):
            part = self.element(depth)
            while (count := self.count()) is not None:
                part = self.network.repeated(part, *count)
            parts.append(part)
        return self.network.sequence(parts)

    def element(self, depth: int) -> Fragment:
        start = self.at
        name = _NAME.match(self.text, start)
        if name is not None:
            self.used.setdefault(name[0], start)
            self.at = name.end()
            self.skip_blank()
            return self.network.call(self.rule(name[0]))
        if self.taken('"'):
            self.at = start + 1  # blanks count in here
            return self.network.literal("".join(self.until('"', self.character)).encode())
        if self.taken("["):
            self.at = start + 1
            return self.character_class(start)
        if self.taken("."):
            return self.network.characters(chars([(0, _LAST)]).ranges)
        if self.taken("("):
            group = self.alternatives(depth + 1)
            if not self.taken(")"):
                raise self.error("want `)`", start if self.at == len(self.text) else self.at)
            return group
        raise self.error("want a rule name, a literal, a class or a group")

    def character_class(self, start: int) -> Fragment:
        negated = self.text.startswith("^", self.at)
        self.at += negated
        spans = self.until("]", self.span)
        ranges = chars(complement(chars(spans).ranges) if negated else spans).ranges
        if not ranges:
            raise self.error("a class without characters", start)
        return self.network.characters(ranges)

    def span(self) -> tuple[int, int]:
        start, low = self.at, ord(self.character())
        if not self.text.startswith("-", self.at) or self.text.startswith("-]", self.at):
            return low, low
        self.at += 1
        high = ord(self.character())
        if high < low:
            raise self.error("a range that ends before it begins", start)
        return low, high

    def until(self, closing: str, read: Callable[[], T]) -> list[T]:
        """What ``read`` finds up to ``closing``; passes over it and the blanks behind."""
        start, found = self.at - 1, list[T]()
        while not self.text.startswith(closing, self.at):
            if self.at >= len(self.text) or self.text[self.at] in "\r\n":
                raise self.error(f"want `{closing}` on the same line", start)
            found.append(read())
        self.taken(closing)
        return found

    def character(self) -> str:
        if self.at >= len(self.text):
            raise self.error("the grammar ends in the middle of a range")
        if self.text[self.at] != "\\":
            if "\ud800" <= self.text[self.at] <= "\udfff":
                raise self.error("half of a surrogate pair")
            self.at += 1
            return self.text[self.at - 1]
        escape = _ESCAPE.match(self.text, self.at)
        if escape is None:
            raise self.error(r"an unknown escape; want one of \n \t \r \" \\ \[ \] \- \^ \xHH \uHHHH \UHHHHHHHH")
        digits, plain = escape[1] or escape[2] or escape[3], escape[4]
        if digits and (int(digits, 16) > _LAST or 0xD800 <= int(digits, 16) <= 0xDFFF):
            raise self.error("an escape that is no Unicode character")
        self.at = escape.end()
        return chr(int(digits, 16)) if digits else _PLAIN_ESCAPES.get(plain, plain)

    def count(self) -> tuple[int, int | None] | None:
        for sign, count in _REPEATS.items():
            if self.taken(sign):
                return count
        if not self.text.startswith("{", self.at):
            return None
        braces = _COUNT.match(self.text, self.at)
        if braces is None:
            raise self.error("want a count: {2}, {2,} or {2,5}")
        minimum = int(braces[1])
        maximum = minimum if braces[2] is None else None if braces[3] is None else int(braces[3])
        if maximum is not None and maximum < minimum:
            raise self.error("a count whose maximum is below its minimum")
        self.at = braces.end()
        self.skip_blank()
        return minimum, maximum

    def taken(self, sign: str) -> bool:
        """Whether ``sign`` stands here; passes over it and the blanks behind."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        self.skip_blank()
        return True

    def skip_blank(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        self.at = self.at if blank is None else blank.end()

    def error(self, problem: str, position: int | None = None) -> InvalidGrammarError:
        at = self.at if position is None else position
        line = self.text.count("\n", 0, at) + 1
        column = at - self.text.rfind("\n", 0, at)
        return InvalidGrammarError(
            f"the grammar does not parse at line {line}, column {column}: {problem}", position=at
        )
