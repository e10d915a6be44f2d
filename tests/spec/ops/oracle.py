"""The rules of verification for one request, in float64 and with loops."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from constrain.sampling.uniform import Purpose, uniforms
from constrain.spec.metadata import SpecDecodeMetadata

BAND = 1e-6  # decisions this close to their boundary may go either way in float32
F64 = npt.NDArray[np.float64]


@dataclass
class Case:
    """A step of several requests."""

    logits: torch.Tensor
    draft: torch.Tensor | None
    draft_is_logits: bool
    metadata: SpecDecodeMetadata
    seeds: torch.Tensor
    output_indices: torch.Tensor

    def to(self, device: str) -> "Case":
        metadata = self.metadata
        counts, ids = metadata.num_drafts.tolist(), metadata.draft_token_ids.tolist()
        return Case(
            self.logits.to(device),
            None if self.draft is None else self.draft.to(device),
            self.draft_is_logits,
            SpecDecodeMetadata.make(counts, ids, device=device),
            self.seeds.to(device),
            self.output_indices.to(device),
        )


def make_case(counts: list[int], width: int, kind: str, seed: int, *, closeness: float = 0.5) -> Case:
    """Drafts near the target: ``kind`` says in what form their distribution comes."""
    generator = torch.Generator().manual_seed(seed)
    shape = SpecDecodeMetadata.make(counts, [0] * sum(counts))
    logits = torch.randn(shape.num_rows, width + 3, generator=generator)[:, :width] * 2  # rows wider than their logits
    logits = logits.masked_fill(torch.rand(logits.shape, generator=generator) < 0.2, float("-inf"))
    logits[:, width // 2] = 1.0  # no row is empty
    logits[0] = float("-inf")  # one legal token
    logits[0, width - 1] = 0.0
    draft = logits[shape.target_logits_indices] + closeness * torch.randn(sum(counts), width, generator=generator)
    draft = draft.masked_fill(torch.rand(draft.shape, generator=generator) < 0.05, float("-inf"))
    draft[:, width - 1] = 1.0
    probabilities = torch.softmax(draft, dim=1)
    ids = torch.multinomial(probabilities, 1, generator=generator).squeeze(1) if sum(counts) else torch.zeros(0)
    return Case(
        logits,
        {"certain": None, "probabilities": probabilities, "logits": draft}[kind],
        kind == "logits",
        SpecDecodeMetadata.make(counts, ids.long().tolist()),
        torch.randint(-(2**63), 2**63 - 1, (len(counts),), generator=generator),
        torch.randint(0, 2**40, (len(counts),), generator=generator),
    )


def uniform(case: Case, request: int, place: int, purpose: Purpose) -> float:
    seed = int(case.seeds[request]) % 2**64
    return float(uniforms([seed], [int(case.output_indices[request]) + place], purpose))


def distributions(case: Case, request: int) -> tuple[list[int], F64, F64]:
    """The draft of a request, p [K + 1, V] and q [K, V]."""
    counts = case.metadata.num_drafts.tolist()
    first_draft = sum(counts[:request])
    rows = case.logits[first_draft + request : first_draft + request + counts[request] + 1].double().cpu()
    p = torch.softmax(rows, dim=1).numpy()
    ids = case.metadata.draft_token_ids[first_draft : first_draft + counts[request]].tolist()
    if case.draft is None:
        q = np.zeros((len(ids), p.shape[1]))
        q[range(len(ids)), ids] = 1.0
    else:
        draft = case.draft[first_draft : first_draft + counts[request]].double().cpu()
        q = (torch.softmax(draft, dim=1) if case.draft_is_logits else draft).numpy()
    return ids, p, q


def rejection(case: Case, request: int) -> tuple[int, F64, float]:
    """(accepted tokens, weights of the token behind them, the smallest distance of a decision from its boundary)."""
    ids, p, q = distributions(case, request)
    margin = 1.0
    for place, token in enumerate(ids):
        u = uniform(case, request, place, Purpose.ACCEPT)
        p_token, q_token = p[place, token], q[place, token]
        if q_token > 0 and p_token > 0:
            margin = min(margin, abs(u * q_token - p_token))
        if not (q_token > 0 and u < min(1.0, p_token / q_token)):
            return place, np.maximum(p[place] - q[place], 0), margin
    return len(ids), p[-1], margin


def block(case: Case, request: int) -> tuple[int, F64, float]:
    """The same by block verification."""
    ids, p, q = distributions(case, request)
    accepted, scale, scales, margin = 0, 1.0, [1.0], 1.0
    for length, token in enumerate(ids, start=1):
        q_token = q[length - 1, token]
        scale = min(1.0, scale * p[length - 1, token] / q_token) if q_token > 0 else 0.0
        scales.append(scale)
        chance = scale
        if length < len(ids) and scale < 1:
            rest = np.maximum(scale * p[length] - q[length], 0).sum()
            chance = rest / (rest + 1 - scale)
        u = uniform(case, request, length - 1, Purpose.ACCEPT)
        margin = min(margin, abs(u - chance))
        if u < chance:
            accepted = length
    if accepted == len(ids):
        return accepted, p[-1], margin
    return accepted, np.maximum(scales[accepted] * p[accepted] - q[accepted], 0), margin


def check(case: Case, tokens: torch.Tensor, num_accepted: torch.Tensor, rule: str) -> int:
    """Fails where a decision differs and is not at its boundary; how many requests were compared."""
    compared = 0
    for request, (row, accepted) in enumerate(zip(tokens.tolist(), num_accepted.tolist(), strict=True)):
        ids, p, _ = distributions(case, request)
        assert row[:accepted] == ids[:accepted] and set(row[accepted + 1 :]) <= {-1}, (request, row, accepted)
        assert p[accepted, row[accepted]] > 0, f"request {request} got a token that its row forbids"
        wanted, weights, margin = (rejection if rule == "rejection" else block)(case, request)
        if margin < BAND or weights.sum() < 1e-5:
            continue
        compared += 1
        assert accepted == wanted, (request, accepted, wanted, margin)
        purpose = Purpose.DRAW if accepted == len(ids) else Purpose.RECOVER
        ends = np.cumsum(weights) / weights.sum()
        u, token = uniform(case, request, accepted, purpose), row[accepted]
        before = ends[token - 1] if token else 0.0
        slack = BAND / min(1.0, weights.sum())
        assert before - slack <= u <= ends[token] + slack, (request, token, u, before, ends[token])
    return compared
