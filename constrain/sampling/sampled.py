"""What came of the rows of a step, on the device and on the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import torch

from constrain.errors import ProcessorError
from constrain.sampling.logprobs import TokenLogprobs, to_host
from constrain.sampling.ops.logprobs import Logprobs
from constrain.sampling.status import RowStatus
from constrain.sampling.wanted_logprobs import LogprobGroup


@dataclass(frozen=True, slots=True)
class HostSample:
    """What came of N rows. A token means something where its status is OK and ``errors`` does not hold its row."""

    tokens: list[int]
    status: list[RowStatus]
    errors: Mapping[int, ProcessorError]
    logprobs: Mapping[int, TokenLogprobs]
    """Of the rows whose request wants them, by row."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What came of N rows, on the device."""

    tokens: torch.Tensor  # [N] int64; means nothing where the status is not OK
    status: torch.Tensor  # [N] int64 of RowStatus
    errors: Mapping[int, ProcessorError]
    """Of the rows that a processor failed on, by row."""
    logprobs: Sequence[tuple[LogprobGroup, Logprobs]] = ()

    def to_host(self) -> HostSample:
        """All of it in one copy, which waits for the device."""
        parts = [self.tokens, self.status]
        for _, group in self.logprobs:
            parts += [getattr(group, each.name) for each in fields(group)]
        tokens, status, *rest = _on_host(parts)
        found: dict[int, TokenLogprobs] = {}
        width = len(fields(Logprobs))
        for index, (wanted, _) in enumerate(self.logprobs):
            values = Logprobs(*rest[index * width : (index + 1) * width])
            rows = list(wanted.rows)
            each = to_host(values, tokens[rows], wanted.top_counts, wanted.given_ids)
            found |= zip(rows, each, strict=True)
        return HostSample(tokens.tolist(), [RowStatus(code) for code in status.tolist()], self.errors, found)


def _on_host(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors on the host, with their shapes and dtypes, in one copy; float64 holds ids and float32 as they are."""
    flat = torch.cat([tensor.double().flatten() for tensor in tensors]).cpu()
    sizes = [tensor.numel() for tensor in tensors]
    parts = zip(tensors, torch.split(flat, sizes), strict=True)
    return [part.view(tensor.shape).to(tensor.dtype) for tensor, part in parts]
