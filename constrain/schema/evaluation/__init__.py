"""The incremental evaluator: the whole schema over the bytes written so far, true, false or unknown."""

from constrain.schema.evaluation.automaton import Automaton, State
from constrain.schema.evaluation.bounds import ContentBounds, EndBounds
from constrain.schema.evaluation.characters import ANY_CHARACTER, CONTROL_ESCAPES, SHORT_ESCAPES, Ranges
from constrain.schema.evaluation.evaluator import Bears, Evaluator, ScanState, Verdict
from constrain.schema.evaluation.network import NoAutomatonError
from constrain.schema.evaluation.program import Program, compile_program, program_of
from constrain.schema.evaluation.scanner import MAX_DEPTH, Mode
from constrain.schema.evaluation.values import MAX_EXPONENT_DIGITS, MAX_NUMBER_BYTES

__all__ = [
    "ANY_CHARACTER",
    "CONTROL_ESCAPES",
    "MAX_DEPTH",
    "MAX_EXPONENT_DIGITS",
    "MAX_NUMBER_BYTES",
    "SHORT_ESCAPES",
    "Automaton",
    "Bears",
    "ContentBounds",
    "EndBounds",
    "Evaluator",
    "Mode",
    "NoAutomatonError",
    "Program",
    "Ranges",
    "ScanState",
    "State",
    "Verdict",
    "compile_program",
    "program_of",
]
