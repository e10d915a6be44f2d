"""Which of many tokens an evaluator refuses, at the cost of their distinct bytes."""

import numpy as np

from constrain.schema.evaluation import Evaluator
from constrain.schema.token_table import Ids, TokenTable


def refused_of(evaluator: Evaluator, table: TokenTable, places: Ids, *, quoted: bool) -> list[Ids]:
    """Of the tokens at ``places``, ascending, in the order of bytes: the places of those that are refused, in parts.

    ``quoted``: the tokens have a quote, or stand outside of strings. The state of ``evaluator`` is kept. Tokens that
    begin alike share the evaluation of what they share: they are refused together where that is refused, and taken
    together where no content without a quote can be refused behind it. All are legal JSON here.
    """
    refused: list[Ids] = []
    tokens, ends, longest = table.ordered, table.ends, table.longest
    feed, undo, start = evaluator.feed, evaluator.undo, evaluator.mark()
    listed, end, index, before = places.tolist(), len(places), 0, 0
    shared = [(0, start, ends[evaluator.bears(longest)])]  # of the prefixes that the last token shares with the next
    last = b""
    while index < end:
        place = listed[index]
        token = tokens[place]
        if before < 0:
            before = _num_shared(last, token)
        while shared[-1][0] > before:
            shared.pop()
        length, mark, borne = shared[-1]
        common = _num_shared(token, tokens[listed[index + 1]]) if index + 1 < end else 0
        last, before = token, common
        if borne[place] <= length:
            index += 1
            continue
        undo(mark)
        if common > length:
            taken = feed(token[length:common])
            if not taken or (not quoted and evaluator.is_insensitive()):
                undo(mark)
                prefix = _decided_prefix(evaluator, token, length, refusing=not taken)
                first, index, before = index, int(places.searchsorted(table.place_behind(prefix))), -1
                if not taken:
                    refused.append(places[first:index])
                continue
            length = common
            borne = ends[evaluator.bears(longest)]
            shared.append((common, evaluator.mark(), borne))
        if length < len(token) and borne[place] > length and not feed(token[length:]):
            refused.append(places[index : index + 1])
        index += 1
    undo(start)
    return refused


def refused_by_kind(evaluator: Evaluator, table: TokenTable, places: Ids, kinds: Ids) -> list[Ids]:
    """As ``refused_of`` for tokens with a quote: what is before the first one has the same verdict by ``kinds``.

    Those of a kind that go on alike are judged together; -1 is for itself.
    """
    tails = table.tails[places]
    keys = np.where((tails < 0) | (kinds < 0), -1, kinds * len(table.ordered) + tails)
    tried = keys < 0
    _, firsts = np.unique(keys, return_index=True)
    tried[firsts] = True
    refused = refused_of(evaluator, table, places[tried], quoted=True)
    if not refused:
        return refused
    alike = keys[np.searchsorted(places, np.concatenate(refused))]
    return [*refused, places[np.isin(keys, alike[alike >= 0])]]


def _decided_prefix(evaluator: Evaluator, token: bytes, length: int, *, refusing: bool) -> bytes:
    """The shortest prefix of ``token`` that is refused, or that takes it; ``length`` bytes of it have been taken."""
    while evaluator.feed(token[length : length + 1]) and (refusing or not evaluator.is_insensitive()):
        length += 1
    return token[: length + 1]


def _num_shared(one: bytes, other: bytes) -> int:
    """How many bytes two tokens have in common from their start."""
    for count, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return count
    return min(len(one), len(other))
