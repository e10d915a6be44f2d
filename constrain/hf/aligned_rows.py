"""Where each row of somebody else's ``generate`` stands, found by comparing token ids, since nobody says it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from constrain.errors import InvalidInputError
from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.vocabulary import Vocabulary

Ids = npt.NDArray[np.int64]  # [R, L] token ids of a call: prompt (left padding included), then output


@dataclass(slots=True)
class _Row:
    grammar: Grammar | None  # None: free text
    num_legal: int = 0  # output tokens that the grammar has accepted; what lies behind is padding, or illegal


@dataclass(frozen=True, slots=True)
class Step:
    """For each row of a call: the row it grew from, and how many output tokens the two share.

    ``is_plain``: every row is itself and one token more.
    """

    parents: list[int]
    shared: list[int]
    is_plain: bool = False


class AlignedRows:
    """The rows of one run, from its first call on: grammars that stand where the last ids say.

    A call continues the run if each of its rows is a beginning of some row of the call before, of the same prompt,
    plus at most one token: that holds for plain decoding, for beams (rows change places and are copied) and for drafts
    (lengths go back), since every token is drawn behind a call that saw all tokens before it.
    """

    def __init__(
        self, ids: Ids, compiled: Sequence[CompiledGrammar | None], vocabulary: Vocabulary, prompt_length: int
    ) -> None:
        self.ids = ids
        self.prompt_length = prompt_length
        self.called_length = ids.shape[1]
        self.is_free = all(each is None for each in compiled)  # no row has a constraint
        self._vocabulary = vocabulary
        self._rows = [_Row(None if each is None else each.start()) for each in compiled]
        self._groups = _groups(ids[:, :prompt_length], compiled)
        if ids.shape[1] > prompt_length:
            self._accept(ids, [0] * len(ids))
            for index, row in enumerate(self._rows):
                if row.grammar is not None and row.num_legal < ids.shape[1] - prompt_length:
                    raise InvalidInputError(
                        f"row {index}: the text behind the prompt's {prompt_length} tokens breaks the constraint at "
                        f"token {prompt_length + row.num_legal}"
                    )

    def next_step(self, ids: Ids) -> Step | None:
        """How ``ids`` continue the run; None if they do not."""
        length, known = ids.shape[1], self.ids.shape[1]
        if len(ids) != len(self.ids) or not self.prompt_length <= length <= self.called_length + 1:
            return None
        if length == known + 1 and np.array_equal(ids[:, :known], self.ids):  # plain decoding, nearly every call
            return Step(list(range(len(ids))), [known - self.prompt_length] * len(ids), is_plain=True)
        if not np.array_equal(ids[:, : self.prompt_length], self.ids[:, : self.prompt_length]):
            return None
        parents, shared = [], []
        for row in range(len(ids)):
            parent, common = self._closest(ids[row, self.prompt_length :], row)
            if common < length - self.prompt_length - 1:
                return None
            parents.append(parent)
            shared.append(common)
        return Step(parents, shared)

    def would_continue(self, ids: Ids) -> bool:
        """Whether every row, taken alone and in any number, is a beginning of a row plus one legal token."""
        length = ids.shape[1]
        if self.is_free or not self.prompt_length < length <= min(self.called_length, self.ids.shape[1]) + 1:
            return False
        known = {row.tobytes(): index for index, row in enumerate(self.ids[:, : length - 1])}
        parents = [known.get(row[:-1].tobytes()) for row in ids]
        return all(
            parent is not None and self._is_legal(self._rows[parent], ids[row]) for row, parent in enumerate(parents)
        )

    def move(self, ids: Ids, step: Step) -> None:
        """Bring every grammar to the output in ``ids``."""
        if step.is_plain:
            for each, common, token_id in zip(self._rows, step.shared, ids[:, -1].tolist(), strict=True):
                if each.grammar is not None and each.num_legal == common:
                    each.num_legal += each.grammar.accept([token_id])
            self.ids = ids
            return
        claimed: set[int] = set()
        moved: list[_Row] = []
        # All copies are taken before anything moves. A row that keeps its place keeps its grammar.
        stays = {parent for row, parent in enumerate(step.parents) if parent == row}
        for row, parent in enumerate(step.parents):
            source = self._rows[parent]
            if parent == row or (parent not in stays and parent not in claimed):
                claimed.add(parent)
                moved.append(source)
            else:
                moved.append(_Row(source.grammar and source.grammar.fork(), source.num_legal))
        self._rows = moved
        self._accept(ids, step.shared)
        self.ids = ids

    def fill(self, bitmask: torch.Tensor) -> list[RowState]:
        """Write the masks of all rows [R, W], and say which are dead ends.

        A row that left its grammar may go on with stop tokens only. Beam search has such rows, at a score of -inf,
        where fewer continuations are legal than it wants; a row that is finished otherwise gets padding anyway.
        Raises ``InvalidInputError`` where such a row has its prompt for itself, so that it must be somebody's mistake.
        """
        states = []
        for index, row in enumerate(self._rows):
            if row.grammar is None:
                bitmask[index] = -1
                states.append(RowState.FREE)
            elif self._has_left(index, row):
                fill_stop_tokens(bitmask, index, self._vocabulary)
                states.append(RowState.CONSTRAINED)
            else:
                states.append(row.grammar.fill_bitmask(bitmask, index))
        return states

    def _accept(self, ids: Ids, shared: list[int]) -> None:
        for index, (row, common) in enumerate(zip(self._rows, shared, strict=True)):
            if row.grammar is None:
                continue
            if row.num_legal > common:
                row.grammar.rollback(row.num_legal - common)
                row.num_legal = common
            if row.num_legal == common:
                row.num_legal += row.grammar.accept(ids[index, self.prompt_length + common :].tolist())

    def _is_legal(self, row: _Row, ids: Ids) -> bool:
        """Whether the last of ``ids``, which but for it are a beginning of this row, is legal there."""
        num_before = len(ids) - 1 - self.prompt_length
        if row.grammar is None or num_before > row.num_legal:
            return True
        grammar = row.grammar.fork()
        grammar.rollback(row.num_legal - num_before)
        return grammar.validate([int(ids[-1])]) == 1

    def _closest(self, output: Ids, row: int) -> tuple[int, int]:
        """The row of the last call that shares most output tokens with ``output``, itself if it can be, and how many.

        ``row`` is where ``output`` stands now; only rows of its group are looked at.
        """
        best, most = row, -1
        group = self._groups[row]
        for other in (row, *(each for each in range(group.start, group.stop) if each != row)):
            common = _common_prefix(output, self.ids[other, self.prompt_length :])
            if common > most:
                best, most = other, common
            if most >= len(output) - 1:
                break
        return best, most

    def _has_left(self, index: int, row: _Row) -> bool:
        num_output = self.ids.shape[1] - self.prompt_length
        assert row.grammar is not None
        if row.num_legal == num_output or row.grammar.is_terminated:
            return False
        token_id = int(self.ids[index, self.prompt_length + row.num_legal])
        is_ended = token_id in self._vocabulary.special_token_ids  # generate's own padding, or a stop that it forced
        if not is_ended and len(self._groups[index]) == 1:
            raise InvalidInputError(
                f"row {index} holds token {token_id} at output {row.num_legal}, which its constraint forbade. Either "
                "another logits processor allowed it, or this is a new prompt that begins with the last one and is one "
                "token longer: then call reset() before generate"
            )
        return True


def on_host(token_ids: torch.Tensor) -> Ids:
    """A copy of ``token_ids`` that nobody else holds."""
    host = token_ids.cpu() if token_ids.is_cuda else token_ids.detach().clone()
    return host.numpy() if host.dtype is torch.int64 else host.to(torch.int64).numpy()


def fill_stop_tokens(bitmask: torch.Tensor, row: int, vocabulary: Vocabulary) -> None:
    """Allow exactly the stop tokens in ``bitmask[row]``."""
    words = bitmask[row].numpy().view(np.uint32)
    words[:] = 0
    for token_id in vocabulary.stop_token_ids:
        words[token_id // 32] |= np.uint32(1 << token_id % 32)


def _groups(prompts: Ids, compiled: Sequence[CompiledGrammar | None]) -> list[range]:
    """For each row, the rows beside it with its prompt and constraint: beams, or sequences to be returned."""
    groups: list[range] = []
    start = 0
    for row in range(1, len(prompts) + 1):
        is_same = row < len(prompts) and compiled[row] is compiled[start]
        if not (is_same and np.array_equal(prompts[row], prompts[start])):
            groups += [range(start, row)] * (row - start)
            start = row
    return groups


def _common_prefix(left: Ids, right: Ids) -> int:
    shorter = min(len(left), len(right))
    differs = left[:shorter] != right[:shorter]
    return int(differs.argmax()) if differs.any() else shorter
