"""What a backend made of a spec, and says of itself."""

from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.vocabulary import Vocabulary


class CompiledAsAsked(CompiledGrammar):
    """The answer of the backend ``backend_name`` to the very spec that it was given."""

    def __init__(self, grammar_spec: GrammarSpec, vocabulary: Vocabulary, backend_name: str) -> None:
        self._grammar_spec = grammar_spec
        self._vocabulary = vocabulary
        self._backend_name = backend_name

    @property
    def grammar_spec(self) -> GrammarSpec:
        return self._grammar_spec

    @property
    def vocabulary(self) -> Vocabulary:
        return self._vocabulary

    @property
    def backend_name(self) -> str:
        return self._backend_name
