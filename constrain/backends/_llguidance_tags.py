"""Tagged texts in llguidance's Lark.

llguidance cuts a text into lexemes, each as long as it can be, and never goes back. So every piece that could run into
the next one is one terminal with its end, such that no text of the terminal begins another; where that cannot be shown,
the tag is refused.
"""

import json
from collections.abc import Callable
from itertools import combinations

from constrain.backends._llguidance_regex import rust_literal, rust_regex
from constrain.backends._tag_expression import (
    Content,
    Either,
    Expression,
    FreeText,
    Literal,
    Many,
    Row,
    TextUntil,
    TokenId,
    contents_of,
)
from constrain.errors import Unsupported
from constrain.grammar_spec import GrammarSpec
from constrain.regex import Alternation, Chars, Concat, Node, Repeat, parse_regex

_ANY = "(?s:.*)"


def unsupported_tagged(expression: Expression) -> list[Unsupported]:
    """Where lexemes could run into each other."""
    found = [
        Unsupported(problem, f"/format/tags/{content.tag}/content")
        for content in contents_of(expression)
        if (problem := _content_problem(content)) is not None
    ]
    if _is_ambiguous(expression):
        found.append(Unsupported("tags of which one begins like the other, or a list of tags that text may continue"))
    return list(dict.fromkeys(found))


def tagged_lark(expression: Expression, content: Callable[[GrammarSpec], str]) -> str:
    """A Lark grammar of ``expression``; ``content`` gives the grammar of a spec, which begins with ``start:``."""
    terminals: dict[str, str] = {}
    rules: dict[str, str] = {}

    def terminal(definition: str) -> str:
        return terminals.setdefault(definition, f"T{len(terminals)}")

    def of(part: Expression) -> str:
        match part:
            case Literal(text):
                return terminal(f"/{rust_literal(text)}/")
            case TokenId(token_id):
                return f"<[{token_id}]>"
            case FreeText(without):
                return terminal(_without(without))
            case TextUntil(without, last):
                # A complement alone holds what is no UTF-8.
                return terminal(f"/{_ANY}{rust_literal(last)}/ & ~/{_ANY}{_any_of(without)}(?s:.+)/")
            case Content(grammar_spec, _, until, _):
                if grammar_spec.kind in ("regex", "choice"):
                    pattern = _pattern(grammar_spec)
                    return terminal(f"/(?:{rust_regex(pattern)}){rust_literal(until)}/")
                body = rules.setdefault(_inlined(grammar_spec, content(grammar_spec)), f"content{len(rules)}")
                return f"{body} {of(Literal(until))}" if until else body
            case Row(items):
                return " ".join(map(of, items)) if items else '""'
            case Either(options):
                return "(" + " | ".join(map(of, options)) + ")"
            case Many(body):
                return f"({of(body)})*"

    start = of(expression)
    named = [f"{name}: {definition}" for definition, name in (*rules.items(), *terminals.items())]
    return "\n".join([f"start: {start}", *named])


def _without(strings: tuple[str, ...]) -> str:
    return f"/{_ANY}/ & ~/{_ANY}{_any_of(strings)}{_ANY}/" if strings else f"/{_ANY}/"


def _any_of(strings: tuple[str, ...]) -> str:
    return "(?:" + "|".join(map(rust_literal, strings)) + ")"


def _inlined(grammar_spec: GrammarSpec, lark: str) -> str:
    if grammar_spec.kind == "lark":
        return f"%lark {{\n{lark}\n}}"
    return lark.removeprefix("start: ").rstrip("\n")


def _pattern(grammar_spec: GrammarSpec) -> Node:
    if grammar_spec.kind == "regex":
        return parse_regex(grammar_spec.text)
    choices = json.loads(grammar_spec.text)
    return Alternation(tuple(Concat(tuple(Chars(((ord(c), ord(c)),)) for c in choice)) for choice in choices))


def _content_problem(content: Content) -> str | None:
    kind, until = content.grammar_spec.kind, content.until
    if kind in ("regex", "choice"):
        if until and all(_may_write(_pattern(content.grammar_spec), char) for char in until):
            return f"the content may write every character of its end {until!r}, so where it ends is not certain"
    elif kind == "lark":
        if _leaves_braces(content.grammar_spec.text):
            return "a Lark grammar with unbalanced braces inside a tag"
    elif _ends_itself(content.grammar_spec):
        return None
    elif until[:1] in _NUMBER:
        return f"a number could run into its end {until!r}"
    return "nothing shows where the content ends; give the tag an end" if content.is_open else None


def _ends_itself(grammar_spec: GrammarSpec) -> bool:
    """Whether this is the JSON of an object or array, whose last bracket shows the end."""
    schema = json.loads(grammar_spec.text) if grammar_spec.kind == "json_schema" else {"type": "object"}
    return isinstance(schema, dict) and schema.get("type") in ("object", "array")


_NUMBER = frozenset("0123456789.eE+-")


def _leaves_braces(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return True
    return depth != 0


def _may_write(node: Node, char: str) -> bool:
    match node:
        case Chars(ranges):
            return any(low <= ord(char) <= high for low, high in ranges)
        case Concat(parts) | Alternation(parts):
            return any(_may_write(part, char) for part in parts)
        case Repeat(body, _, _):
            return _may_write(body, char)


def _is_ambiguous(expression: Expression, behind: tuple[Expression, ...] = ()) -> bool:
    """Whether at some place two ways to go on may begin alike; ``behind`` is what follows ``expression``."""
    match expression:
        case Either(options):
            starts = [_starts((option, *behind)) for option in options]
            if any(_collide(one, other) for left, right in combinations(starts, 2) for one in left for other in right):
                return True
            return any(_is_ambiguous(option, behind) for option in options)
        case Row(items):
            return any(_is_ambiguous(item, (*items[n + 1 :], *behind)) for n, item in enumerate(items))
        case Many(body):
            again, on = _starts((body,)), _starts(behind)
            return any(_collide(one, other) for one in again for other in on) or _is_ambiguous(
                body, (expression, *behind)
            )
        case _:
            return False


def _starts(items: tuple[Expression, ...]) -> list[list[Expression]]:
    """The ways in which ``items`` begin: literals and special tokens, and what follows them; none at the end."""
    if not items:
        return []
    first, *rest = items
    match first:
        case Row(inner):
            return _starts((*inner, *rest))
        case Either(options):
            return [start for option in options for start in _starts((option, *rest))]
        case Many(body):
            return [*_starts((body, *rest)), *_starts(tuple(rest))]
        case Literal() | TokenId():
            return [[first, *start] for start in _starts(tuple(rest)) or [[]]]
        case _:
            return [[first]]


def _collide(one: list[Expression], other: list[Expression]) -> bool:
    """Whether two beginnings could be taken for each other. Texts that are watched for the same strings never are."""
    for left, right in zip(one, other, strict=False):
        if isinstance(left, TokenId | Literal) and left == right:
            continue  # one lexeme, behind which both go on
        if isinstance(left, TokenId) or isinstance(right, TokenId):
            return False
        if isinstance(left, FreeText | TextUntil) and isinstance(right, FreeText | TextUntil):
            return left.without != right.without
        if isinstance(left, Literal) and isinstance(right, Literal):
            return left.text.startswith(right.text) or right.text.startswith(left.text)
        return True
    return False
