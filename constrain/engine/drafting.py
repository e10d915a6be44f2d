"""The drafts of a step."""

from collections.abc import Sequence

from constrain.engine.active import ActiveRequest
from constrain.source import LogitsSource, SequenceView
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.spec.guarded import GuardedProposer
from constrain.spec.length import DraftLength
from constrain.vocabulary import Vocabulary


class Drafter:
    """Asks a proposer for drafts that fit each request."""

    def __init__(
        self, proposer: Proposer | None, length: DraftLength, source: LogitsSource, vocabulary: Vocabulary
    ) -> None:
        self._proposer = None if proposer is None else GuardedProposer(proposer, vocabulary)
        self._length = length
        self._source = source

    def drafts(self, batch: Sequence[ActiveRequest]) -> list[Draft]:
        """A draft for each request, empty where none is wanted or known."""
        wanted = 0 if self._proposer is None else self._length.length(len(batch))
        lengths = [self._fitting(sequence, wanted) for sequence in batch]
        if self._proposer is None or not any(lengths):
            return [Draft()] * len(batch)
        return self._proposer.propose(
            [SequenceView(each.slot, (*each.prompt_ids, *each.output_ids)) for each in batch],
            [each.grammar for each in batch],
            lengths,
            [_key(each) for each in batch],
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


def _key(sequence: ActiveRequest) -> DrawKey:
    params = sequence.request.params
    return DrawKey(params, sequence.seed, sequence.num_output, gumbel=params.draw == "gumbel")
