"""Logprobs as a caller sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple

import torch

from constrain.sampling.ops.logprobs import Logprobs


class RankedToken(NamedTuple):
    """One of the most probable tokens; ``rank`` is its place among them, from 1, equal values by the lower id."""

    token_id: int
    logprob: float
    rank: int


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of one token that was put out.

    logprob:
        Its log-probability, or its logit where logits were asked for; -inf for a token that could not be drawn.
    rank:
        How many tokens of the vocabulary have its value or a higher one: 1 for the most probable, if it is alone.
    top:
        The most probable tokens, in order.
    given:
        (token id, value) of the ids that were asked for.
    """

    token_id: int
    logprob: float
    rank: int
    top: tuple[RankedToken, ...] = ()
    given: tuple[tuple[int, float], ...] = ()


def to_host(
    logprobs: Logprobs,
    token_ids: torch.Tensor,  # [N]
    top_counts: Sequence[int] | None = None,
    given_ids: Sequence[Sequence[int]] | None = None,
) -> list[TokenLogprobs]:
    """One object a row, from one copy to the host.

    ``top_counts`` says how many of the top tokens each row's request wants (-1 or None: all that are there), and
    ``given_ids`` which ids its extra values are of, as many as there are (None: none); further ones are padding.
    """
    columns = [token_ids, logprobs.values, logprobs.ranks, logprobs.top_ids, logprobs.top_values, logprobs.extra_values]
    wide = [column.double() for column in columns]  # holds every id, rank and float32 value as it is
    packed = torch.cat([each[:, None] if each.ndim == 1 else each for each in wide], dim=1).tolist()
    num_top = logprobs.top_ids.shape[1]
    results = []
    for row, top_count, given in zip(packed, top_counts or repeat(-1), given_ids or repeat(()), strict=False):
        ids, values, extra = row[3 : 3 + num_top], row[3 + num_top : 3 + 2 * num_top], row[3 + 2 * num_top :]
        shown = num_top if top_count < 0 else min(top_count, num_top)
        top = tuple(RankedToken(int(ids[i]), values[i], i + 1) for i in range(shown))
        results.append(TokenLogprobs(int(row[0]), row[1], int(row[2]), top, tuple(zip(given, extra, strict=False))))
    return results
