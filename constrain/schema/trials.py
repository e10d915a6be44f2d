"""Which of many tokens an evaluator refuses, at the cost of their distinct bytes."""

from bisect import bisect_left
from collections.abc import Sequence

from constrain.schema.evaluation import Evaluator
from constrain.schema.token_table import Ids


def refused_of(evaluator: Evaluator, tokens: Sequence[bytes], places: Ids, *, quoted: bool) -> list[Ids]:
    """Of the tokens at ``places``, ascending, in the sorted ``tokens``: the places of those that are refused, in parts.

    ``quoted``: the tokens have a quote, or stand outside of strings. The state of ``evaluator`` is kept. Tokens that
    begin alike share the evaluation of what they share: they are refused together where that is refused, and taken
    together where no content without a quote can be refused behind it. All are legal JSON here.
    """
    refused: list[Ids] = []
    start = evaluator.mark()
    shared = [(0, start)]  # (length, mark) of the prefixes that the last token shares with the next
    last, index, end = b"", 0, len(places)
    while index < end:
        token = tokens[places[index]]
        following = tokens[places[index + 1]] if index + 1 < end else b""
        before, common = _num_shared(last, token), _num_shared(token, following)
        last = token
        while shared[-1][0] > before:
            shared.pop()
        length, mark = shared[-1]
        evaluator.undo(mark)
        if common > length:
            taken = evaluator.feed(token[length:common])
            if not taken or (not quoted and evaluator.is_insensitive()):
                evaluator.undo(mark)
                prefix = _decided_prefix(evaluator, token, length, refusing=not taken)
                first, index = index, int(places.searchsorted(_place_behind(tokens, prefix)))
                if not taken:
                    refused.append(places[first:index])
                continue
            length = common
            shared.append((common, evaluator.mark()))
        if length < len(token) and not evaluator.feed(token[length:]):
            refused.append(places[index : index + 1])
        index += 1
    evaluator.undo(start)
    return refused


def _decided_prefix(evaluator: Evaluator, token: bytes, length: int, *, refusing: bool) -> bytes:
    """The shortest prefix of ``token`` that is refused, or that takes it; ``length`` bytes of it have been taken."""
    while evaluator.feed(token[length : length + 1]) and (refusing or not evaluator.is_insensitive()):
        length += 1
    return token[: length + 1]


def _place_behind(tokens: Sequence[bytes], prefix: bytes) -> int:
    """The place of the first token behind all that begin with ``prefix``."""
    while prefix and prefix[-1] == 0xFF:
        prefix = prefix[:-1]
    return bisect_left(tokens, prefix[:-1] + bytes((prefix[-1] + 1,))) if prefix else len(tokens)


def _num_shared(one: bytes, other: bytes) -> int:
    """How many bytes two tokens have in common from their start."""
    for count, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return count
    return min(len(one), len(other))
