"""What a request may ask of sampling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

from constrain.errors import InvalidInputError
from constrain.sampling.params_check import checked_fields

GREEDY_BELOW = 1e-5
"""A temperature under this picks the argmax."""

DrawMethod = Literal["inverse", "gumbel"]
LogprobsMode = Literal["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"]


class SamplingFields(TypedDict, total=False):
    """The fields of :class:`SamplingParams`, as keyword arguments."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int | None
    draw: DrawMethod
    n: int
    max_tokens: int
    min_tokens: int
    stop: Sequence[str]
    stop_token_ids: Sequence[int]
    ignore_eos: bool
    logit_bias: Mapping[int, float] | None
    allowed_token_ids: Sequence[int] | None
    bad_words: Sequence[str]
    logprobs: int | None
    prompt_logprobs: int | None
    logprob_token_ids: Sequence[int]
    logprobs_mode: LogprobsMode
    extra: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to draw, and how much. Checked when made: ``InvalidInputError`` names the field.

    Sequences are kept as tuples, a single stop string or bad word as a tuple of one, ids in the order given.

    temperature:
        0 to 1e30; below 1e-5 is greedy: the token of the highest logit, the lowest id on ties.
    top_k:
        Keep the k most probable tokens, ties by lowest id; 0 or -1 keeps all.
    top_p:
        In (0, 1]. After top-k, keep the smallest set of most probable tokens whose mass is at least this.
    min_p:
        In [0, 1]. Before top-k, keep the tokens that are at least this many times as probable as the most probable.
    repetition_penalty:
        Over 0; divides a positive logit, and multiplies any other, of the tokens in prompt and output. 1 is off.
    presence_penalty, frequency_penalty:
        In [-2, 2]; taken from the logit of a token in the output, once, and once for each time it stands there.
    seed:
        64 bits. The draws depend on it and on the index of the output token only, so a request repeats itself alone
        or in any batch. None takes a fresh one, which the result names.
    draw:
        ``"inverse"`` inverts the cumulated weights; ``"gumbel"`` takes the argmax under noise by token id, which lets
        a draft model that shares the noise agree with the target more often. The same distribution.
    n:
        Outputs for the prompt, each with a seed of its own that follows from ``seed``.
    max_tokens:
        The most tokens to generate, the stop token included.
    min_tokens:
        Stop tokens are not drawn before so many tokens, unless nothing else is legal; stop strings do not count before.
    stop:
        Texts that end the output where they first appear.
    stop_token_ids:
        Ids that end the output, beside the stop tokens of the vocabulary.
    ignore_eos:
        Go on after the stop tokens of the vocabulary.
    logit_bias:
        Added to the logits of these ids; minus infinity forbids.
    allowed_token_ids:
        The only ids that may be drawn; a stop token that is not among them is not.
    bad_words:
        Texts that the output must not hold, in the tokens in which the vocabulary writes them, with and without a space
        before them. The prompt may hold them.
    logprobs, prompt_logprobs:
        How many of the most probable tokens to report at each place of the output or the prompt, beside the token that
        stands there; 0 for that token alone, -1 for the whole vocabulary, None for nothing.
    logprob_token_ids:
        Ids to report at each place of the output, however probable.
    logprobs_mode:
        ``"raw_logprobs"``: the model's own; ``"processed_logprobs"``: of the distribution drawn from, or, where greedy,
        of the logits after penalties. ``"raw_logits"`` and ``"processed_logits"`` report the logits. Those of a prompt
        are always the model's own.
    extra:
        Fields of custom processors, by name. A name that no processor knows is an error.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    draw: DrawMethod = "inverse"
    n: int = 1
    max_tokens: int = 256
    min_tokens: int = 0
    stop: Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    logit_bias: Mapping[int, float] | None = field(default=None, hash=False)
    allowed_token_ids: Sequence[int] | None = None
    bad_words: Sequence[str] = ()
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    logprob_token_ids: Sequence[int] = ()
    logprobs_mode: LogprobsMode = "raw_logprobs"
    extra: Mapping[str, Any] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, value in checked_fields(given).items():
            object.__setattr__(self, name, value)
        if self.min_tokens > self.max_tokens:
            raise InvalidInputError(
                f"min_tokens={self.min_tokens} contradicts max_tokens={self.max_tokens}: want min_tokens <= max_tokens"
            )
        if self.n > 1 and self.is_greedy:
            raise InvalidInputError(
                f"n={self.n} contradicts temperature={self.temperature}: greedy outputs are all the same; want n=1 or "
                "a temperature from 1e-5 on"
            )
        forbidden = {token_id for token_id, bias in (self.logit_bias or {}).items() if bias == float("-inf")}
        if self.allowed_token_ids is not None and forbidden.issuperset(self.allowed_token_ids):
            raise InvalidInputError("allowed_token_ids contradicts logit_bias, which forbids every one of them")

    @property
    def is_greedy(self) -> bool:
        """Whether the argmax is taken instead of a draw."""
        return self.temperature < GREEDY_BELOW

    @property
    def has_penalties(self) -> bool:
        """Whether a penalty changes any logit."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def wants_logprobs(self) -> bool:
        """Whether anything is reported beside the tokens of the output."""
        return self.logprobs is not None or bool(self.logprob_token_ids)


def check_with_constraint(params: SamplingParams) -> None:
    """What a constraint rules out: ``InvalidInputError`` for fields that would end its text early or never."""
    if params.ignore_eos:
        raise InvalidInputError(
            "ignore_eos=True contradicts the constraint, whose end is a stop token: leave out one of the two"
        )
    if params.stop:
        raise InvalidInputError(
            f"stop={params.stop!r} contradicts the constraint, which says itself where the text ends: leave out one of "
            "the two, or say the end in the constraint"
        )
