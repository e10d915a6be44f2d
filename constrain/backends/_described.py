"""A compiled grammar under the name of what was asked, where that is not what the library was given."""

from dataclasses import replace

from constrain.backend import Backend
from constrain.backends._json_schema import enforceable
from constrain.grammar import CompiledGrammar, Grammar
from constrain.grammar_spec import GrammarSpec
from constrain.vocabulary import Vocabulary


class DescribedGrammar(CompiledGrammar):
    """``compiled``, as the answer to ``grammar_spec``, with the reason why its backend was chosen."""

    def __init__(self, compiled: CompiledGrammar, grammar_spec: GrammarSpec, reason: str) -> None:
        self._compiled = compiled
        self._grammar_spec = grammar_spec
        self._reason = reason

    @property
    def grammar_spec(self) -> GrammarSpec:
        return self._grammar_spec

    @property
    def enforced_spec(self) -> GrammarSpec:
        return self._compiled.enforced_spec

    @property
    def vocabulary(self) -> Vocabulary:
        return self._compiled.vocabulary

    @property
    def backend_name(self) -> str:
        return self._compiled.backend_name

    @property
    def backend_reason(self) -> str:
        return self._reason

    def start(self) -> Grammar:
        return self._compiled.start()


def compile_without(backend: Backend, grammar_spec: GrammarSpec) -> CompiledGrammar:
    """Compile what ``backend`` can enforce of a spec with ``unsupported="ignore"``."""
    if grammar_spec.kind != "json_schema":
        compiled = backend.compile(replace(grammar_spec, unsupported="error"))
        return DescribedGrammar(compiled, grammar_spec, compiled.backend_reason)
    strict, ignored = enforceable(grammar_spec, backend)
    compiled = backend.compile(strict)
    listed = "; ".join(map(str, ignored))
    reason = f"{compiled.backend_reason}; ignored, as asked: {listed}" if ignored else compiled.backend_reason
    return DescribedGrammar(compiled, grammar_spec, reason)
