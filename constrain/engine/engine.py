"""The engine: many requests, one forward pass a step, masks beside it."""

import secrets
import time
import warnings
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from constrain.backend import Backend
from constrain.compiler import GrammarCompiler
from constrain.engine.active import ActiveRequest, as_backend_error
from constrain.engine.admission import start_grammar, wait_for_a_grammar
from constrain.engine.commit import Committer
from constrain.engine.door import (
    as_backend,
    as_draft_length,
    as_proposer,
    as_rule,
    check_engine,
    check_params,
    checked_prompt,
    start_compiling,
)
from constrain.engine.drafting import Drafter
from constrain.engine.ending import make_result
from constrain.engine.plan import StepPlan
from constrain.engine.step import Step, Stepper
from constrain.engine.stop_strings import StopStrings
from constrain.engine.verification import Verifier
from constrain.errors import ClosedError, ConstrainError
from constrain.output_reader import OutputReader
from constrain.request import Request
from constrain.result import FinishReason, GenerationResult, NewTokens
from constrain.sampling.loading import load_processors
from constrain.sampling.processors import LogitsProcessor
from constrain.sampling.sampler import Sampler
from constrain.source import LogitsSource, source_lock
from constrain.spec.draft import Proposer
from constrain.spec.length import DraftLength
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.spec.statistics import SpecStatistics
from constrain.vocabulary import Vocabulary


class Engine:
    """Runs requests together on one logits source. For one thread; ``step`` is the only method that takes long.

    Parameters
    ----------
    source:
        Gives the logits.
    vocabulary:
        Of the source's model; ``VocabularyError`` where its width is not that of the logits.
    backend:
        A name (``"auto"``, ``"llguidance"``, ``"xgrammar"``, ``"trie"``; with extras ``"outlines"`` and
        ``"lm-format-enforcer"``) or a backend for ``vocabulary``.
    max_batch_size:
        Requests in one forward pass, B; more wait.
    processors:
        Custom logits processors, beside the installed ones: classes, ``"module:Class"``, names of entry points. A
        request asks for one by its ``extra`` fields; docs/sampling.md tells how.
    proposer:
        Drafts tokens, which one forward pass then verifies: a name (``"grammar+ngram"`` say) or a
        :class:`~constrain.spec.Proposer`. Outputs do not depend on it, but by ``rule``.
    draft_length:
        The most tokens of a draft, K, or a :class:`~constrain.spec.DraftLength`.
    rule:
        How drafts are verified: ``"draw"`` keeps the output what it is without a draft. ``"rejection"`` and ``"block"``
        keep its distribution only; ``RejectionSampler("synthetic", synthetic_rates=...)`` is for benchmarks.
        docs/speculative.md tells when.
    max_backtracks:
        How often one request may take tokens back at a dead end before it ends with ``"dead_end"``.

    A request that fails ends alone, with the error in its result. Close the engine when done (a context manager).
    Engines on several threads may share a source: they take turns.
    """

    def __init__(
        self,
        source: LogitsSource,
        vocabulary: Vocabulary,
        *,
        backend: str | Backend = "auto",
        max_batch_size: int = 32,
        processors: Sequence[str | type[LogitsProcessor] | LogitsProcessor] = (),
        proposer: str | Proposer | None = None,
        draft_length: int | DraftLength = 5,
        rule: str | RejectionSampler = "draw",
        max_backtracks: int = 32,
    ) -> None:
        check_engine(source, vocabulary, max_batch_size, max_backtracks)
        length = as_draft_length(draft_length)
        self.source = source
        self.vocabulary = vocabulary
        self.max_batch_size = max_batch_size
        verification = as_rule(rule, length)
        self._drafter = Drafter(as_proposer(proposer, vocabulary), length, verification, source, vocabulary)
        self._sampler = Sampler(vocabulary.size, max_batch_size, source.device, processors=load_processors(processors))
        self.compiler = GrammarCompiler(as_backend(backend, vocabulary))
        max_rows = max_batch_size * (1 + (0 if proposer is None else length.max_length))
        self._stepper = Stepper(source, vocabulary, self._sampler, Verifier(self._sampler, verification), max_rows)
        self.statistics = SpecStatistics()
        self._committer = Committer(source, vocabulary, self._sampler, max_backtracks)
        self._source_lock = source_lock(source)
        self._waiting: list[ActiveRequest] = []
        self._running: list[ActiveRequest] = []
        self._finished: list[GenerationResult] = []
        self._free_slots = list(range(max_batch_size - 1, -1, -1))
        self._next_id = 0
        self._closed = False

    def add(self, request: Request) -> int:
        """Queue ``request`` and start compiling its constraint; returns the id that its result will carry.

        Raises ``InvalidInputError`` (of a prompt ``InvalidPromptError``, of a compiled grammar ``VocabularyError``), or
        the ``ProcessorError`` of a processor's ``check``, for what can be known to be wrong before any work. A
        constraint that does not compile ends the request later, in its result.
        """
        if self._closed:
            raise ClosedError("this Engine is closed; make a new one")
        params = request.params
        check_params(request, self.vocabulary)
        restrictions = self._sampler.resolve(
            params, stop_token_ids=self.vocabulary.stop_token_ids, tokenize=self.vocabulary.encode
        )
        prompt_ids = checked_prompt(request.prompt_ids, self.vocabulary.logits_width, self.source.max_length)
        decode = str if request.decode is None and request.constraint is None else request.decode
        compiling = start_compiling(request.constraint, self.compiler, self.vocabulary)
        sequence = ActiveRequest(
            request_id=self._next_id,
            request=request,
            seed=secrets.randbits(64) if params.seed is None else params.seed,
            added_at=time.perf_counter(),
            prompt_ids=prompt_ids,
            restrictions=restrictions,
            compiling=compiling,
            reader=OutputReader(self.vocabulary, decode=decode),
            stop_strings=StopStrings(params.stop) if params.stop else None,
        )
        self._next_id += 1
        self._waiting.append(sequence)
        return sequence.request_id

    def cancel(self, request_id: int) -> bool:
        """End a request with ``finish_reason="cancelled"``: the next ``step`` has its result. False if unknown."""
        for sequence in (*self._waiting, *self._running):
            if sequence.request_id == request_id:
                self._finish(sequence, "cancelled")
                return True
        return False

    @property
    def has_work(self) -> bool:
        """Whether a request is waiting or running, or a result was not yet handed out."""
        return bool(self._waiting or self._running or self._finished)

    def step(self) -> list[GenerationResult]:
        """At least one token for every running request; returns the results of those that ended.

        Where nothing runs and constraints are still compiling, it waits for the first of them.
        """
        if self._closed:
            raise ClosedError("this Engine is closed; make a new one")
        self._end_overdue()
        self._admit()
        if self._running:
            started = time.perf_counter()
            plan = StepPlan.make(list(self._running), self._drafter.drafts(self._running))
            with self._source_lock:  # until the tokens are taken: logits may be a view of the source's memory
                step = self._stepper.run(plan)
            endings = self._committer.commit(plan, step)
            self._count_drafts(plan, step, time.perf_counter() - started)
            for ending in endings:
                if not ending.sequence.has_ended:  # a decoder, which is the caller's code, may have cancelled it
                    self._finish(ending.sequence, ending.reason, ending.error)
        finished, self._finished = self._finished, []
        return finished

    def new_tokens(self, request_id: int, *, stable: bool = False) -> NewTokens | None:
        """What a waiting or running request wrote since the last call for it; None once it has ended.

        Its result has all tokens, so the last ones are found there. Costs nothing to those who do not call it. With
        ``stable`` those handed out are never taken back, and the tokens of a value are held until it is closed, where
        the grammar knows its values; where it does not, a dead end may end a request that could go back otherwise.
        """
        for sequence in (*self._running, *self._waiting):
            if sequence.request_id == request_id:
                start = sequence.num_handed_out
                sequence.num_handed_out = sequence.num_stable if stable else sequence.num_output
                if stable:
                    sequence.num_fixed = sequence.num_handed_out
                return NewTokens(start, tuple(sequence.output_ids[start : sequence.num_handed_out]))
        return None

    def run(self) -> list[GenerationResult]:
        """Step until nothing is left; the results in the order of their ids."""
        results: list[GenerationResult] = []
        while self.has_work:
            results += self.step()
        return sorted(results, key=lambda result: result.request_id)

    def close(self) -> None:
        """Drop what is left, stop the threads and free the source's slots."""
        if self._closed:
            return
        self._closed = True
        for sequence in self._running:
            self._drafter.release(sequence.slot)
            self._release(sequence)
        self._waiting, self._running, self._finished = [], [], []
        self.compiler.close(wait=False)
        self._stepper.close()

    # admit

    def _end_overdue(self) -> None:
        now = time.perf_counter()
        for sequence in [each for each in (*self._waiting, *self._running) if each.deadline <= now]:
            self._finish(sequence, "deadline")

    def _admit(self) -> None:
        """Move requests whose grammar is ready to the batch, in order; end those whose grammar failed."""
        if not self._running and not self._finished:
            wait_for_a_grammar(self._waiting)
        for sequence in list(self._waiting):
            if sequence.compiling is not None and not sequence.compiling.done():
                continue
            if not self._free_slots:
                return
            try:
                start_grammar(sequence, self.vocabulary)
                self._take_slot(sequence)
            except BaseException as exc:
                self._finish(sequence, "error", as_backend_error(exc, sequence.backend))
                continue
            self._waiting.remove(sequence)
            sequence.timings.queued_s = time.perf_counter() - sequence.added_at
            self._running.append(sequence)

    def _take_slot(self, sequence: ActiveRequest) -> None:
        slot = self._free_slots[-1]
        self._sampler.add(
            slot,
            sequence.request.params,
            sequence.seed,
            sequence.prompt_ids,
            sequence.output_ids,
            sequence.restrictions,
        )
        sequence.slot = self._free_slots.pop()

    # finish

    def _count_drafts(self, plan: StepPlan, step: Step, seconds: float) -> None:
        """Counts as accepted what became output; draft lengths learn from what was right, wherever the output ended."""
        proposed = [len(draft) for draft in plan.drafts]
        taken = [min(outcome.num_accepted, outcome.num_committed) for outcome in step.outcomes]
        for sequence, length, count in zip(plan.batch, proposed, taken, strict=True):
            sequence.statistics.add_step([length], [count], seconds)
        self.statistics.add_step(proposed, taken, seconds)
        self._drafter.observe(plan.drafts, [outcome.num_accepted for outcome in step.outcomes])

    def _finish(self, sequence: ActiveRequest, reason: FinishReason, error: ConstrainError | None = None) -> None:
        sequence.has_ended = True
        if sequence in self._running:
            self._running.remove(sequence)
            self._free_slots.append(sequence.slot)
            self._sampler.remove(sequence.slot)
            self._drafter.release(sequence.slot)
            self._release(sequence)
        else:
            self._waiting.remove(sequence)
            if sequence.compiling is not None:
                sequence.compiling.cancel()
        self._finished.append(make_result(sequence, reason, error))

    def _release(self, sequence: ActiveRequest) -> None:
        try:
            with self._source_lock:
                self.source.release(sequence.slot)
        except Exception as exc:  # the request has its tokens, and the others go on
            name = type(self.source).__name__
            warnings.warn(f"{name} raised when a request ended: {exc!r}", RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
