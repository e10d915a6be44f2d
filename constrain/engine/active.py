"""A request inside an engine."""

from concurrent.futures import Future
from dataclasses import dataclass, field

from constrain.engine.stop_strings import StopStrings
from constrain.errors import BackendError, ConstrainError
from constrain.grammar import CompiledGrammar, Grammar
from constrain.output_reader import OutputReader, TextReader
from constrain.request import Request
from constrain.result import Timings
from constrain.sampling.logprobs import TokenLogprobs
from constrain.sampling.restrictions import Restrictions
from constrain.spec.statistics import SpecStatistics


@dataclass(slots=True, eq=False)
class ActiveRequest:
    """A request from its place in the queue to its end. The engine owns it."""

    request_id: int
    request: Request
    seed: int
    added_at: float
    prompt_ids: list[int]
    restrictions: Restrictions
    compiling: Future[CompiledGrammar] | None
    reader: OutputReader
    output_ids: list[int] = field(default_factory=list)  # the one list for as long as it lives: the sampler reads it
    slot: int = -1
    grammar: Grammar | None = None
    backend: str | None = None
    backend_reason: str | None = None
    stop_strings: StopStrings | None = None
    text_reader: TextReader | None = None  # of the text in which stop strings count
    stop_reason: int | str | None = None  # what ended it, where no stop token of the vocabulary did
    stopped_at: int | None = None  # bytes of text before the stop string
    timings: Timings = field(default_factory=Timings)
    has_ended: bool = False
    num_handed_out: int = 0  # output tokens that Engine.new_tokens has reported
    num_fixed: int = 0  # of those, how many must not be taken back
    min_tokens_yielded: bool = False
    logprobs: list[TokenLogprobs] = field(default_factory=list)  # of the output, where asked for
    prompt_logprobs: list[TokenLogprobs | None] | None = None
    statistics: SpecStatistics = field(default_factory=SpecStatistics)
    bans: dict[int, set[int]] = field(default_factory=dict)  # by output index: tokens that led to a dead end
    num_backtracks: int = 0
    furthest: "DeadEnd | None" = None

    @property
    def num_output(self) -> int:
        return len(self.output_ids)

    @property
    def num_stable(self) -> int:
        """Output tokens before the innermost open value: those that backtracking leaves for last."""
        starts = [] if self.grammar is None else self.grammar.value_starts()
        return max(min(starts[-1] if starts else self.num_output, self.num_output), self.num_fixed)

    @property
    def deadline(self) -> float:
        return float("inf") if self.request.timeout_s is None else self.added_at + self.request.timeout_s

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether the next forward pass must give the logits of the prompt, too."""
        return self.request.params.prompt_logprobs is not None and self.prompt_logprobs is None


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """The longest output that led nowhere, of those that begin with the fixed tokens: what the result shows if no way
    around it is found.
    """

    output_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...]
    error: ConstrainError


def as_backend_error(exc: BaseException, backend: str | None) -> ConstrainError:
    """What stands in a result where a grammar raised ``exc``. Raises it again where the process is to end."""
    if isinstance(exc, KeyboardInterrupt | SystemExit | GeneratorExit):
        raise exc
    if isinstance(exc, ConstrainError):
        return exc
    error = BackendError(f"{backend} failed: {type(exc).__name__}: {exc}")
    error.__cause__ = exc
    return error
