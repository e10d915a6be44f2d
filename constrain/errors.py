"""The exceptions of constrain.

Everything that the library raises on purpose derives from :class:`ConstrainError`. A caller's mistake is also a
``ValueError``, so that code which knows nothing of this tree still catches it. What goes wrong for one request of a
batch is not raised: it stands in that request's :class:`~constrain.result.GenerationResult` as ``error``.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ConstrainError(Exception):
    """The root of the tree."""


class InvalidInputError(ConstrainError, ValueError):
    """What the caller gave cannot be used; the message says what came, what was wanted and what to do."""


class InvalidGrammarError(InvalidInputError):
    """A constraint that means nothing: text that does not parse, an empty choice, a type without a schema.

    ``position`` is the offset of the fault in the text of the constraint, in characters, where it is known.
    """

    def __init__(self, message: str, *, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


class InvalidSchemaError(InvalidGrammarError):
    """A document that is no JSON Schema, or whose references lead nowhere.

    ``pointer`` is the JSON pointer (RFC 6901) of the fault inside the schema; ``""`` is the root.
    """

    def __init__(self, message: str, *, pointer: str = "", position: int | None = None) -> None:
        super().__init__(message, position=position)
        self.pointer = pointer


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One part of a constraint that a backend cannot enforce.

    ``pointer`` is a JSON pointer for a schema, and ``""`` where the constraint has no inner places.
    """

    reason: str
    pointer: str = ""
    keyword: str | None = None

    def __str__(self) -> str:
        place = f"at {self.pointer or '/'}: " if self.keyword is not None or self.pointer else ""
        return f"{place}{self.reason}"


class UnsupportedGrammarError(InvalidInputError):
    """A constraint that makes sense but that no chosen backend enforces; ``unsupported`` lists every part."""

    def __init__(self, message: str, *, unsupported: Sequence[Unsupported] = ()) -> None:
        super().__init__(message)
        self.unsupported = tuple(unsupported)


class UnsatisfiableGrammarError(UnsupportedGrammarError):
    """A constraint that no text meets: there is no first token."""


class LimitExceededError(InvalidInputError):
    """A constraint, a prompt or a batch larger than the limit that the message names."""


class VocabularyError(InvalidInputError):
    """A vocabulary that contradicts itself, its tokenizer or the model's logits."""


class UnsupportedModelError(InvalidInputError):
    """A model that cannot do what is asked of it: its cache cannot be rolled back, or its attention takes no mask."""


class InvalidPromptError(InvalidInputError):
    """A prompt that is empty, holds ids outside the vocabulary, or leaves no room in the context."""


class BackendError(ConstrainError):
    """A grammar library failed in a way that its adapter does not know; the cause is attached."""


class ClosedError(ConstrainError):
    """A compiler or an engine was used after ``close()``."""


class SourceError(ConstrainError):
    """A logits source raised, or returned something other than the rows that it was asked for."""


class NonFiniteLogitsError(SourceError):
    """A row of logits held NaN or +inf, so that nothing could be drawn from it."""


class ProcessorError(ConstrainError):
    """A logits processor raised, or returned something other than logits; the cause is attached."""


class DeadEndError(ConstrainError):
    """No token of the vocabulary continues the text that the constraint asks for."""


class InvalidValueError(ConstrainError):
    """The finished text did not give the value that was asked for.

    Either a validator of the caller's own type refused it (a rule that no schema can say), or constrain let through a
    text that breaks the constraint, which is a bug of ours: the message says which.
    """
