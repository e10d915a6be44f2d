"""A grammar with the checks of a schema: what guides a model, and what alone decides validity."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Self

import numpy as np
import torch

from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import GrammarSpec
from constrain.schema.contents import contents_of
from constrain.schema.evaluation import ANY_CHARACTER, Evaluator, Mode, Program, Ranges
from constrain.schema.known import Known
from constrain.schema.refusals import Refusals
from constrain.schema.token_table import Words, token_table
from constrain.vocabulary import Vocabulary


class CheckedCompiled(CompiledGrammar):
    """``base``, which takes whatever is valid under a schema and maybe more, with the checks of ``program``.

    ``escapes``: the characters that ``base`` lets be written with a backslash.
    """

    def __init__(
        self,
        base: CompiledGrammar,
        program: Program,
        grammar_spec: GrammarSpec,
        reason: str,
        *,
        escapes: Ranges = ANY_CHARACTER,
    ) -> None:
        self._base, self._program, self._escapes = base, program, escapes
        self._grammar_spec, self._reason = grammar_spec, reason
        self._known: Known[Words] = Known()
        # While compiling, and not at the first step.
        contents_of(base.vocabulary).prepare(program.automata[:_MAX_PREPARED], escapes)

    @property
    def grammar_spec(self) -> GrammarSpec:
        return self._grammar_spec

    @property
    def vocabulary(self) -> Vocabulary:
        return self._base.vocabulary

    @property
    def backend_name(self) -> str:
        return f"{self._base.backend_name}+checks"

    @property
    def backend_reason(self) -> str:
        return self._reason

    def start(self) -> "CheckedGrammar":
        return CheckedGrammar(self._base.start(), Evaluator(self._program, self._escapes), self.vocabulary, self._known)


class CheckedGrammar(Grammar):
    """The conjunction of a loose grammar and an evaluator of the whole schema over the same bytes.

    A token is legal if both take it. For a mask, only tokens are tried that can complete or decide something.
    """

    def __init__(self, base: Grammar, evaluator: Evaluator, vocabulary: Vocabulary, known: Known[Words]) -> None:
        self._base, self._evaluator, self._vocabulary = base, evaluator, vocabulary
        self._table, self._known = token_table(vocabulary), known
        self._refusals = Refusals(evaluator, vocabulary, known)
        self._ids: list[int] = []  # the tokens of text
        self._marks: list[int] = []  # the evaluator's before each of them
        self._offsets: list[int] = [0]  # the bytes before each of them and before the next
        self._num_unmarked = 0  # how many of the marks mean nothing, since they are another evaluator's

    @property
    def num_accepted(self) -> int:
        return self._base.num_accepted

    @property
    def is_terminated(self) -> bool:
        return self._base.is_terminated

    def accept(self, token_ids: Sequence[int]) -> int:
        for count, token_id in enumerate(token_ids):
            if not self._accept_one(token_id):
                return count
        return len(token_ids)

    def validate(self, token_ids: Sequence[int]) -> int:
        count = self._base.validate(token_ids)
        evaluator, table = self._evaluator, self._table
        mark = evaluator.mark()
        for index, token_id in enumerate(token_ids[:count]):
            taken = evaluator.can_end() if token_id in table.stop_ids else evaluator.feed(table.tokens[token_id])
            if not taken:
                count = index
                break
        evaluator.undo(mark)
        return count

    def rollback(self, num_tokens: int) -> None:
        num_stops = int(self._base.is_terminated)
        self._base.rollback(num_tokens)
        if num_tokens > num_stops:
            self._rollback_text(len(self._ids) - (num_tokens - num_stops))

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> RowState:
        state = self._base.fill_bitmask(bitmask, row)
        if state is RowState.DEAD_END or self._base.is_terminated:
            return state
        words: Words = bitmask.numpy()[row].view(np.uint32)
        stops = self._table.stops
        may_end = self._evaluator.mode in _MAY_END and bool((words & stops).any())
        text = words & ~stops if may_end else words
        allowed = self._refusals.allowed(text, len(self._ids))
        if may_end and not self._evaluator.can_end():
            words &= ~stops
        elif allowed is None:
            return RowState.CONSTRAINED
        if allowed is not None:
            words &= allowed
        return RowState.CONSTRAINED if np.count_nonzero(words) else RowState.DEAD_END

    def forced_tokens(self) -> list[int]:
        proposal = self._base.forced_tokens()
        return proposal[: self.validate(proposal)]

    def reset(self) -> None:
        self._base.reset()
        self._rollback_text(0)

    def fork(self) -> Self:
        twin = type(self).__new__(type(self))
        twin._base, twin._evaluator = self._base.fork(), self._evaluator.fork()
        twin._vocabulary, twin._table = self._vocabulary, self._table
        twin._ids, twin._marks, twin._offsets = self._ids.copy(), self._marks.copy(), self._offsets.copy()
        twin._known, twin._num_unmarked = self._known, len(self._ids)
        twin._refusals = Refusals(twin._evaluator, twin._vocabulary, twin._known)
        return twin

    def value_starts(self) -> list[int]:
        # Names count, too. A token that begins a value may hold more: it goes back as a whole.
        starts = (bisect_right(self._offsets, start) - 1 for start in sorted(self._evaluator.value_starts()))
        return list(dict.fromkeys(starts))

    def _accept_one(self, token_id: int) -> bool:
        base, evaluator = self._base, self._evaluator
        if not base.accept([token_id]):
            return False
        if base.is_terminated:
            taken = evaluator.can_end()
        else:
            mark = evaluator.mark()
            taken = evaluator.feed(self._table.tokens[token_id])
            if taken:
                self._ids.append(token_id)
                self._marks.append(mark)
                self._offsets.append(evaluator.offset)
            else:
                evaluator.undo(mark)
        if not taken:
            base.rollback(1)
        return taken

    def _rollback_text(self, length: int) -> None:
        """Keep ``length`` tokens of text."""
        if length < self._num_unmarked:
            self._evaluator, self._marks, self._num_unmarked = self._evaluator.fresh(), [], 0
            self._refusals = Refusals(self._evaluator, self._vocabulary, self._known)
            for token_id in self._ids[:length]:
                self._marks.append(self._evaluator.mark())
                self._evaluator.feed(self._table.tokens[token_id])
        elif length < len(self._ids):
            self._evaluator.undo(self._marks[length])
        del self._ids[length:], self._marks[length:], self._offsets[length + 1 :]
        self._refusals.keep(length)


_MAX_PREPARED = 16
_MAY_END = frozenset({Mode.DONE, Mode.IN_NUMBER})
