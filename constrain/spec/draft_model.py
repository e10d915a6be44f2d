"""A small model that drafts for a large one."""

from collections.abc import Sequence

import torch

from constrain.bitmask import TokenBitmask, fill_free_row
from constrain.errors import InvalidInputError, VocabularyError
from constrain.grammar import Grammar, RowState
from constrain.sampling.ops.bitmask import apply_bitmask_
from constrain.source import LogitsSource, SequenceView, checked_logits, source_lock
from constrain.spec.draft import Draft, DrawKey, Proposer
from constrain.spec.draft_draw import draft_logits, draw_drafts
from constrain.vocabulary import Vocabulary


class DraftModelProposer(Proposer):
    """Drafts token by token with any logits source on the target's vocabulary.

    Every token is drawn as the request draws, from the draft model's logits under the request's grammar, so that
    nothing is drafted that the grammar refuses: greedily, with the target's own Gumbel noise, or else
    with uniforms of ``Purpose.DRAFT``. A draft ends behind a stop token, at a dead end, and at the source's longest
    sequence. The source keeps a cache of its own for each slot, as for an engine; it may serve others, in turn.

    Parameters
    ----------
    max_batch_size:
        Requests in one forward pass of the draft model; more take several.
    probabilities:
        Keep the distribution of each token, for the rules that ask for it. Needless for verification by drawing.
    """

    def __init__(
        self, source: LogitsSource, vocabulary: Vocabulary, *, max_batch_size: int = 32, probabilities: bool = False
    ) -> None:
        if source.logits_width is not None and source.logits_width != vocabulary.logits_width:
            raise VocabularyError(
                f"the draft model gives {source.logits_width} logits and the vocabulary expects "
                f"{vocabulary.logits_width}; a draft model must share the target's vocabulary"
            )
        if source.max_rows is not None and max_batch_size > source.max_rows:
            raise InvalidInputError(f"max_batch_size={max_batch_size}: the source takes at most {source.max_rows} rows")
        self._source = source
        self._vocabulary = vocabulary
        self._bitmask = TokenBitmask(max_batch_size, vocabulary, source.device)
        self._max_batch_size = max_batch_size
        self._keeps_probabilities = probabilities

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        drafting = _Drafting(views, grammars, lengths, keys, self._source.max_length)
        try:
            with source_lock(self._source):
                while drafting.rows:
                    rows = drafting.rows
                    for start in range(0, len(rows), self._max_batch_size):
                        self._draft_one(drafting, rows[start : start + self._max_batch_size])
        finally:
            drafting.restore_grammars()
        return [
            Draft(tuple(ids), torch.stack(rows) if rows else None)
            for ids, rows in zip(drafting.ids, drafting.probabilities, strict=True)
        ]

    def release(self, slot: int) -> None:
        with source_lock(self._source):
            self._source.release(slot)

    def _draft_one(self, drafting: "_Drafting", rows: Sequence[int]) -> None:
        """One more token for each of ``rows``, which still draft."""
        views = [SequenceView(drafting.views[row].slot, drafting.token_ids(row)) for row in rows]
        logits = checked_logits(self._source, views, self._vocabulary.logits_width)
        logits = logits[:, : self._vocabulary.size].to(self._source.device, torch.float32, copy=True)
        grammars = [drafting.grammars[row] for row in rows]
        is_dead = self._mask_(logits, grammars)
        keys = [drafting.key(row) for row in rows]
        tokens = draw_drafts(logits, keys).tolist()
        probabilities = self._probabilities(logits, keys) if self._keeps_probabilities else {}
        for place, row in enumerate(rows):
            if is_dead[place]:
                drafting.end(row)
                continue
            ends = tokens[place] in self._vocabulary.stop_token_ids
            drafting.add(row, tokens[place], probabilities.get(place), ends=ends)

    def _probabilities(self, logits: torch.Tensor, keys: Sequence[DrawKey]) -> dict[int, torch.Tensor]:
        """The distribution of each row that is not greedy."""
        rows = [row for row, key in enumerate(keys) if not key.params.is_greedy]
        if not rows:
            return {}
        drawn = draft_logits(logits[torch.tensor(rows, device=logits.device)], [keys[row].params for row in rows])
        return dict(zip(rows, torch.softmax(drawn, dim=1), strict=True))

    def _mask_(self, logits: torch.Tensor, grammars: Sequence[Grammar | None]) -> list[bool]:
        """Mask ``logits``; whether each row has no token left."""
        if all(grammar is None for grammar in grammars):
            return [False] * len(grammars)
        buffer = self._bitmask.next_buffer()
        is_dead = []
        for row, grammar in enumerate(grammars):
            if grammar is None:
                fill_free_row(buffer, row, self._vocabulary)
            is_dead.append(grammar is not None and grammar.fill_bitmask(buffer, row) is RowState.DEAD_END)
        apply_bitmask_(logits, self._bitmask.upload(len(grammars)))
        return is_dead


class _Drafting:
    """The drafts of one call while they grow."""

    def __init__(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
        max_length: int | None,
    ) -> None:
        self.views, self.grammars, self._keys = views, grammars, keys
        # The last token of a draft is not read by the draft model itself.
        room = [float("inf") if max_length is None else max_length - len(view.token_ids) + 1 for view in views]
        self._lengths = [min(length, left) for length, left in zip(lengths, room, strict=True)]
        self.ids: list[list[int]] = [[] for _ in views]
        self.probabilities: list[list[torch.Tensor]] = [[] for _ in views]
        self.rows = [row for row, length in enumerate(self._lengths) if length > 0]

    def token_ids(self, row: int) -> tuple[int, ...]:
        return (*self.views[row].token_ids, *self.ids[row])

    def key(self, row: int) -> DrawKey:
        key = self._keys[row]
        return DrawKey(key.params, key.seed, key.output_index + len(self.ids[row]), key.gumbel)

    def add(self, row: int, token_id: int, probabilities: torch.Tensor | None, *, ends: bool) -> None:
        grammar = self.grammars[row]
        if grammar is not None and grammar.accept([token_id]) != 1:
            self.end(row)
            return
        self.ids[row].append(token_id)
        if probabilities is not None:
            self.probabilities[row].append(probabilities)
        if ends or len(self.ids[row]) == self._lengths[row]:
            self.end(row)

    def end(self, row: int) -> None:
        self.rows = [each for each in self.rows if each != row]

    def restore_grammars(self) -> None:
        for grammar, ids in zip(self.grammars, self.ids, strict=True):
            if grammar is not None and ids:
                grammar.rollback(len(ids))
