"""A compiled grammar with thinking before it, behind one prompt."""

from collections.abc import Sequence

from constrain.errors import InvalidInputError, VocabularyError
from constrain.grammar import CompiledGrammar, Grammar
from constrain.grammar_spec import GrammarSpec
from constrain.reasoning.bound import BoundFormat, bind
from constrain.reasoning.free import CompiledFree
from constrain.reasoning.grammar import ReasoningGrammar
from constrain.reasoning.options import Reasoning
from constrain.reasoning.parser import split_all
from constrain.reasoning.prompts import track_of_prompt
from constrain.reasoning.splitter import Split, Splitter
from constrain.reasoning.thinking import Phase, Thinking, Track, phrase_tokens
from constrain.vocabulary import Vocabulary


class CompiledReasoning(CompiledGrammar):
    """Stands wherever a compiled grammar does. What it says of itself is what its content's grammar says."""

    def __init__(self, compiled: CompiledGrammar, thinking: Thinking, begin: Track) -> None:
        self.content = compiled
        self._thinking = thinking
        self._begin = begin

    @property
    def grammar_spec(self) -> GrammarSpec:
        return self.content.grammar_spec

    @property
    def enforced_spec(self) -> GrammarSpec:
        return self.content.enforced_spec

    @property
    def vocabulary(self) -> Vocabulary:
        return self.content.vocabulary

    @property
    def backend_name(self) -> str:
        return self.content.backend_name

    @property
    def backend_reason(self) -> str:
        return self.content.backend_reason

    def start(self) -> Grammar:
        if self._begin.phase is Phase.CONTENT:
            return self.content.start()
        return ReasoningGrammar(self._thinking, self._begin, self.content.start)

    def split(self, token_ids: Sequence[int]) -> Split:
        """An output of this grammar, also an unfinished one, taken apart."""
        return split_all(self.splitter(), token_ids)

    def splitter(self) -> Splitter:
        """One that takes an output apart as it grows."""
        return Splitter(self._thinking, self._begin)


def compile_reasoning(
    compiled: CompiledGrammar | None,
    vocabulary: Vocabulary,
    reasoning: Reasoning,
    prompt_ids: Sequence[int] = (),
) -> CompiledReasoning:
    """``compiled``, or free text where it is None, with thinking before it.

    ``prompt_ids`` say whether thinking is open from the first token, or over already. Cheap: what a vocabulary needs
    for a format is made once.

    Raises ``InvalidInputError`` for an unknown parser, a phrase that ends thinking itself, or a marker in
    ``content_starts`` that ``compiled`` cannot begin with, and ``VocabularyError`` where the vocabulary cannot write a
    marker, or is not that of ``compiled``.
    """
    if not isinstance(reasoning, Reasoning):
        raise InvalidInputError(f"reasoning={reasoning!r}: want Reasoning(...)")
    theirs = vocabulary if compiled is None else compiled.vocabulary
    if theirs is not vocabulary and theirs.fingerprint != vocabulary.fingerprint:
        raise VocabularyError("the compiled grammar is for another vocabulary than this one; compile it anew")
    if compiled is None and reasoning.in_reasoning:
        raise InvalidInputError("in_reasoning=True without a constraint: there is nothing to hold thinking to")
    bound = bind(reasoning.parser, reasoning.end_markers, vocabulary, reasoning.content_starts)
    if compiled is not None:
        _check_content_starts(bound, compiled)
    thinking = Thinking(
        bound,
        required=reasoning.required,
        budget=reasoning.budget,
        phrase_ids=phrase_tokens(bound, reasoning.budget_phrase),
    )
    begin = Track(Phase.CONTENT) if reasoning.in_reasoning else thinking.begin(track_of_prompt(bound, prompt_ids))
    return CompiledReasoning(compiled or _free(vocabulary), thinking, begin)


def _check_content_starts(bound: BoundFormat, compiled: CompiledGrammar) -> None:
    for number, text in enumerate(bound.end_texts):
        marker = bound.end_ids[number]
        if bound.starts_content[number] and compiled.start().validate(marker) < len(marker):
            raise InvalidInputError(
                f"{text!r} begins the content, but the constraint cannot begin with it; give it as one of end_markers, "
                "so that the constraint holds behind it, or leave it out"
            )


def _free(vocabulary: Vocabulary) -> CompiledFree:
    # On the vocabulary itself, since a compiled grammar holds its vocabulary.
    free: CompiledFree = vocabulary.__dict__.setdefault("_constrain_free", None) or CompiledFree(vocabulary)
    vocabulary.__dict__["_constrain_free"] = free
    return free
