"""A schema that no library enforces by itself: the grammar of a looser one, with the checks that decide."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from constrain.errors import UnsatisfiableGrammarError, Unsupported
from constrain.grammar import CompiledGrammar, RowState
from constrain.grammar_spec import GrammarSpec

if TYPE_CHECKING:
    from constrain.schema.evaluation import Ranges
    from constrain.schema.loosening import LooseSchema

Guide = Callable[[GrammarSpec], "tuple[CompiledGrammar, LooseSchema, Ranges]"]
"""Its grammar, what that follows, and the characters that it lets be written with a backslash."""


@dataclass(frozen=True, slots=True)
class Checked:
    """``compiled``, and the loose schema that guides it."""

    compiled: CompiledGrammar
    loose: "LooseSchema"
    lacking: tuple[Unsupported, ...] = ()
    """What the library itself does not enforce."""

    @property
    def taken_over(self) -> list[Unsupported]:
        """What the checks enforce, and how the grammar guides there."""
        reasons = {item.pointer: f"guides in part: {item.reason}" for item in self.lacking}
        reasons |= {pointer: f"guides as {rule}" for pointer, rule in self.loose.losses.items()}
        reasons |= {pointer: "nothing guides" for pointer in self.loose.dropped}
        return [Unsupported(reason, pointer, pointer.rpartition("/")[2]) for pointer, reason in reasons.items()]


def compile_checked(grammar_spec: GrammarSpec, compile_guide: Guide) -> Checked:
    """The checks of a schema around the grammar that ``compile_guide`` gives.

    Raises ``UnsatisfiableGrammarError`` where no value can be begun, ``UnsupportedGrammarError`` for what cannot be
    checked.
    """
    from constrain.schema.checked import CheckedCompiled
    from constrain.schema.evaluation import compile_program

    program = compile_program(grammar_spec.text, assert_formats=grammar_spec.assert_formats)
    if program.is_unsatisfiable:
        raise _unsatisfiable("no value is valid: the schema is unsatisfiable")
    guide, loose, escapes = compile_guide(grammar_spec)
    reason = f"{guide.backend_name} follows a looser schema, and checks decide: no library enforces all of it"
    compiled = CheckedCompiled(guide, program, grammar_spec, reason, escapes=escapes)
    row = torch.zeros((1, guide.vocabulary.num_mask_words), dtype=torch.int32)
    if compiled.start().fill_bitmask(row, 0) is RowState.DEAD_END:
        raise _unsatisfiable("no value of this schema can be begun: it is unsatisfiable")
    return Checked(compiled, loose)


def _unsatisfiable(reason: str) -> UnsatisfiableGrammarError:
    return UnsatisfiableGrammarError(reason, unsupported=[Unsupported(reason)])
