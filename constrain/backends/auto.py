"""The backend that picks, for each spec, a library that enforces it."""

import threading
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from constrain.backend import Backend
from constrain.backends import make_backend
from constrain.backends._described import DescribedGrammar
from constrain.errors import UnsatisfiableGrammarError, Unsupported, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrain.backends._checked import Checked

_BOTH = ("llguidance", "xgrammar")
_ORDER = {"ebnf": ("xgrammar",), "lark": ("llguidance",)}


class AutoBackend(Backend):
    """A library that enforces all of a constraint by itself, llguidance first; for the rest of JSON Schema, checks.

    llguidance refuses what it cannot do; xgrammar is asked for what only it reads, and where its list allows. Where
    neither enforces a schema, llguidance follows a looser one, and the evaluator of ``constrain.schema`` decides.
    A library is loaded, and the vocabulary prepared for it, when it is first needed.
    """

    name = "auto"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._lock = threading.Lock()
        self._backends: dict[str, Backend] = {}
        self._checked = lru_cache(maxsize=32)(self._compile_checked)

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        chosen, refusals = self._choose(grammar_spec)
        if chosen is not None or self._with_checks(grammar_spec, refusals) is not None:
            return []
        return _joined(refusals)

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        refusals: dict[str, list[Unsupported]] = {}
        for name in self.order(grammar_spec):
            try:
                compiled = self.library(name).compile(replace(grammar_spec, unsupported="error"))
            except UnsupportedGrammarError as exc:
                refusals[name] = list(exc.unsupported) or [Unsupported(str(exc))]
            else:
                return DescribedGrammar(compiled, grammar_spec, _reason(grammar_spec, refusals))
        checked = self._with_checks(grammar_spec, refusals)
        if checked is not None:
            reason = f"{checked.compiled.backend_reason}; {_message(refusals)}"
            return DescribedGrammar(checked.compiled, grammar_spec, reason)
        if grammar_spec.unsupported == "ignore":
            compiled = self.library(self.order(grammar_spec)[0]).compile(grammar_spec)
            return DescribedGrammar(compiled, grammar_spec, f"no backend enforces all of it; {compiled.backend_reason}")
        raise _refusal(refusals)

    def explain(self, grammar_spec: GrammarSpec) -> tuple[str, str]:
        """The backend that ``compile`` would use, and why. Raises ``UnsupportedGrammarError`` if there is none."""
        chosen, refusals = self._choose(grammar_spec)
        if chosen is not None:
            return chosen, _reason(grammar_spec, refusals)
        checked = self._with_checks(grammar_spec, refusals)
        if checked is not None:
            return checked.compiled.backend_name, f"{checked.compiled.backend_reason}; {_message(refusals)}"
        if grammar_spec.unsupported == "ignore":
            return self.order(grammar_spec)[0], "no backend enforces all of it, and the rest is to be ignored"
        raise _refusal(refusals)

    def checks(self, grammar_spec: GrammarSpec) -> "Checked | None":
        """How ``compile`` would enforce a schema with checks; None where it needs none, or cannot."""
        chosen, refusals = self._choose(grammar_spec)
        checked = self._with_checks(grammar_spec, refusals) if chosen is None else None
        return replace(checked, lacking=tuple(refusals["llguidance"])) if checked is not None else None

    def unchecked(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        """Of a schema that is refused, what not even a check enforces."""
        _, refusals = self._choose(grammar_spec)
        self._with_checks(grammar_spec, refusals)
        return refusals.get("checks") or refusals[self.order(grammar_spec)[0]]

    def _choose(self, grammar_spec: GrammarSpec) -> tuple[str | None, dict[str, list[Unsupported]]]:
        refusals: dict[str, list[Unsupported]] = {}
        for name in self.order(grammar_spec):
            unsupported = self.library(name).unsupported(grammar_spec)
            if not unsupported:
                return name, refusals
            refusals[name] = unsupported
        return None, refusals

    def _with_checks(self, grammar_spec: GrammarSpec, refusals: dict[str, list[Unsupported]]) -> "Checked | None":
        """The schema with its checks; None, with the reasons added to ``refusals``, for what no check enforces.

        Raises ``UnsatisfiableGrammarError``.
        """
        if grammar_spec.kind != "json_schema":
            return None
        try:
            return self._checked(replace(grammar_spec, unsupported="error"))
        except UnsatisfiableGrammarError:
            raise
        except UnsupportedGrammarError as exc:
            refusals["checks"] = list(exc.unsupported) or [Unsupported(str(exc))]
            return None

    def _compile_checked(self, grammar_spec: GrammarSpec) -> "Checked":
        from constrain.backends._checked import compile_checked
        from constrain.backends.llguidance import LLGuidanceBackend

        library = self.library(LLGuidanceBackend.name)
        assert isinstance(library, LLGuidanceBackend)
        return compile_checked(grammar_spec, library.compile_guide)

    @staticmethod
    def order(grammar_spec: GrammarSpec) -> tuple[str, ...]:
        """The names of the backends that are asked, in this order."""
        return _ORDER.get(grammar_spec.kind, _BOTH)

    def library(self, name: str) -> Backend:
        """The backend called ``name``, made when it is first needed."""
        with self._lock:
            if name not in self._backends:
                self._backends[name] = make_backend(name, self.vocabulary)
            return self._backends[name]


def _reason(grammar_spec: GrammarSpec, refusals: dict[str, list[Unsupported]]) -> str:
    if not refusals:
        return f"the first choice for {grammar_spec.kind}, and it enforces all of it"
    return f"it enforces all of it; {_message(refusals)}"


def _refusal(refusals: dict[str, list[Unsupported]]) -> UnsupportedGrammarError:
    message = f"no backend enforces this constraint: {_message(refusals)}"
    return UnsupportedGrammarError(message, unsupported=_joined(refusals))


def _message(refusals: dict[str, list[Unsupported]]) -> str:
    return "; ".join(f"{name} cannot: {', '.join(map(str, items))}" for name, items in refusals.items())


def _joined(refusals: dict[str, list[Unsupported]]) -> list[Unsupported]:
    return [
        Unsupported(f"{name}: {item.reason}", item.pointer, item.keyword)
        for name, items in refusals.items()
        for item in items
    ]
