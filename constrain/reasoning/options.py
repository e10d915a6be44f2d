"""What a request asks of thinking."""

from dataclasses import dataclass
from numbers import Integral

from constrain.errors import InvalidInputError
from constrain.reasoning.formats import FORMATS, ReasoningFormat, check_text, checked_texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """Thinking before the content of an output.

    parser:
        How the model's family marks thinking: ``"think"`` (also ``"qwen3"``), ``"deepseek_r1"`` (thinking is open even
        where no start marker is), ``"harmony"`` (also ``"gpt_oss"``), ``"mistral"``; ``"auto"`` goes by the tokens of
        the vocabulary; or a :class:`ReasoningFormat` of your own.
    required:
        Whether thinking must come first, where the prompt does not open it. Optional, both an output with thinking and
        the bare content are legal.
    budget:
        The most tokens of thinking; then the closing sequence is written. 0 closes at once, None is no limit. Counted
        are the output's tokens behind the start marker, without the closing sequence.
    budget_phrase:
        A text that is written before the closing marker when the budget is spent; it belongs to thinking.
    in_reasoning:
        The constraint holds from the first token on, and markers mean nothing. Goes with no other field.
    end_markers:
        Texts that end thinking, too. Like the end marker they belong neither to thinking nor to content: the
        constraint, if any, holds behind them.
    content_starts:
        Texts that end thinking and begin the content, such as ``"<tool_call>"`` before a call: the constraint, if any,
        takes them as its own first text, and must allow them there.
    """

    parser: str | ReasoningFormat = "auto"
    required: bool = False
    budget: int | None = None
    budget_phrase: str = ""
    in_reasoning: bool = False
    end_markers: tuple[str, ...] = ()
    content_starts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.parser, ReasoningFormat) and self.parser not in (*FORMATS, "auto"):
            raise InvalidInputError(
                f"parser={self.parser!r}: want one of {', '.join([*FORMATS, 'auto'])}, or a ReasoningFormat"
            )
        for name in ("required", "in_reasoning"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInputError(f"{name}={getattr(self, name)!r}: want True or False")
        budget = self.budget
        if budget is not None and (not isinstance(budget, Integral) or isinstance(budget, bool) or budget < 0):
            raise InvalidInputError(f"budget={budget!r}: want a number of tokens from 0 on, or None for no limit")
        check_text("budget_phrase", self.budget_phrase)
        if self.budget_phrase and budget is None:
            raise InvalidInputError("budget_phrase is written when a budget is spent: give budget=, too")
        self._check_end_markers()
        if self.in_reasoning and (self.required or budget is not None or self.end_markers or self.content_starts):
            raise InvalidInputError("in_reasoning=True constrains thinking itself: no budget, no markers go with it")

    def _check_end_markers(self) -> None:
        for name in ("end_markers", "content_starts"):
            object.__setattr__(self, name, checked_texts(name, getattr(self, name)))
        both = sorted(set(self.end_markers) & set(self.content_starts))
        if both:
            raise InvalidInputError(
                f"{both[0]!r} is in end_markers and in content_starts: is it content's, or nobody's?"
            )
