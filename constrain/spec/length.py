"""How many tokens to draft."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from constrain.errors import InvalidInputError


class DraftLength(ABC):
    """Chooses K, the draft length of a step."""

    @abstractmethod
    def length(self, batch_size: int) -> int:
        """The most draft tokens a request, for a step of ``batch_size`` requests."""

    @property
    @abstractmethod
    def max_length(self) -> int:
        """The largest K that :meth:`length` may give: what memory is made for."""

    def observe(self, proposed: Sequence[int], accepted: Sequence[int]) -> None:  # noqa: B027
        """Learn what became of the drafts of a step: tokens proposed and accepted, for each request."""


class ConstantLength(DraftLength):
    """The same K always."""

    def __init__(self, length: int) -> None:
        if length < 0:
            raise InvalidInputError(f"length={length}: want at least 0")
        self._length = length

    @property
    def max_length(self) -> int:
        return self._length

    def length(self, batch_size: int) -> int:
        return self._length


class LengthByBatch(DraftLength):
    """K by the batch size: the fuller the GPU, the dearer a wrong draft.

    ``ranges`` are (start, end, K), both ends inclusive, in ascending order from 1 on. A batch size between two ranges
    takes the K of the range before it, and one behind the last that of the last.
    """

    def __init__(self, ranges: Sequence[tuple[int, int, int]]) -> None:
        before = 0
        for start, end, length in ranges:
            if not before < start <= end or length < 0:
                raise InvalidInputError(f"range {(start, end, length)}: want {before} < start <= end and K >= 0")
            before = end
        if not ranges or ranges[0][0] != 1:
            raise InvalidInputError("ranges: want the first to start at batch size 1")
        self._ranges = tuple(ranges)

    @property
    def max_length(self) -> int:
        return max(length for _, _, length in self._ranges)

    def length(self, batch_size: int) -> int:
        return [length for start, _, length in self._ranges if start <= batch_size or start == 1][-1]


class AdaptiveLength(DraftLength):
    """The K with the best expected speed, by the acceptance measured at each position.

    a_i is the share of drafts whose token i was accepted among those that had one and whose tokens before it were
    accepted: an exponential moving average over steps, ``momentum`` being the weight of the past. At a position that no
    draft of a step reaches, the average moves towards that of the position before it (the first one's towards 1), so
    that a length which was given up is tried again. A step with K draft tokens gives
    1 + sum over j <= K of a_1 * ... * a_j tokens, and costs 1 + K * ``token_cost`` of a plain step; K is where the
    quotient is largest, the smallest such K, at least ``min_length``. Deterministic.
    """

    def __init__(
        self, max_length: int, *, min_length: int = 1, token_cost: float = 0.05, momentum: float = 0.9
    ) -> None:
        if not 0 <= min_length <= max_length or token_cost < 0 or not 0 <= momentum < 1:
            raise InvalidInputError(
                f"{min_length=}, {max_length=}, {token_cost=}, {momentum=}: want 0 <= min_length <= max_length, "
                "token_cost >= 0 and momentum in [0, 1)"
            )
        self._min_length, self._max_length = min_length, max_length
        self._token_cost, self._momentum = token_cost, momentum
        self._acceptance = [1.0] * max_length
        self._is_measured = [False] * max_length
        self._length = max_length

    @property
    def max_length(self) -> int:
        return self._max_length

    @property
    def acceptance(self) -> tuple[float, ...]:
        """The estimate of a_i for each position."""
        return tuple(self._acceptance)

    def length(self, batch_size: int) -> int:
        return self._length

    def observe(self, proposed: Sequence[int], accepted: Sequence[int]) -> None:
        before = 1.0
        for position, old in enumerate(self._acceptance):
            reached = [a for p, a in zip(proposed, accepted, strict=True) if p > position and a >= position]
            seen = sum(a > position for a in reached) / len(reached) if reached else before
            past = self._momentum if self._is_measured[position] else 0.0
            self._acceptance[position] = before = past * old + (1 - past) * seen
            self._is_measured[position] |= bool(reached)
        self._length = self._best()

    def _best(self) -> int:
        best, best_speed = self._min_length, 0.0
        tokens, reach = 1.0, 1.0
        for length, rate in enumerate((1.0, *self.acceptance)):
            if length:
                reach *= rate
                tokens += reach
            speed = tokens / (1 + self._token_cost * length)
            if length >= self._min_length and speed > best_speed:
                best, best_speed = length, speed
        return best
