"""Which rows of a step want logprobs, and of what kind."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from constrain.sampling.batch import PersistentBatch
from constrain.sampling.logprobs import TokenLogprobs, to_host
from constrain.sampling.ops.logprobs import Logprobs, row_logprobs
from constrain.sampling.params import LogprobsMode, SamplingParams
from constrain.sampling.rows import Rows

_FEW = 64
"""Requests for more top tokens than this are kept apart, so that they do not make those for a few dear."""


@dataclass(frozen=True, slots=True)
class LogprobGroup:
    """Rows whose logprobs are of one kind. ``rows`` holds every row of a request, or none."""

    mode: LogprobsMode
    rows: tuple[int, ...]  # n rows of the step
    top_counts: tuple[int, ...]  # n; -1 for all
    given_ids: tuple[tuple[int, ...], ...]  # n

    @property
    def is_processed(self) -> bool:
        """Whether it is of the distribution drawn from, and not of the model's own."""
        return self.mode.startswith("processed")

    def pick(self, every: torch.Tensor) -> torch.Tensor:
        """Of a tensor of N rows those of the group."""
        if len(self.rows) == len(every):
            return every
        return every[_on_device(self.rows, every.device)]

    def of(self, logits: torch.Tensor, tokens: torch.Tensor) -> Logprobs:
        """The logprobs, from logits [n, V] and tokens [n] of the group's rows."""
        longest = max(map(len, self.given_ids))
        padded = [[*ids, *[-1] * (longest - len(ids))] for ids in self.given_ids]
        given = _on_device(padded, logits.device) if longest else None
        top_n = -1 if min(self.top_counts) < 0 else max(self.top_counts)
        as_logits = self.mode.endswith("logits")
        return row_logprobs(logits, tokens, top_n=top_n, extra_ids=given, as_logits=as_logits)


def wanted_logprobs(batch: PersistentBatch, rows: Rows) -> list[LogprobGroup]:
    """The groups of a step; none where no request wants logprobs."""
    if not batch.reported:
        return []
    found: dict[tuple[LogprobsMode, bool], list[tuple[int, SamplingParams]]] = {}
    for row, slot in enumerate(rows.slots):
        if slot in batch.reported:
            params = batch[slot].params
            many = not 0 <= (params.logprobs or 0) <= _FEW
            found.setdefault((params.logprobs_mode, many), []).append((row, params))
    return [
        LogprobGroup(
            mode,
            tuple(row for row, _ in members),
            tuple(params.logprobs or 0 for _, params in members),
            tuple(tuple(params.logprob_token_ids) for _, params in members),
        )
        for (mode, _), members in found.items()
    ]


def prompt_logprobs(
    logits: torch.Tensor,  # [L, V or more]: row i is what the model says behind token i of the prompt
    prompt_ids: Sequence[int],  # L + 1 or more
    params: SamplingParams,
    vocab_size: int,
) -> list[TokenLogprobs]:
    """Of tokens 1 to L of a prompt, as ``params.prompt_logprobs`` asks; the first token has none."""
    tokens = torch.tensor(list(prompt_ids[1 : len(logits) + 1]), dtype=torch.int64, device=logits.device)
    as_logits = params.logprobs_mode.endswith("logits")
    top_n = params.prompt_logprobs or 0
    return to_host(row_logprobs(logits[:, :vocab_size], tokens, top_n=top_n, as_logits=as_logits), tokens)


def _on_device(ids: Sequence[Any], device: torch.device) -> torch.Tensor:
    host = torch.tensor(ids, dtype=torch.int64)
    return host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host
