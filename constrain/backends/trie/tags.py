"""Tagged texts as fragments of a network."""

from collections.abc import Callable

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
from constrain.backends.trie.network import Fragment, Network
from constrain.grammar_spec import GrammarSpec


def tag_fragment(
    network: Network, expression: Expression, content: Callable[[Network, GrammarSpec], Fragment]
) -> Fragment:
    """What ``expression`` derives; ``content`` makes the fragment of a spec."""

    def of(part: Expression) -> Fragment:
        match part:
            case Literal(text):
                return network.literal(text.encode())
            case TokenId(token_id):
                return network.token(token_id)
            case FreeText(without):
                return _watched(network, without, None)
            case TextUntil(without, last):
                return _watched(network, without, without.index(last))
            case Content(grammar_spec, _, until, _):
                return network.sequence([content(network, grammar_spec), network.literal(until.encode())])
            case Row(items):
                return network.sequence([of(item) for item in items])
            case Either(options):
                return network.either([of(option) for option in options])
            case Many(body):
                return network.repeated(of(body), 0, None)

    return of(expression)


def _watched(network: Network, without: tuple[str, ...], last: int | None) -> Fragment:
    """Text up to string ``last`` of ``without``, or anywhere before any of them."""
    automaton = watched_text(without)

    def build(source: int) -> int:
        end = network.add_state()
        states = [network.add_state() for _ in automaton]
        network.empty[source].append(states[0])
        for state, edges in zip(states, automaton, strict=True):
            for edge in edges:
                if edge.target >= 0:
                    network.empty[network.characters(edge.ranges)(state)].append(states[edge.target])
                elif last is not None and edge.target == -1 - last:
                    network.empty[network.characters(edge.ranges)(state)].append(end)
            if last is None:
                network.empty[state].append(end)
        return end

    return build
