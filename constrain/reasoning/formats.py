"""How the families of models in use write their thinking."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from constrain.errors import InvalidInputError
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningFormat:
    """The markers around the thinking of one family, as texts.

    Where a part of a text is the name of a special token of the vocabulary, that part is its id and nothing else;
    the rest is bytes, in whatever tokens they come. So one format serves a model that has ``<think>`` as a special
    token, and one that spells it.

    start, end:
        What stands before and behind thinking.
    after_end:
        White space that may stand behind ``end``, as a whole, a beginning of it, or not at all. It belongs neither to
        thinking nor to content.
    closing:
        What is written to end thinking; ``end`` itself, or a text that ends with it.
    skip:
        What stands before content where there was no thinking.
    implicit_start:
        Thinking is open from the first token, also where the start marker is nowhere.
    turns:
        Texts that begin a message of a conversation. What stands before the last one says nothing about the output.
        Special tokens that the format does not name always do that.
    content_starts:
        Texts that end thinking, too, and begin the content, as a tool call does: the content's constraint takes them as
        its own first text. ``end`` may be one of them.
    headers:
        Special tokens between which text is no thinking: ``(those that begin a header, those that end it)``.
    needs:
        Special tokens without which the vocabulary is not of this family.
    """

    start: str
    end: str
    after_end: str = ""
    closing: str = ""
    skip: str = ""
    implicit_start: bool = False
    turns: tuple[str, ...] = ()
    content_starts: tuple[str, ...] = ()
    headers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("start", "end", "after_end", "closing", "skip"):
            check_text(f"{name} of a ReasoningFormat", getattr(self, name))
        for name in ("turns", "content_starts", "needs"):
            object.__setattr__(self, name, checked_texts(name, getattr(self, name)))
        if not isinstance(self.headers, Sequence) or isinstance(self.headers, str) or len(self.headers) != 2:
            raise InvalidInputError(f"headers={self.headers!r}: want two tuples of texts")
        begins, ends = (checked_texts("headers", each) for each in self.headers)
        object.__setattr__(self, "headers", (begins, ends))
        if not self.end:
            raise InvalidInputError("a ReasoningFormat without an end: thinking would never be over; give end=")
        if not self.start and not self.implicit_start:
            raise InvalidInputError("a ReasoningFormat without a start: give start=, or implicit_start=True")
        if self.skip and self.start and (self.skip.startswith(self.start) or self.start.startswith(self.skip)):
            raise InvalidInputError(f"skip={self.skip!r} and start={self.start!r}: one must not begin with the other")
        if self.closing and not self.closing.endswith(self.end):
            raise InvalidInputError(f"closing={self.closing!r} does not end with end={self.end!r}")

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text whose special tokens belong to thinking."""
        return (
            self.start, self.end, self.closing, self.skip, *self.content_starts, *self.headers[0], *self.headers[1]
        )  # fmt: skip


def check_text(what: str, text: object) -> None:
    """Raise ``InvalidInputError`` unless ``text`` is a str that can be encoded."""
    if not isinstance(text, str):
        raise InvalidInputError(f"{what} is a str, not {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise InvalidInputError(f"{what} holds half of a surrogate pair, which no token writes: {text!r}") from exc


def checked_texts(what: str, texts: object) -> tuple[str, ...]:
    """``texts`` as a tuple; ``InvalidInputError`` unless it is a sequence of texts, none of them empty."""
    if not isinstance(texts, Sequence) or isinstance(texts, str) or not all(isinstance(each, str) for each in texts):
        raise InvalidInputError(f"{what}={texts!r}: want a tuple of texts")
    for each in texts:
        check_text(f"one of {what}", each)
    if "" in texts:
        raise InvalidInputError(f"{what}={texts!r}: want texts of which none is empty")
    return tuple(texts)


# To DeepSeek's tokenizers the roles are ordinary tokens; in other families they are special.
THINK = ReasoningFormat(start="<think>", end="</think>", after_end="\n\n", turns=("<｜User｜>", "<｜Assistant｜>"))
DEEPSEEK_R1 = replace(THINK, implicit_start=True)
MISTRAL = ReasoningFormat(start="[THINK]", end="[/THINK]")
# A message is <|start|>role<|channel|>channel<|message|>text<|end|>; a prompt ends with <|start|>assistant. Whatever
# comes before the final channel, several messages included, is thinking.
HARMONY = ReasoningFormat(
    start="<|channel|>analysis<|message|>",
    end="<|channel|>final<|message|>",
    closing="<|end|><|start|>assistant<|channel|>final<|message|>",
    skip="<|channel|>final<|message|>",
    turns=("<|start|>",),
    headers=(("<|start|>", "<|channel|>"), ("<|message|>",)),
    needs=("<|start|>", "<|end|>", "<|channel|>", "<|message|>"),
)
# Where tools hold the content, what marks a message is a part of it: the final channel's marker, or a call's.
HARMONY_TOOLS = replace(HARMONY, skip="", content_starts=("<|channel|>final<|message|>", "<|channel|>commentary to"))
# The same where only calls are wanted.
HARMONY_CALLS = replace(
    HARMONY,
    end="<|channel|>commentary to",
    closing="<|end|><|start|>assistant<|channel|>commentary to",
    skip="",
    content_starts=("<|channel|>commentary to",),
)

FORMATS = {
    "think": THINK,
    "qwen3": THINK,
    "deepseek_r1": DEEPSEEK_R1,
    "harmony": HARMONY,
    "gpt_oss": HARMONY,
    "mistral": MISTRAL,
}
"""The formats by name. ``"auto"`` besides picks one by the tokens of the vocabulary."""


def format_of(parser: str | ReasoningFormat, vocabulary: Vocabulary) -> ReasoningFormat:
    """The format called ``parser``; a format is itself. Raises ``InvalidInputError`` for an unknown name."""
    if isinstance(parser, ReasoningFormat):
        return parser
    if parser == "auto":
        return _found_in(vocabulary)
    if not isinstance(parser, str) or parser not in FORMATS:
        raise InvalidInputError(
            f"no reasoning parser is called {parser!r}; choose one of {', '.join([*FORMATS, 'auto'])}, or pass "
            "ReasoningFormat(start=..., end=...)"
        )
    return FORMATS[parser]


def _found_in(vocabulary: Vocabulary) -> ReasoningFormat:
    """The format whose markers are tokens of the vocabulary, special or not."""
    if all(name in vocabulary.special_tokens for name in HARMONY.needs):
        return HARMONY
    for found in (MISTRAL, THINK):
        if found.end in vocabulary.special_tokens or found.end.encode() in vocabulary.token_bytes:
            return found
    raise InvalidInputError(
        f"parser='auto': none of {MISTRAL.end!r}, {THINK.end!r} and Harmony's special tokens is a token of this "
        f"vocabulary; name the parser ({', '.join(FORMATS)}) or pass ReasoningFormat(start=..., end=...)"
    )
