"""Tagged texts for xgrammar, put together from its own formats.

Its ``triggered_tags`` is not used: xgrammar 0.2.9 lets any bytes through in the text outside, which need be no UTF-8.
"""

from collections.abc import Callable
from typing import Any

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
)
from constrain.backends._trigger_text import watched_text
from constrain.backends._xgrammar_ebnf import character_class
from constrain.grammar_spec import GrammarSpec


def tagged_format(expression: Expression, content: Callable[[GrammarSpec], str]) -> dict[str, Any]:
    """The format that ``expression`` is; ``content`` gives the EBNF of a spec."""

    def of(part: Expression) -> dict[str, Any]:
        match part:
            case Literal(text):
                return {"type": "const_string", "value": text}
            case TokenId(token_id):
                return {"type": "token", "token": token_id}
            case FreeText(without):
                return _grammar(_watched(without, None))
            case TextUntil(without, last):
                return _grammar(_watched(without, without.index(last)))
            case Content(grammar_spec, _, until, _):
                items = [_grammar(content(grammar_spec)), *([of(Literal(until))] if until else [])]
                return {"type": "sequence", "elements": items}
            case Row(items):
                return (
                    {"type": "sequence", "elements": [of(item) for item in items]} if items else _grammar('root ::= ""')
                )
            case Either(options):
                return {"type": "or", "elements": [of(option) for option in options]}
            case Many(body):
                return {"type": "star", "content": of(body)}

    return of(expression)


def _grammar(ebnf: str) -> dict[str, Any]:
    return {"type": "grammar", "grammar": ebnf}


def _watched(without: tuple[str, ...], last: int | None) -> str:
    """Text up to string ``last`` of ``without``, or anywhere before any of them; a rule for each state."""
    lines = ["root ::= text0"]
    for state, edges in enumerate(watched_text(without)):
        options = [f"{character_class(edge.ranges)} text{edge.target}" for edge in edges if edge.target >= 0]
        options += [character_class(edge.ranges) for edge in edges if last is not None and edge.target == -1 - last]
        options += ['""'] if last is None else []
        lines.append(f"text{state} ::= {' | '.join(options)}")
    return "\n".join(lines)
