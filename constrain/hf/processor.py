"""Constraints inside transformers' own ``generate``."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from transformers import LogitsProcessor

from constrain.backend import Backend
from constrain.compiler import GrammarCompiler
from constrain.errors import DeadEndError, InvalidInputError, VocabularyError
from constrain.grammar import RowState
from constrain.hf.aligned_rows import AlignedRows, Ids, Step, fill_stop_tokens, on_host
from constrain.hf.outputs import read_outputs
from constrain.hf.prefetch import MaskPrefetch
from constrain.hf.ready_mask import ReadyMask
from constrain.hf.wanted import Wanted, WantedList
from constrain.reasoning.options import Reasoning
from constrain.result import GenerationResult
from constrain.vocabulary import Vocabulary

OnDeadEnd = Literal["raise", "stop", "prune"]


class ConstrainedLogitsProcessor(LogitsProcessor):  # type: ignore[misc]  # transformers is not typed
    """Holds the outputs of ``model.generate`` to a constraint.

        processor = ConstrainedLogitsProcessor(User, vocabulary)
        output = model.generate(**inputs, logits_processor=[processor], stopping_criteria=[processor.prefetch])
        users = [result.unwrap() for result in processor.results(output)]

    Greedy search, sampling, beams, prompt lookup and assisted decoding; one processor for any number of calls.

    Parameters
    ----------
    constraint:
        Anything :func:`constrain.as_constraint` takes, or a ``CompiledGrammar``, for every prompt; None for free text.
    vocabulary:
        Of the model. May be left out where every constraint is a ``CompiledGrammar``.
    constraints:
        One for each prompt, instead of ``constraint``. Beams and returned sequences share that of their prompt.
    backend, compiler:
        Who compiles: a backend or its name, or a compiler that others use too. Compiling starts at once, and the first
        call of the model waits for it and raises what went wrong.
    on_dead_end:
        Where no token continues a row: ``"raise"`` a ``DeadEndError`` that names it; ``"stop"`` it by a stop token,
        ``results`` says so; ``"prune"`` it: its score becomes -inf, which is what beams need, and nobody else.

    reasoning:
        ``Reasoning(...)`` for a model that thinks before it answers; each prompt says whether thinking is open.

    **Where the prompt ends.** transformers does not say when a run starts, so token ids tell: a call goes on with the
    run before if each row is a beginning of a row of the last call plus at most one token; otherwise it starts a run,
    and all that it holds is prompt. So a prompt that repeats the last prompt and a part of its output *continues* that
    output, as long as it is not more than one token longer. Call ``reset()`` before ``generate`` where that is not
    meant. Runs that take turns on one processor (two threads, an assistant with another tokenizer) raise
    ``InvalidInputError``. For one thread at a time.
    """

    def __init__(
        self,
        constraint: Any = None,
        vocabulary: Vocabulary | None = None,
        *,
        constraints: Sequence[Any] | None = None,
        backend: str | Backend = "auto",
        compiler: GrammarCompiler | None = None,
        on_dead_end: OnDeadEnd = "raise",
        reasoning: Reasoning | None = None,
    ) -> None:
        if on_dead_end not in get_args(OnDeadEnd):
            raise InvalidInputError(f"on_dead_end={on_dead_end!r}: want one of {get_args(OnDeadEnd)}")
        if constraints is not None and (constraint is not None or not constraints):
            raise InvalidInputError("give constraint=, or constraints= with one for each prompt, not both")
        asked = [constraint] if constraints is None else list(constraints)
        self._is_shared = constraints is None
        self._wanted = WantedList(asked, vocabulary, backend, compiler, reasoning)
        self._vocabulary = self._wanted.vocabulary
        self._on_dead_end = on_dead_end
        self._mask: ReadyMask | None = None
        self._rows: AlignedRows | None = None
        self._row_wanted: list[Wanted] = []  # of the last run, one for each of its rows
        self._rows_before: AlignedRows | None = None
        self._prompt_length: int | None = None
        self._prefetch = MaskPrefetch(self)

    @property
    def prefetch(self) -> MaskPrefetch:
        """A stopping criterion that never stops: it fills the next masks while the next forward pass runs."""
        return self._prefetch

    def reset(self, prompt_length: int | None = None) -> None:
        """The next call starts a run. With ``prompt_length`` (padding included), what its rows hold behind that many
        tokens is output that was already written, and must be legal."""
        self._prefetch.drain()
        self._rows = self._rows_before = None
        self._prompt_length = prompt_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """``scores`` [R, V] with the forbidden tokens at -inf, as a new tensor."""
        self._check(input_ids, scores)
        early = self._prefetch.take(input_ids)
        ids, states = early if early is not None else (on_host(input_ids), None)
        if states is None:
            states = self._masks(ids, scores.device)
        assert self._rows is not None and self._mask is not None
        self._rows.called_length = ids.shape[1]
        if self._on_dead_end == "raise" and RowState.DEAD_END in states:
            row = states.index(RowState.DEAD_END)
            place = f"row {row}, after {ids.shape[1] - self._rows.prompt_length} output tokens"
            hint = "; with beams, on_dead_end='prune' drops such a beam"
            raise DeadEndError(f"{place}: no token of the vocabulary continues the constraint{hint}")
        if self._rows.is_free:
            return scores
        return self._mask.apply(scores)

    def results(self, output: Any) -> list[GenerationResult]:
        """What ``generate`` returned for the last run, read: text and validated value of every sequence, in order.

        ``output`` is the tensor of sequences, or the object that holds it. The finish reason is ``"stop"`` for a
        complete text, ``"length"`` for one cut short, ``"dead_end"`` or ``"error"`` for one that left its constraint.
        """
        self._prefetch.drain()  # first: its thread holds the rows while it moves them
        if self._rows is None:
            raise InvalidInputError("nothing was generated with this processor, or it was reset since")
        sequences = on_host(getattr(output, "sequences", output))
        prompts = self._rows.ids[:, : self._rows.prompt_length]
        return read_outputs(sequences, prompts, self._row_wanted, self._vocabulary)

    def advance_early(self, ids: Ids) -> list[RowState] | None:
        """For the prefetch, on its thread: move to ``ids`` and fill the next host buffer, if they continue the run."""
        step = self._next_step(ids)
        if step is None:
            return None
        states = self._advance(ids, step)
        assert self._mask is not None
        self._mask.make_ready(len(ids))
        return states

    # the call

    def _masks(self, ids: Ids, device: torch.device) -> list[RowState]:
        if self._mask is None or self._mask.max_rows < len(ids) or self._mask.device != device:
            self._mask = ReadyMask(len(ids), self._vocabulary, device)
        step = self._next_step(ids)
        if step is not None:
            return self._advance(ids, step)
        for rows in (self._rows, self._rows_before):
            if rows is not None and rows.would_continue(ids):
                raise InvalidInputError(
                    "these rows continue an earlier run by one token, but in another number, or after another run "
                    "began: two runs take turns on this processor (use one for each), an assistant has another "
                    "tokenizer (not supported), or a new prompt begins with an earlier one (call reset() before it)"
                )
        prompt_length = ids.shape[1] if self._prompt_length is None else self._prompt_length
        if not 0 <= prompt_length <= ids.shape[1]:
            raise InvalidInputError(f"prompt_length={prompt_length} for rows of {ids.shape[1]} tokens")
        prompts = ids[:, :prompt_length]
        self._row_wanted = self._behind_prompts(prompts)
        compiled = [wanted.compiled for wanted in self._row_wanted]
        started = AlignedRows(ids, compiled, self._vocabulary, prompt_length)
        self._rows_before, self._rows, self._prompt_length = self._rows, started, None
        return self._fill(started, self._mask)

    def _next_step(self, ids: Ids) -> Step | None:
        return None if self._rows is None or self._mask is None else self._rows.next_step(ids)

    def _advance(self, ids: Ids, step: Step) -> list[RowState]:
        rows, mask = self._rows, self._mask
        assert rows is not None and mask is not None
        self._rows = None  # grammars that failed half-way are of no use to anybody
        rows.move(ids, step)
        states = self._fill(rows, mask)
        self._rows = rows
        return states

    def _fill(self, rows: AlignedRows, mask: ReadyMask) -> list[RowState]:
        buffer = mask.next_buffer()
        states = rows.fill(buffer)
        if self._on_dead_end == "stop":
            for row, state in enumerate(states):
                if state is RowState.DEAD_END:
                    fill_stop_tokens(buffer, row, self._vocabulary)
        return states

    def _behind_prompts(self, prompts: Ids) -> list[Wanted]:
        """For each row. Beams of one prompt share one, as they swap their places."""
        made: dict[tuple[int, bytes], Wanted] = {}
        found = []
        for wanted, prompt in zip(self._wanted_by_row(prompts), prompts, strict=True):
            key = (id(wanted), prompt.tobytes())
            if key not in made:
                made[key] = wanted.behind(prompt.tolist(), self._vocabulary)
            found.append(made[key])
        return found

    def _wanted_by_row(self, prompts: Ids) -> list[Wanted]:
        wanted = self._wanted.wait()
        if self._is_shared:
            return wanted * len(prompts)
        count, each = len(wanted), len(prompts) // len(wanted)
        if each * count != len(prompts) or (prompts.reshape(count, each, -1) != prompts[::each][:, None]).any():
            raise InvalidInputError(
                f"{count} constraints for a batch of {len(prompts)} rows: want one constraint for each prompt"
            )
        return [one for one in wanted for _ in range(each)]

    def _check(self, input_ids: torch.Tensor, scores: torch.Tensor) -> None:
        if input_ids.ndim != 2 or scores.ndim != 2 or len(input_ids) != len(scores):
            raise InvalidInputError(
                f"want token ids [R, L] and scores [R, V], got {tuple(input_ids.shape)} and {tuple(scores.shape)}: "
                "continuous batching (generate_batch, cache_implementation='paged') shows a processor no history, so "
                "use constrain.Engine there"
            )
        width, ours = scores.shape[1], self._vocabulary
        if not ours.size <= width <= 32 * ours.num_mask_words:
            raise VocabularyError(
                f"the scores have {width} columns; this vocabulary has {ours.size} tokens under {ours.logits_width} "
                "logits: build it with Vocabulary.from_tokenizer(tokenizer, model=model)"
            )
