"""Thinking before content: reading it, bounding it, and grammars around it."""

from constrain.reasoning.compiled import CompiledReasoning, compile_reasoning
from constrain.reasoning.formats import FORMATS, ReasoningFormat
from constrain.reasoning.free import CompiledFree
from constrain.reasoning.grammar import ReasoningGrammar
from constrain.reasoning.options import Reasoning
from constrain.reasoning.parser import ReasoningParser, parser_for
from constrain.reasoning.splitter import Split, SplitPiece, Splitter

__all__ = [
    "FORMATS",
    "CompiledFree",
    "CompiledReasoning",
    "Reasoning",
    "ReasoningFormat",
    "ReasoningGrammar",
    "ReasoningParser",
    "Split",
    "SplitPiece",
    "Splitter",
    "compile_reasoning",
    "parser_for",
]
