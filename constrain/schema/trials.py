"""Which of many tokens an evaluator refuses, at the cost of their distinct bytes."""

from collections.abc import Sequence

from constrain.schema.evaluation import Evaluator


def refused_of(evaluator: Evaluator, tokens: Sequence[bytes], ids: Sequence[int]) -> list[int]:
    """The ids of ``ids``, given in the order of their bytes, whose tokens ``evaluator`` refuses; its state is kept.

    Tokens that begin alike share the evaluation of what they share. All are legal JSON here, so that inside a string
    whose text means nothing to the schema, only a quote can be refused.
    """
    refused: list[int] = []
    start = evaluator.mark()
    # (length, mark, whether text decides nothing) of the prefixes that the last token shares with the next.
    shared = [(0, start, evaluator.is_insensitive())]
    common, dead = 0, -1
    for index, token_id in enumerate(ids):
        token = tokens[token_id]
        before, common = common, 0
        if index + 1 < len(ids):
            common = _num_shared(token, tokens[ids[index + 1]])
        if 0 <= dead <= before:  # a prefix of the last token that is refused by itself
            refused.append(token_id)
            continue
        dead = -1
        while shared[-1][0] > before:
            shared.pop()
        length, mark, is_deaf = shared[-1]
        if is_deaf and token.find(b'"', length) < 0:
            continue
        evaluator.undo(mark)
        if common > length:
            if not evaluator.feed(token[length:common]):
                dead = common
                refused.append(token_id)
                continue
            length, is_deaf = common, evaluator.is_insensitive()
            shared.append((common, evaluator.mark(), is_deaf))
            if is_deaf and token.find(b'"', length) < 0:
                continue
        if length < len(token) and not evaluator.feed(token[length:]):
            refused.append(token_id)
    evaluator.undo(start)
    return refused


def _num_shared(one: bytes, other: bytes) -> int:
    """How many bytes two tokens have in common from their start."""
    for count, (first, second) in enumerate(zip(one, other, strict=False)):
        if first != second:
            return count
    return min(len(one), len(other))
