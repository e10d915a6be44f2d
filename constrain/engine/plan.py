"""What one step is about to do: which rows of logits, for which requests."""

from collections.abc import Sequence
from dataclasses import dataclass

from constrain.engine.active import ActiveRequest
from constrain.sampling.rows import Rows
from constrain.source import SequenceView
from constrain.spec.draft import Draft


@dataclass(frozen=True, slots=True)
class StepPlan:
    """B requests with a draft of K_b tokens each, and so N = sum of K_b + 1 rows to sample from."""

    batch: Sequence[ActiveRequest]  # B
    drafts: Sequence[Draft]  # B
    first_rows: Sequence[int]  # B
    rows: Rows  # N

    @classmethod
    def make(cls, batch: Sequence[ActiveRequest], drafts: Sequence[Draft]) -> "StepPlan":
        slots: list[int] = []
        offsets: list[int] = []
        indices: list[int] = []
        behind: list[int] = []
        first_rows: list[int] = []
        for sequence, draft in zip(batch, drafts, strict=True):
            count = len(draft) + 1
            first_rows.append(len(slots))
            slots += [sequence.slot] * count
            offsets += range(count)
            indices += range(sequence.num_output, sequence.num_output + count)
            behind += (*draft.token_ids, -1)
        return cls(batch, drafts, first_rows, Rows(slots, offsets, indices, behind))

    def views(self) -> list[SequenceView]:
        """What the source is asked for: the rows, and where logprobs of a prompt are wanted, those of the prompt."""
        return [self.view(index) for index in range(len(self.batch))]

    def view(self, index: int) -> SequenceView:
        sequence, draft = self.batch[index], self.drafts[index]
        ids = (*sequence.prompt_ids, *sequence.output_ids, *draft.token_ids)
        return SequenceView(sequence.slot, ids, self.num_prompt_rows(index) + len(draft) + 1)

    def num_prompt_rows(self, index: int) -> int:
        """Rows of logits that stand before those to sample from, for the logprobs of the prompt."""
        sequence = self.batch[index]
        return len(sequence.prompt_ids) - 1 if sequence.wants_prompt_logprobs else 0

    def row_starts(self) -> list[int]:
        """Where, among the logits of the views, the rows to sample from begin for each request."""
        starts: list[int] = []
        end = 0
        for index, draft in enumerate(self.drafts):
            starts.append(end + self.num_prompt_rows(index))
            end = starts[-1] + len(draft) + 1
        return starts
