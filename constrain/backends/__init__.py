"""The grammar libraries, each behind its own file, imported when it is first asked for."""

from importlib import import_module

from constrain.backend import Backend
from constrain.errors import InvalidInputError
from constrain.vocabulary import Vocabulary

_HOMES = {
    "auto": ("constrain.backends.auto", "AutoBackend"),
    "llguidance": ("constrain.backends.llguidance", "LLGuidanceBackend"),
    "xgrammar": ("constrain.backends.xgrammar", "XGrammarBackend"),
    "trie": ("constrain.backends.trie", "TrieBackend"),
    "outlines": ("constrain.backends.outlines", "OutlinesBackend"),
    "lm-format-enforcer": ("constrain.backends.lm_format_enforcer", "LMFormatEnforcerBackend"),
}

BACKEND_NAMES = tuple(_HOMES)


def make_backend(name: str, vocabulary: Vocabulary) -> Backend:
    """The backend called ``name`` for ``vocabulary``. Raises ``InvalidInputError`` for a name that is none."""
    if not isinstance(name, str) or name not in _HOMES:
        raise InvalidInputError(f"no backend is called {name!r}; choose one of {', '.join(BACKEND_NAMES)}")
    module, class_name = _HOMES[name]
    backend: Backend = getattr(import_module(module), class_name)(vocabulary)
    return backend
