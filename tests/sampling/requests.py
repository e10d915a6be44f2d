"""Requests on a sampler, as an engine would keep them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from constrain.sampling.params import SamplingParams
from constrain.sampling.rows import Rows
from constrain.sampling.sampler import Sampled, Sampler

STOPS = (2,)


def spelled(text: str) -> list[int]:
    """A tokenizer of letters: a is 10, b is 11, ...; a space belongs to the letter behind it, which adds 26."""
    ids: list[int] = []
    for letter, before in zip(text, "-" + text, strict=False):
        if letter != " ":
            ids.append(ord(letter) - ord("a") + 10 + 26 * (before == " "))
    return ids


@dataclass
class Running:
    """One request: its row j stands behind ``output`` and j drafts, and ``grammar`` says what is legal there."""

    slot: int
    params: SamplingParams
    seed: int = 0
    prompt: list[int] = field(default_factory=lambda: [1])
    output: list[int] = field(default_factory=list)
    drafts: list[int] = field(default_factory=list)
    grammar: set[int] | None = None


def rows_of(requests: Sequence[Running]) -> Rows:
    """K + 1 rows for each."""
    places = [(each, offset) for each in requests for offset in range(len(each.drafts) + 1)]
    return Rows(
        [each.slot for each, _ in places],
        [offset for _, offset in places],
        [len(each.output) + offset for each, offset in places],
        [each.drafts[offset] if offset < len(each.drafts) else -1 for each, offset in places],
    )


def start(sampler: Sampler, requests: Sequence[Running]) -> None:
    """Admit them."""
    for each in requests:
        restrictions = sampler.resolve(each.params, stop_token_ids=STOPS, tokenize=spelled)
        sampler.add(each.slot, each.params, each.seed, each.prompt, each.output, restrictions)


def masks(sampler: Sampler, requests: Sequence[Running], width: int) -> tuple[torch.Tensor, list[bool]]:
    """The mask of every row, and whether the minimum length yielded there."""
    filled: list[torch.Tensor] = []
    yielded: list[bool] = []
    for each in requests:
        legal = each.grammar if each.grammar is not None else set(range(sampler.vocab_size))
        for offset in range(len(each.drafts) + 1):
            row = torch.zeros((width + 31) // 32, dtype=torch.int32)
            for token in legal:
                row[token // 32] |= (1 << token % 32) - (2**32 if token % 32 == 31 else 0)
            needed = sampler.needs_mask(each.slot)
            yielded.append(needed and sampler.restrict_(row, each.slot, each.drafts[:offset]))
            filled.append(row)
    return torch.stack(filled), yielded


def drawn(sampler: Sampler, requests: Sequence[Running], logits: torch.Tensor) -> Sampled:
    """One step of them all."""
    return sampler.sample(logits, rows_of(requests), masks(sampler, requests, logits.shape[1])[0])


def random_fields(rng: random.Random, vocab_size: int) -> dict[str, Any]:
    """Parameters of every kind, each off about half the time."""

    def some(*values: Any) -> Any:
        return rng.choice([values[0]] * (len(values) - 1) + [*values[1:]])

    ids = list(range(vocab_size))
    bias = {token: rng.choice([2.5, -1.5, float("-inf"), 0.0]) for token in rng.sample(ids, 6)}
    return {
        "temperature": rng.choice([0.0, 0.5, 0.8, 1.0, 1.7]),
        "top_k": some(0, 1, 3, 12, 10_000),
        "top_p": some(1.0, 0.3, 0.85, 0.97),
        "min_p": some(0.0, 0.02, 0.2),
        "draw": some("inverse", "gumbel", "inverse"),
        "repetition_penalty": some(1.0, 0.75, 1.25, 2.0),
        "presence_penalty": some(0.0, 0.5, -0.75),
        "frequency_penalty": some(0.0, 0.25, -0.5),
        "min_tokens": some(0, 2, 5),
        "stop_token_ids": some((), (3,)),
        "logit_bias": some(None, bias, None),
        "allowed_token_ids": some(None, tuple(rng.sample(ids, 25)), None),
        "bad_words": some((), ("c", "ab"), ("aa", "ba")),
    }


def sample(
    logits: torch.Tensor,  # [N, V], masked
    params: Sequence[SamplingParams],  # N
    seeds: Sequence[int],  # N
    output_indices: Sequence[int],  # N
) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and statuses [N] of rows that are requests of their own."""
    sampler = Sampler(logits.shape[1], len(params), logits.device)
    for slot, (each, seed) in enumerate(zip(params, seeds, strict=True)):
        restrictions = sampler.resolve(each, stop_token_ids=(), tokenize=lambda _: [])
        sampler.add(slot, each, seed, [], [], restrictions)
    sampled = sampler.sample(logits, Rows.without_drafts(range(len(params)), output_indices))
    return sampled.tokens, sampled.status
