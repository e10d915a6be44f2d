"""How an output is read: thinking, text and value, out of its token ids."""

import codecs
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from constrain.errors import InvalidValueError
from constrain.grammar import CompiledGrammar
from constrain.reasoning.compiled import CompiledReasoning
from constrain.reasoning.splitter import SplitPiece
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class OutputParts:
    """An output, taken apart.

    reasoning:
        What was thought; None where nothing asked for thinking.
    text:
        What the constraint, if there is one, speaks of. What is no UTF-8 in it is replaced.
    content_start:
        How many tokens come before the text; None where thinking is not over.
    """

    reasoning: str | None
    text: str
    content_start: int | None


class TextReader(Protocol):
    """Reads one output as it grows."""

    def feed(self, token_ids: Iterable[int]) -> SplitPiece:
        """What the next tokens add, in whole characters."""


@dataclass(frozen=True, slots=True)
class OutputReader:
    """Reads the outputs of one constraint, finished or not. Immutable; shared by requests and threads.

    vocabulary:
        Of the model.
    compiled:
        What the outputs are held to; None for free text. Says whether there is thinking, and what was enforced.
    decode:
        From a finished text to its value, as ``Request.decode``; None takes the constraint's own.
    """

    vocabulary: Vocabulary
    compiled: CompiledGrammar | None = None
    decode: Callable[[str], Any] | None = None

    def parts(self, token_ids: Sequence[int]) -> OutputParts:
        """Thinking and text of an output, also of an unfinished one."""
        if isinstance(self.compiled, CompiledReasoning):
            split = self.compiled.split(token_ids)
            return OutputParts(split.reasoning, split.text, split.end_index)
        return OutputParts(None, self.vocabulary.decode(token_ids).decode("utf-8", errors="replace"), 0)

    def text_reader(self) -> TextReader:
        """One that reads an output from its first token on."""
        return self.compiled.splitter() if isinstance(self.compiled, CompiledReasoning) else _Plain(self.vocabulary)

    def value(self, text: str, token_ids: Sequence[int]) -> Any:
        """The value of a finished text, whose tokens are ``token_ids``: special tokens are no part of a text, and some
        decoders need them. Raises ``InvalidValueError`` for whatever the decoder raises.
        """
        decode = self._decoder()
        try:
            decode_tokens = getattr(decode, "decode_tokens", None)  # of constrain.schema.Constraint
            return decode(text) if decode_tokens is None else decode_tokens(token_ids, self.vocabulary)
        except InvalidValueError:
            raise
        except Exception as exc:
            raise InvalidValueError(f"decoding the output raised {type(exc).__name__}: {exc}") from exc

    def _decoder(self) -> Callable[[str], Any]:
        decode, compiled = self.decode, self.compiled
        if compiled is None:
            return str if decode is None else decode
        if decode is None:
            from constrain.schema import as_constraint

            decode = as_constraint(compiled.grammar_spec).decode
        if compiled.enforced_spec != compiled.grammar_spec:  # keywords were ignored: nothing holds a value to them
            enforcing = getattr(decode, "enforcing", None)  # of constrain.schema.decoders.SpecDecoder
            decode = decode if enforcing is None else enforcing(compiled.enforced_spec)
        return decode


class _Plain:
    """All is text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token_ids: Iterable[int]) -> SplitPiece:
        return SplitPiece("", self._decoder.decode(self._vocabulary.decode(token_ids)))
