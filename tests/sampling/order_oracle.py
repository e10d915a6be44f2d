"""The order of processing, for one row, in float64 and plain Python: what every path must agree with."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

MINUS_INFINITY = float("-inf")


@dataclass
class Wanted:
    """What one request asks for, in the oracle's own words."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    min_tokens: int = 0
    ends: tuple[int, ...] = ()
    bias: dict[int, float] | None = None
    allowed: tuple[int, ...] | None = None
    bad: tuple[tuple[int, ...], ...] = ()
    mover: Callable[[list[float], list[int]], list[float]] | None = None
    keeper: Callable[[list[float], list[int]], list[float]] | None = None


def legal_ids(wanted: Wanted, grammar: set[int], output: Sequence[int]) -> tuple[set[int], bool]:
    """The ids that may be drawn behind ``output``, and whether the minimum length yielded."""
    legal = set(grammar)
    if wanted.allowed is not None:
        legal &= set(wanted.allowed)
    for sequence in wanted.bad:
        before = list(sequence[:-1])
        if list(output[max(0, len(output) - len(before)) :] if before else []) == before:
            legal.discard(sequence[-1])
    legal -= {token for token, bias in (wanted.bias or {}).items() if bias == MINUS_INFINITY}
    if len(output) < wanted.min_tokens:
        longer = legal - set(wanted.ends)
        if not longer and legal:
            return legal, True
        legal = longer
    return legal, False


def distribution(
    wanted: Wanted, logits: Sequence[float], legal: set[int], prompt: Sequence[int], output: Sequence[int]
) -> tuple[list[float], list[float]]:
    """(logits after penalties, logits of the distribution drawn from); for a greedy row the second has one token."""
    values = [value if token in legal else MINUS_INFINITY for token, value in enumerate(logits)]
    for token, bias in (wanted.bias or {}).items():
        values[token] += bias
    if wanted.mover:
        values = wanted.mover(values, list(output))
        values = [value if token in legal else MINUS_INFINITY for token, value in enumerate(values)]
    for token in set(prompt) | set(output):
        values[token] = values[token] / wanted.repetition if values[token] > 0 else values[token] * wanted.repetition
    for token in set(output):
        values[token] -= wanted.frequency * list(output).count(token) + wanted.presence
    order = sorted(range(len(values)), key=lambda token: (-values[token], token))
    if wanted.temperature < 1e-5:
        return values, [0.0 if token == order[0] else MINUS_INFINITY for token in range(len(values))]
    scaled = [(value - values[order[0]]) / wanted.temperature for value in values]
    scaled = [value if math.exp(value) >= wanted.min_p else MINUS_INFINITY for value in scaled]
    if wanted.keeper:
        scaled = wanted.keeper(scaled, list(output))
    order = sorted(range(len(scaled)), key=lambda token: (-scaled[token], token))
    kept = order[: wanted.top_k] if wanted.top_k > 0 else order
    mass = math.fsum(math.exp(scaled[token]) for token in kept)
    smallest: list[int] = []
    for token in kept:
        smallest.append(token)
        if wanted.top_p < 1 and math.fsum(math.exp(scaled[each]) for each in smallest) >= wanted.top_p * mass:
            break
    return values, [scaled[token] if token in smallest else MINUS_INFINITY for token in range(len(scaled))]


def is_drawn(token: int, logits: Sequence[float], uniform: float, band: float = 1e-6) -> bool:
    """Whether inverting the cumulated weights gives ``token``, or comes within ``band`` of it."""
    weights = np.exp(np.array(logits))
    ends = np.cumsum(weights) / weights.sum()
    return bool(
        weights[token] > 0 and ends[token] - weights[token] / weights.sum() - band <= uniform <= ends[token] + band
    )


def uniform_of(seed: int, index: int) -> float:
    """The number of a draw: Philox4x32-10 with the counter (index, purpose 0) and the seed as key, on Python's ints."""
    c = [index & 0xFFFFFFFF, index >> 32, 0, 0]
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return ((c[0] << 21) | (c[1] >> 11)) * 2.0**-53
