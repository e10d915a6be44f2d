"""What a grammar library must do to serve constrain."""

from abc import ABC, abstractmethod

from constrain.errors import Unsupported, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.vocabulary import Vocabulary


class Backend(ABC):
    """Compiles specs for one vocabulary, and says what it cannot enforce. Safe to use from several threads."""

    name: str

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @abstractmethod
    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        """The parts of ``grammar_spec`` that this backend does not enforce exactly; empty if it enforces it all.

        Cheap beside generating, and conservative: an empty list is a promise, a non-empty one may be too careful.
        Raises :class:`~constrain.errors.InvalidGrammarError` for a text that only the library can find malformed.
        """

    @abstractmethod
    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        """Compile ``grammar_spec``.

        Raises :class:`~constrain.errors.UnsupportedGrammarError` for what the backend cannot enforce,
        :class:`~constrain.errors.InvalidGrammarError` for what does not parse, and
        :class:`~constrain.errors.BackendError` where the library fails in an unknown way.
        """

    def require_supported(self, grammar_spec: GrammarSpec) -> None:
        """Raise ``UnsupportedGrammarError`` with every reason unless ``unsupported`` is empty."""
        unsupported = self.unsupported(grammar_spec)
        if unsupported:
            raise unsupported_error(self.name, unsupported)


def unsupported_error(backend_name: str, unsupported: list[Unsupported]) -> UnsupportedGrammarError:
    """The error that names ``backend_name`` and everything that it cannot enforce."""
    reasons = "; ".join(str(item) for item in unsupported)
    return UnsupportedGrammarError(f"{backend_name} cannot enforce this constraint: {reasons}", unsupported=unsupported)
