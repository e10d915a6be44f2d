"""What became of the drafts."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class SpecStatistics:
    """Counts over drafts: of one request, or of many by :meth:`merge`. A request without a draft counts nothing.

    seconds:
        The time over which the counts were made, which the caller adds; rates are 0 without it.
    """

    num_drafts: int = 0
    num_proposed: int = 0
    num_accepted: int = 0
    proposed_by_position: list[int] = field(default_factory=list)
    accepted_by_position: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, proposed: int, accepted: int) -> None:
        """One draft of ``proposed`` tokens, of which the first ``accepted`` were taken."""
        if proposed < 1:
            return
        self.num_drafts += 1
        self.num_proposed += proposed
        self.num_accepted += accepted
        self._reach(proposed)
        for position in range(proposed):
            self.proposed_by_position[position] += 1
            self.accepted_by_position[position] += position < accepted

    def add_step(self, proposed: Sequence[int], accepted: Sequence[int], seconds: float = 0.0) -> None:
        """The drafts of one step, which took ``seconds``."""
        for each, taken in zip(proposed, accepted, strict=True):
            self.add(each, taken)
        self.seconds += seconds

    def merge(self, other: "SpecStatistics") -> None:
        """Add the counts of ``other``; times run side by side, so the longer one stands."""
        self.num_drafts += other.num_drafts
        self.num_proposed += other.num_proposed
        self.num_accepted += other.num_accepted
        self._reach(len(other.proposed_by_position))
        for position, count in enumerate(other.proposed_by_position):
            self.proposed_by_position[position] += count
            self.accepted_by_position[position] += other.accepted_by_position[position]
        self.seconds = max(self.seconds, other.seconds)

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens of those proposed; 0 without any."""
        return self.num_accepted / self.num_proposed if self.num_proposed else 0.0

    @property
    def acceptance_length(self) -> float:
        """Tokens that a step with a draft gives on average, its own one included."""
        return 1 + self.num_accepted / self.num_drafts if self.num_drafts else 1.0

    @property
    def acceptance_by_position(self) -> tuple[float, ...]:
        """For each position, the share of its draft tokens that were accepted."""
        pairs = zip(self.accepted_by_position, self.proposed_by_position, strict=True)
        return tuple(accepted / proposed if proposed else 0.0 for accepted, proposed in pairs)

    @property
    def accepted_per_second(self) -> float:
        """Accepted draft tokens a second."""
        return self.num_accepted / self.seconds if self.seconds else 0.0

    @property
    def proposed_per_second(self) -> float:
        """Drafted tokens a second."""
        return self.num_proposed / self.seconds if self.seconds else 0.0

    def _reach(self, length: int) -> None:
        missing = length - len(self.proposed_by_position)
        if missing > 0:
            self.proposed_by_position += [0] * missing
            self.accepted_by_position += [0] * missing
