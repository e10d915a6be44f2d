"""From the processed rows of a step to the tokens that are committed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch

from constrain.errors import InvalidInputError
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops.block import verify_by_block
from constrain.spec.ops.compare import verify_by_drawing
from constrain.spec.ops.rejection import verify_by_rejection
from constrain.spec.ops.row_stats import num_counters
from constrain.spec.synthetic import conditional_rates, verify_synthetically
from constrain.spec.windows import window_seeds

Rule = Literal["draw", "rejection", "block", "synthetic"]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a step gives to each request."""

    tokens: torch.Tensor  # [B, K + 1] int64: accepted draft tokens, one token more, -1 behind
    num_accepted: torch.Tensor  # [B] int64; the row of the last token stands this far behind the request's first


class RejectionSampler:
    """Verifies drafts on rows that passed the one pipeline, the same for all. For one stream at a time.

    rule:
        ``"draw"``: a draft token is accepted where it equals the token that the pipeline has drawn in its row. Greedy
        requests and coupled Gumbel draws are the same rule, since their draw is the argmax, or shares its noise with
        the draft. No draft changes the output. ``"rejection"`` and ``"block"`` accept more of what a draft model drew
        without shared noise; they keep the distribution, and let the draft change the tokens. ``"synthetic"`` accepts
        at given rates, for benchmarks. ``"block"`` draws with the seed of the step, :func:`window_seed`, and a draft
        model must draw with it, too, since this rule has looked at draws of places which the next step fills.
    synthetic_rates:
        For ``"synthetic"``: the share of drafts accepted up to each position.
    """

    def __init__(self, rule: Rule = "draw", *, synthetic_rates: Sequence[float] | None = None) -> None:
        if rule not in get_args(Rule):
            raise InvalidInputError(f"rule={rule!r}: want one of {', '.join(get_args(Rule))}")
        if (rule == "synthetic") != (synthetic_rates is not None):
            raise InvalidInputError("synthetic_rates go with rule='synthetic', and it with them")
        self.rule: Rule = rule
        self._counters: torch.Tensor | None = None
        self._conditional = torch.tensor(conditional_rates(synthetic_rates or ()), dtype=torch.float64)

    @property
    def max_drafts(self) -> int | None:
        """The most draft tokens that there are rates for; None without a limit."""
        return len(self._conditional) if self.rule == "synthetic" else None

    @property
    def needs_distributions(self) -> bool:
        """Whether the rule asks for ``logits``, and for what the draft was drawn from."""
        return self.rule in ("rejection", "block")

    def __call__(
        self,
        metadata: SpecDecodeMetadata,
        *,
        drawn: torch.Tensor | None = None,  # [N] int64, what the pipeline took from each row
        logits: torch.Tensor | None = None,  # [N, V] floating, after temperature and truncation, -inf outside
        draft: torch.Tensor | None = None,  # [M, V] floating, probabilities or logits; None: certain tokens
        draft_is_logits: bool = False,
        seeds: torch.Tensor | None = None,  # [B] int64
        output_indices: torch.Tensor | None = None,  # [B] int64, of the first row of each request
        greedy: torch.Tensor | None = None,  # [B] bool: these requests are verified by drawing whatever the rule
    ) -> Verified:
        """The tokens of each request; ``InvalidInputError`` where the rule lacks something, or shapes do not fit.

        ``"draw"`` takes ``drawn``; ``"synthetic"`` also ``seeds`` and ``output_indices``; the others ``logits``,
        ``seeds`` and ``output_indices``, and ``drawn`` with ``greedy``. A reached row that has no token (empty or not
        finite) may give anything: its status, at row ``num_accepted`` of the request, says so.
        """
        if self.rule == "draw":
            return Verified(*verify_by_drawing(self._given("drawn", drawn), metadata))
        seeds = self._given("seeds", seeds)
        output_indices = self._given("output_indices", output_indices)
        if self.rule == "synthetic":
            if len(self._conditional) < metadata.max_drafts:
                raise InvalidInputError(f"{len(self._conditional)} synthetic rates for {metadata.max_drafts} drafts")
            drawn = self._given("drawn", drawn)
            rates = self._conditional.to(drawn.device)
            return Verified(*verify_synthetically(rates, drawn, metadata, seeds, output_indices))
        logits = self._given("logits", logits)
        verify = verify_by_rejection if self.rule == "rejection" else verify_by_block
        if self.rule == "block":
            seeds = window_seeds(seeds, output_indices)
        tokens, num_accepted = verify(
            logits,
            draft,
            metadata,
            seeds,
            output_indices,
            draft_is_logits=draft_is_logits,
            counters=self._zeros(metadata, logits.device),
        )
        if greedy is None:
            return Verified(tokens, num_accepted)
        plain_tokens, plain_accepted = verify_by_drawing(self._given("drawn", drawn), metadata)
        return Verified(
            torch.where(greedy[:, None], plain_tokens, tokens), torch.where(greedy, plain_accepted, num_accepted)
        )

    def _zeros(self, metadata: SpecDecodeMetadata, device: torch.device) -> torch.Tensor | None:
        """The counters of the kernels, which leave them at zero: making them anew would be a launch for each call."""
        if device.type != "cuda":
            return None
        size = num_counters(metadata)
        if self._counters is None or len(self._counters) < size or self._counters.device != device:
            self._counters = torch.zeros(2 * size, dtype=torch.int32, device=device)
        return self._counters

    def _given(self, name: str, value: torch.Tensor | None) -> torch.Tensor:
        if value is None:
            raise InvalidInputError(f"rule={self.rule!r} needs {name}=")
        return value
