"""From the logits of a step to the tokens that its rows give, as far as the drafts are right."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from constrain.engine.plan import StepPlan
from constrain.sampling.sampler import HostSample, RowStatus, Sampled, Sampler
from constrain.spec.draft import Draft
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.rejection_sampler import RejectionSampler


@dataclass(frozen=True, slots=True)
class VerifiedStep:
    """Tokens, statuses and logprobs of the rows; those behind row ``num_accepted`` of a request mean nothing."""

    sample: HostSample  # N
    num_accepted: Sequence[int]  # B


class Verifier:
    """Takes tokens from rows by one rule, the same with drafts and without."""

    def __init__(self, sampler: Sampler, rule: RejectionSampler) -> None:
        self._sampler = sampler
        self._rule = rule

    def __call__(
        self,
        plan: StepPlan,
        logits: torch.Tensor,  # [N, V or more] on the device
        bitmask: torch.Tensor | None,  # [N, W] int32 on the device
    ) -> VerifiedStep:
        """What the rows give, brought to the host in one copy."""
        if self._rule.rule == "draw":
            sample = self._sampler.sample(logits, plan.rows, bitmask).to_host()
            return VerifiedStep(sample, _agreeing(plan, sample.tokens))
        sample = self._by_rule(plan, logits, bitmask).to_host()
        return VerifiedStep(sample, _taken(plan, sample.status))

    def _by_rule(self, plan: StepPlan, logits: torch.Tensor, bitmask: torch.Tensor | None) -> Sampled:
        """Verified on the device; rows that were not reached are skipped ones."""
        drawn = self._sampler.sample(logits, plan.rows, bitmask)
        ids = [token_id for draft in plan.drafts for token_id in draft.token_ids]
        metadata = SpecDecodeMetadata.make([len(draft) for draft in plan.drafts], ids, device=logits.device)
        seeds, output_indices, greedy = _of_requests(plan, logits.device)
        asks = self._rule.needs_distributions
        errors, processed = dict(drawn.errors), None
        if asks:
            processed, failed = self._sampler.process_each(logits, plan.rows, bitmask)
            errors = {**failed, **errors}
        verified = self._rule(
            metadata,
            drawn=drawn.tokens,
            logits=processed,
            draft=_distributions(plan.drafts, self._sampler.vocab_size, logits.device) if asks else None,
            seeds=seeds,
            output_indices=output_indices,
            greedy=greedy.bool(),
        )
        requests = metadata.row_requests
        starts = metadata.bonus_logits_indices - metadata.num_drafts
        places = torch.arange(len(requests), device=logits.device) - starts[requests]
        # A row without any token may give -1, which no gather takes; its status says so.
        tokens = verified.tokens[requests, places].clamp(min=0)
        is_reached = places <= verified.num_accepted[requests]
        status = torch.where(is_reached, drawn.status, int(RowStatus.SKIPPED))
        return Sampled(tokens, status, errors, self._sampler.logprobs(logits, plan.rows, tokens, bitmask))


def _agreeing(plan: StepPlan, tokens: Sequence[int]) -> list[int]:
    """How many tokens of each draft are what their rows have drawn."""
    counts = []
    for first, draft in zip(plan.first_rows, plan.drafts, strict=True):
        pairs = enumerate(draft.token_ids)
        counts.append(next((place for place, token_id in pairs if tokens[first + place] != token_id), len(draft)))
    return counts


def _taken(plan: StepPlan, status: Sequence[RowStatus]) -> list[int]:
    """How many tokens of each draft stand before the last row that was reached."""
    counts = []
    for first, draft in zip(plan.first_rows, plan.drafts, strict=True):
        counts.append(sum(status[first + place] is not RowStatus.SKIPPED for place in range(1, len(draft) + 1)))
    return counts


def _of_requests(plan: StepPlan, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Seeds (their 64 bits), output indices, whether greedy: int64 [B] each, in one copy."""
    seeds = [each.seed - 2**64 if each.seed >= 2**63 else each.seed for each in plan.batch]
    indices = [each.num_output for each in plan.batch]
    greedy = [each.request.params.is_greedy for each in plan.batch]
    host = torch.tensor([seeds, indices, greedy], dtype=torch.int64)
    return (host.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else host).unbind(0)


def _distributions(drafts: Sequence[Draft], width: int, device: torch.device) -> torch.Tensor | None:
    """[M, V]: what each draft token was drawn from; None where all were certain."""
    if all(draft.probabilities is None for draft in drafts):
        return None
    return torch.cat([draft.distributions(width, device) for draft in drafts if len(draft)])
