"""What a processor was asked for: each constraint compiled, and how to read its text."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from constrain.backend import Backend
from constrain.compiler import GrammarCompiler
from constrain.engine.door import as_backend
from constrain.errors import InvalidInputError, VocabularyError
from constrain.grammar import CompiledGrammar
from constrain.output_reader import OutputReader
from constrain.reasoning.compiled import CompiledReasoning, compile_reasoning
from constrain.reasoning.options import Reasoning
from constrain.vocabulary import Vocabulary

_Compiling = Future[CompiledGrammar] | CompiledGrammar | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """The constraint of one prompt, and who reads its outputs."""

    reader: OutputReader
    reasoning: Reasoning | None = None

    @property
    def compiled(self) -> CompiledGrammar | None:
        """None for free text."""
        return self.reader.compiled

    def behind(self, prompt_ids: Sequence[int], vocabulary: Vocabulary) -> "Wanted":
        """The same behind one prompt, which says whether thinking is open there."""
        if self.reasoning is None:
            return self
        compiled = compile_reasoning(self.compiled, vocabulary, self.reasoning, prompt_ids)
        return replace(self, reader=replace(self.reader, compiled=compiled))


class WantedList:
    """Constraints of any kind, compiling from the start. Uses ``compiler``, or one of its own that it closes."""

    def __init__(
        self,
        asked: Sequence[Any],
        vocabulary: Vocabulary | None,
        backend: str | Backend,
        compiler: GrammarCompiler | None,
        reasoning: Reasoning | None = None,
    ) -> None:
        from constrain.schema import as_constraint

        self.vocabulary = _vocabulary(asked, vocabulary, compiler)
        self._own_compiler: GrammarCompiler | None = None
        self._waiting: list[tuple[_Compiling, Callable[[str], Any] | None]] = []
        self._done: list[Wanted] | None = None
        self._reasoning = [reasoning_before(each, reasoning) for each in asked]
        if reasoning is not None and any(isinstance(each, CompiledReasoning) for each in asked):
            raise InvalidInputError("a constraint thinks already (compile_reasoning made it): leave reasoning= out")
        for each in asked:
            if isinstance(each, CompiledGrammar):
                self._waiting.append((each, None))
                continue
            constraint = as_constraint(each)
            if constraint.grammar_spec is None:
                self._waiting.append((None, constraint.decode))
                continue
            if compiler is None:
                compiler = self._own_compiler = GrammarCompiler(as_backend(backend, self.vocabulary))
            self._waiting.append((compiler.submit(constraint.grammar_spec), constraint.decode))

    def wait(self) -> list[Wanted]:
        """The compiled constraints. Raises what compiling raised, at every call."""
        if self._done is None:
            self._done = [
                Wanted(OutputReader(self.vocabulary, _compiled(each), decode), reasoning)
                for (each, decode), reasoning in zip(self._waiting, self._reasoning, strict=True)
            ]
            if self._own_compiler is not None:
                self._own_compiler.close()
        return self._done

    def __len__(self) -> int:
        return len(self._waiting)


def _compiled(each: _Compiling) -> CompiledGrammar | None:
    return each.result() if isinstance(each, Future) else each


def reasoning_before(wanted: Any, reasoning: Reasoning | None) -> Reasoning | None:
    """``reasoning`` as it stands before ``wanted``: tools have a say in how thinking ends."""
    from constrain.tools import Tools

    return wanted.adapted(reasoning) if reasoning is not None and isinstance(wanted, Tools) else reasoning


def _vocabulary(asked: Sequence[Any], vocabulary: Vocabulary | None, compiler: GrammarCompiler | None) -> Vocabulary:
    if vocabulary is None and compiler is not None:
        vocabulary = compiler.backend.vocabulary
    theirs = [each.vocabulary for each in asked if isinstance(each, CompiledGrammar)]
    if vocabulary is None and len(theirs) == len(asked):
        vocabulary = theirs[0]
    if vocabulary is None:
        raise InvalidInputError("pass vocabulary=Vocabulary.from_tokenizer(tokenizer, model=model)")
    if compiler is not None:
        theirs.append(compiler.backend.vocabulary)
    for other in theirs:
        if other is not vocabulary and other.fingerprint != vocabulary.fingerprint:
            raise VocabularyError("a compiled grammar or the compiler is for another vocabulary than this one")
    return vocabulary
