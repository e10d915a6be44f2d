"""The drafts of a step."""

from collections.abc import Sequence

from constrain.engine.active import ActiveRequest
from constrain.source import LogitsSource, SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.spec.guarded import GuardedProposer
from constrain.spec.length import DraftLength
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.spec.windows import window_seed
from constrain.vocabulary import Vocabulary


class Drafter:
    """Asks a proposer for drafts that fit each request."""

    def __init__(
        self,
        proposer: Proposer | None,
        length: DraftLength,
        rule: RejectionSampler,
        source: LogitsSource,
        vocabulary: Vocabulary,
    ) -> None:
        guarded = None
        if proposer is not None:
            guarded = GuardedProposer(proposer, vocabulary, probabilities=rule.needs_distributions)
        self._proposer = guarded
        self._length = length
        self._rule = rule.rule
        self._source = source

    def drafts(self, batch: Sequence[ActiveRequest]) -> list[Draft]:
        """A draft for each request, empty where none is wanted or known."""
        wanted = 0
        if self._proposer is not None:
            wanted = min(self._length.length(len(batch)), self._length.max_length)  # masks have room for no more
        lengths = [self._fitting(sequence, wanted) for sequence in batch]
        if self._proposer is None or not any(lengths):
            return [Draft()] * len(batch)
        return self._proposer.propose(
            [SequenceView(each.slot, (*each.prompt_ids, *each.output_ids)) for each in batch],
            [each.grammar for each in batch],
            lengths,
            [self._key(each) for each in batch],
        )

    def observe(self, drafts: Sequence[Draft], accepted: Sequence[int]) -> None:
        """What became of the drafts of a step."""
        if self._proposer is not None:
            self._length.observe([len(draft) for draft in drafts], accepted)

    def release(self, slot: int) -> None:
        """A request has ended."""
        if self._proposer is not None:
            self._proposer.release(slot)

    def _fitting(self, sequence: ActiveRequest, wanted: int) -> int:
        """``wanted``, or what is left of the request and the context: K draft tokens give K + 1."""
        left = sequence.request.params.max_tokens - sequence.num_output - 1
        if self._source.max_length is not None:
            left = min(left, self._source.max_length - len(sequence.prompt_ids) - sequence.num_output - 1)
        return max(min(wanted, left), 0)

    def _key(self, sequence: ActiveRequest) -> DrawKey:
        params, seed, index = sequence.request.params, sequence.seed, sequence.num_output
        if self._rule == "block":
            seed = window_seed(seed, index)
        return DrawKey(params, seed, index, gumbel=self._rule == "draw" and params.draw == "gumbel")
