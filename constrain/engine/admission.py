"""From a compiled constraint to the grammar that a request runs with."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import replace

from constrain.engine.active import ActiveRequest
from constrain.errors import ClosedError
from constrain.grammar import CompiledGrammar
from constrain.reasoning.compiled import compile_reasoning
from constrain.vocabulary import Vocabulary


def wait_for_a_grammar(waiting: Sequence[ActiveRequest]) -> None:
    """Where all of ``waiting`` wait for their compile: until the first is done, or overdue."""
    compiling = [each.compiling for each in waiting if each.compiling is not None]
    if compiling and len(compiling) == len(waiting):
        patience = min(each.deadline for each in waiting) - time.perf_counter()
        wait(compiling, min(max(patience, 0.0), threading.TIMEOUT_MAX), FIRST_COMPLETED)


def start_grammar(sequence: ActiveRequest, vocabulary: Vocabulary) -> None:
    """Give ``sequence`` its grammar, thinking around it; raises what the compile raised."""
    compiled = None if sequence.compiling is None else _compiled(sequence.compiling)
    if compiled is not None:
        sequence.backend = compiled.backend_name
        sequence.backend_reason = compiled.backend_reason
    if sequence.request.reasoning is not None:
        compiled = compile_reasoning(compiled, vocabulary, sequence.request.reasoning, sequence.prompt_ids)
    if compiled is not None:
        sequence.reader = replace(sequence.reader, compiled=compiled)
        sequence.grammar = compiled.start()
    if sequence.stop_strings is not None:
        sequence.text_reader = sequence.reader.text_reader()


def _compiled(compiling: Future[CompiledGrammar]) -> CompiledGrammar:
    try:
        return compiling.result()
    except CancelledError as exc:
        raise ClosedError("the compile of this constraint was cancelled") from exc
