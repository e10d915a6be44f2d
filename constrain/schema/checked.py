"""A grammar with the checks of a schema: what guides a model, and what alone decides validity."""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Self

import numpy as np
import torch

from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import GrammarSpec
from constrain.schema.contents import plain_tokens
from constrain.schema.evaluation import ANY_CHARACTER, Bears, Evaluator, Mode, Program, Ranges
from constrain.schema.token_table import Words, one_of, token_table, words_of
from constrain.schema.trials import refused_by_tail, refused_of
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
        self._contents = _Known()
        token_table(base.vocabulary), plain_tokens(base.vocabulary)  # while compiling, and not at the first step

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
        return CheckedGrammar(
            self._base.start(), Evaluator(self._program, self._escapes), self.vocabulary, self._contents
        )


class _Known:
    """For each key the tokens that were tried, and those of them that are refused. Safe to share between threads."""

    def __init__(self) -> None:
        self._rows: dict[Hashable, tuple[Words, Words, list[bool]]] = {}
        self._lock = Lock()  # NumPy lets others in while it writes

    def refused(self, key: Hashable, legal: Words, among: Words, find: Callable[[Words], Words | None]) -> Words | None:
        """Which of ``legal`` and ``among`` are refused, and maybe more; ``among`` is the same each time for ``key``.

        ``find`` is asked of those that are new.
        """
        rows = self._rows.get(key)
        if rows is None:
            rows = among.copy(), np.zeros_like(legal), []
            with self._lock:
                if len(self._rows) >= _MAX_KNOWN:
                    del self._rows[next(iter(self._rows))]
                rows = self._rows.setdefault(key, rows)
        untried, refused, has_refusals = rows
        fresh = legal & untried
        if np.count_nonzero(fresh):
            found = find(fresh)
            with self._lock:
                if found is not None:
                    refused |= found
                    has_refusals.append(True)
                untried &= ~fresh
        return refused if has_refusals else None


@dataclass(slots=True)
class _Verdicts:
    """What is known of the tokens that end one string.

    ``num_text`` is how many tokens were accepted when this was begun: it holds until fewer are left or the string ends.
    """

    start: int
    num_text: int
    known: _Known = field(default_factory=_Known)


class CheckedGrammar(Grammar):
    """The conjunction of a loose grammar and an evaluator of the whole schema over the same bytes.

    A token is legal if both take it. For a mask, only tokens are tried that can complete or decide something.
    """

    def __init__(self, base: Grammar, evaluator: Evaluator, vocabulary: Vocabulary, contents: _Known) -> None:
        self._base, self._evaluator, self._vocabulary = base, evaluator, vocabulary
        self._table, self._contents = token_table(vocabulary), contents
        self._ids: list[int] = []  # the tokens of text
        self._marks: list[int] = []  # the evaluator's before each of them
        self._offsets: list[int] = [0]  # the bytes before each of them and before the next
        self._num_unmarked = 0  # how many of the marks mean nothing, since they are another evaluator's
        self._verdicts: _Verdicts | None = None

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
        refused = self._refused(text)
        if may_end and not self._evaluator.can_end():
            words &= ~stops
        elif refused is None:
            return RowState.CONSTRAINED
        if refused is not None:
            words &= ~refused
        return RowState.CONSTRAINED if words.any() else RowState.DEAD_END

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
        twin._contents = self._contents
        twin._num_unmarked, twin._verdicts = len(self._ids), None
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
            for token_id in self._ids[:length]:
                self._marks.append(self._evaluator.mark())
                self._evaluator.feed(self._table.tokens[token_id])
        elif length < len(self._ids):
            self._evaluator.undo(self._marks[length])
        del self._ids[length:], self._marks[length:], self._offsets[length + 1 :]
        if self._verdicts is not None and length < self._verdicts.num_text:
            self._verdicts = None

    def _refused(self, legal: Words) -> Words | None:
        """Which tokens of ``legal``, the text that the base takes next, are refused; None for none."""
        evaluator, table = self._evaluator, self._table
        if evaluator.is_insensitive():
            return self._remembered(legal) if evaluator.ignores_text() else self._tried(legal)
        if evaluator.mode in _STRINGS and np.count_nonzero(legal) > _FEW_WORDS:
            return self._refused_in_string(legal)
        if evaluator.bears(table.longest) == Bears.UNTIL_CLOSING:
            legal = legal & table.closing
        elif evaluator.ignores_digits(table.longest_number):
            legal = legal & table.ends_number
        if evaluator.mode == Mode.IN_NUMBER:
            return self._tried_with_a_blank(legal)
        if evaluator.mode not in _INSIDE:
            legal = legal & table.not_blank
        return self._tried(legal)

    def _tried_with_a_blank(self, legal: Words) -> Words | None:
        """As ``_tried``, where one token of white space stands for all."""
        blanks = legal & ~self._table.not_blank
        if not blanks.any():
            return self._tried(legal)
        refused = self._tried((legal & self._table.not_blank) | one_of(blanks))
        return refused | blanks if refused is not None and (refused & blanks).any() else refused

    def _refused_in_string(self, legal: Words) -> Words | None:
        """As ``_tried``, where the content may decide something, and many tokens are legal."""
        key = self._evaluator.content_key(self._table.longest)
        if key is not None:
            with_quote = self._table.with_quote
            refused = self._contents.refused(key, legal, self._table.without_quote, self._refused_content)
            if not self._evaluator.ends_alike():
                return _united(refused, self._tried(legal & with_quote))
            return _united(refused, self._of_this_string().refused(key, legal, with_quote, self._tried))
        return self._refused_content(legal)

    def _refused_content(self, legal: Words) -> Words | None:
        """As ``_refused_in_string``, of content that is not known yet."""
        bounds = self._evaluator.content_bounds()
        if bounds is None or len(bounds.listed) > _MAX_LISTED:
            return self._tried(legal)
        listed = words_of([i for text in bounds.listed for i in self._table.beginnings(text)], len(legal))
        parts = plain_tokens(self._vocabulary).alike(bounds, legal & ~listed)
        left = legal.copy()
        for part in parts:
            left &= ~part
        refused = self._tried(left)
        for part in parts:  # one of each stands for all
            if self._tried(one_of(part)) is not None:
                refused = part if refused is None else refused | part
        return refused

    def _remembered(self, legal: Words) -> Words | None:
        """As ``_tried``, in a string whose text means nothing: each token is tried once."""
        known, with_quote = self._of_this_string(), self._table.with_quote
        return known.refused(self._evaluator.partial, legal, with_quote, self._tried)

    def _of_this_string(self) -> _Known:
        start = self._evaluator.innermost_start()
        if self._verdicts is None or self._verdicts.start != start:
            self._verdicts = _Verdicts(start, len(self._ids))
        return self._verdicts.known

    def _tried(self, legal: Words) -> Words | None:
        """Which tokens of ``legal`` the evaluator refuses; None for none."""
        if self._evaluator.mode not in _STRINGS:
            return self._refused_among(legal, quoted=True)
        with_quote = legal & self._table.with_quote
        refused = self._refused_among(with_quote, quoted=True)
        others = None if self._evaluator.is_insensitive() else self._refused_among(legal & ~with_quote, quoted=False)
        return _united(refused, others)

    def _refused_among(self, words: Words, *, quoted: bool) -> Words | None:
        table, places = self._table, self._table.places(words)
        special = self._evaluator.told_apart() if quoted and len(places) > _FEW_ENDS else None
        if special is None or len(special) > _MAX_LISTED:
            refused = refused_of(self._evaluator, table, places, quoted=quoted)
        else:
            prefixes = [text.encode("utf-8", "surrogatepass") + b'"' for text in special]
            refused = refused_by_tail(self._evaluator, table, places, prefixes)
        return words_of(table.order[np.concatenate(refused)], len(words)) if refused else None


def _united(one: Words | None, other: Words | None) -> Words | None:
    return other if one is None else one if other is None else one | other


_FEW_WORDS = 32
_FEW_ENDS = 8
_MAX_KNOWN = 64
_MAX_LISTED = 200
_STRINGS = frozenset({Mode.IN_STRING, Mode.IN_NAME})
_MAY_END = frozenset({Mode.DONE, Mode.IN_NUMBER})
_INSIDE = frozenset({Mode.IN_STRING, Mode.IN_NAME, Mode.IN_NUMBER, Mode.IN_LITERAL})
"""Where white space says something; elsewhere it says nothing."""
