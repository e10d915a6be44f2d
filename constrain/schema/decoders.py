"""From a finished text to the value: parsed, and validated against what was enforced."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from constrain.errors import InvalidValueError
from constrain.grammar_spec import GrammarSpec
from constrain.schema.functions import Complete
from constrain.schema.matching import MatchTimeoutError, fullmatches
from constrain.schema.validate import read_value, validator_for


class SpecDecoder(Protocol):
    """A decoder that validates, and so must know what its backend has enforced."""

    grammar_spec: GrammarSpec

    def __call__(self, text: str) -> Any: ...

    def enforcing(self, grammar_spec: GrammarSpec) -> Callable[[str], Any]:
        """The decoder for what is left of its spec after keywords were ignored."""
        ...


@dataclass(frozen=True, slots=True)
class PlainDecoder:
    """Plain data of a JSON text; other texts as they are."""

    grammar_spec: GrammarSpec

    def enforcing(self, grammar_spec: GrammarSpec) -> "PlainDecoder":
        """As ``SpecDecoder`` says."""
        return PlainDecoder(grammar_spec)

    def __call__(self, text: str) -> Any:
        spec = self.grammar_spec
        if spec.kind in ("json_schema", "json_object"):
            _check(spec, text)
            return read_value(text)
        if spec.kind == "choice" and text not in read_value(spec.text):
            raise InvalidValueError(f"constrain let {text!r:.200} through, none of the choices: a bug of constrain")
        if spec.kind == "regex":
            _check_regex(spec, text)
        return text


@dataclass(frozen=True, slots=True)
class TypeDecoder:
    """An instance of the type of ``adapter``; ``name`` stands for it in errors."""

    grammar_spec: GrammarSpec
    adapter: TypeAdapter[Any]
    name: str
    complete: Complete | None = None

    def enforcing(self, grammar_spec: GrammarSpec) -> "TypeDecoder":
        """As ``SpecDecoder`` says."""
        return replace(self, grammar_spec=grammar_spec)

    def __call__(self, text: str) -> Any:
        _check(self.grammar_spec, text)
        try:
            value = self.adapter.validate_json(text)
        except ValidationError as exc:
            raise InvalidValueError(
                f"the output follows the JSON schema of {self.name}, but a rule of the type itself, which no schema "
                f"says, refuses it: {exc}"
            ) from exc
        return value if self.complete is None else self.complete(value)


def _check_regex(grammar_spec: GrammarSpec, text: str) -> None:
    try:
        matches = fullmatches(grammar_spec.text, text)
    except MatchTimeoutError as exc:
        raise InvalidValueError(f"the output follows the constraint, but cannot be validated again: {exc}") from exc
    if not matches:
        raise InvalidValueError(f"constrain let {text!r:.200} through against {grammar_spec!r}: a bug of constrain")


def _check(grammar_spec: GrammarSpec, text: str) -> None:
    validator_for(grammar_spec.text or '{"type":"object"}', grammar_spec.assert_formats).check(text)
