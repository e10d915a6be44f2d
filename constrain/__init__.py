"""Make a language model's output exactly what was asked for.

Importing this is light: backends, transformers and pydantic are loaded by the first call that needs them.
"""

from typing import TYPE_CHECKING, Any

from constrain.asynchronous import AsyncStream, agenerate, astream
from constrain.backend import Backend
from constrain.bitmask import TokenBitmask
from constrain.compiler import GrammarCompiler
from constrain.engine import Engine
from constrain.errors import (
    BackendError,
    ClosedError,
    ConstrainError,
    DeadEndError,
    InvalidGrammarError,
    InvalidInputError,
    InvalidPromptError,
    InvalidSchemaError,
    InvalidValueError,
    LimitExceededError,
    NonFiniteLogitsError,
    ProcessorError,
    SourceError,
    UnsatisfiableGrammarError,
    Unsupported,
    UnsupportedGrammarError,
    UnsupportedModelError,
    VocabularyError,
)
from constrain.generate import generate
from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import (
    GrammarSpec,
    JsonForm,
    choice,
    ebnf,
    json_object,
    json_schema,
    lark,
    regex,
    structural_tag,
)
from constrain.reasoning.formats import ReasoningFormat
from constrain.reasoning.options import Reasoning
from constrain.request import Request
from constrain.result import GenerationResult, NewTokens, Timings
from constrain.sampling.logprobs import TokenLogprobs
from constrain.sampling.params import SamplingParams
from constrain.sampling.processors import LogitsProcessor
from constrain.source import FunctionSource, HiddenStates, LogitsSource, SequenceView
from constrain.spec.draft import Draft, Proposer
from constrain.spec.statistics import SpecStatistics
from constrain.stream import Stream, stream
from constrain.stream_pieces import StreamEvent
from constrain.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrain.backends import make_backend
    from constrain.hf import ConstrainedLogitsProcessor, TransformersSource
    from constrain.inspect import inspect_schema
    from constrain.schema import Constraint, as_constraint, as_grammar_spec
    from constrain.tools import ToolCall, ToolOutput, Tools

__version__ = "0.1.0"

__all__ = [
    "AsyncStream",
    "Backend",
    "BackendError",
    "ClosedError",
    "CompiledGrammar",
    "ConstrainError",
    "ConstrainedLogitsProcessor",
    "Constraint",
    "DeadEndError",
    "Draft",
    "Engine",
    "FunctionSource",
    "GenerationResult",
    "Grammar",
    "GrammarCompiler",
    "GrammarSpec",
    "HiddenStates",
    "InvalidGrammarError",
    "InvalidInputError",
    "InvalidPromptError",
    "InvalidSchemaError",
    "InvalidValueError",
    "JsonForm",
    "LimitExceededError",
    "LogitsProcessor",
    "LogitsSource",
    "NewTokens",
    "NonFiniteLogitsError",
    "ProcessorError",
    "Proposer",
    "Reasoning",
    "ReasoningFormat",
    "Request",
    "RowState",
    "SamplingParams",
    "SequenceView",
    "SourceError",
    "SpecStatistics",
    "Stream",
    "StreamEvent",
    "Timings",
    "TokenBitmask",
    "TokenLogprobs",
    "ToolCall",
    "ToolOutput",
    "Tools",
    "TransformersSource",
    "UnsatisfiableGrammarError",
    "Unsupported",
    "UnsupportedGrammarError",
    "UnsupportedModelError",
    "Vocabulary",
    "VocabularyError",
    "agenerate",
    "as_constraint",
    "as_grammar_spec",
    "astream",
    "choice",
    "ebnf",
    "generate",
    "inspect_schema",
    "json_object",
    "json_schema",
    "lark",
    "make_backend",
    "regex",
    "stream",
    "structural_tag",
]

# Loaded at first use, since each brings in a heavy library.
_LAZY = {
    "ConstrainedLogitsProcessor": "constrain.hf",
    "Constraint": "constrain.schema",
    "ToolCall": "constrain.tools",
    "ToolOutput": "constrain.tools",
    "Tools": "constrain.tools",
    "TransformersSource": "constrain.hf",
    "as_constraint": "constrain.schema",
    "as_grammar_spec": "constrain.schema",
    "inspect_schema": "constrain.inspect",
    "make_backend": "constrain.backends",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'constrain' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
