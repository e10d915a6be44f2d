"""The step: many requests, one forward pass, masks beside it."""

import secrets
import time
import warnings
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from numbers import Integral
from types import TracebackType
from typing import Self

from constrain.backend import Backend
from constrain.compiler import GrammarCompiler
from constrain.errors import (
    BackendError,
    ClosedError,
    ConstrainError,
    DeadEndError,
    InvalidInputError,
    InvalidPromptError,
    InvalidValueError,
    VocabularyError,
)
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.request import Request
from constrain.result import FinishReason, GenerationResult, NewTokens
from constrain.source import LogitsSource, source_lock
from constrain.step import ActiveRequest, Stepper, as_backend_error
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
        A name (``"auto"``, ``"llguidance"``, ``"xgrammar"``, ``"trie"``) or a backend for ``vocabulary``.
    max_batch_size:
        Requests in one forward pass, B; more wait.

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
    ) -> None:
        if max_batch_size < 1:
            raise InvalidInputError(f"max_batch_size={max_batch_size}: want at least 1")
        if source.max_rows is not None and max_batch_size > source.max_rows:
            raise InvalidInputError(f"max_batch_size={max_batch_size}: the source takes at most {source.max_rows} rows")
        if source.logits_width is not None and source.logits_width != vocabulary.logits_width:
            raise VocabularyError(
                f"the source gives {source.logits_width} logits and the vocabulary expects {vocabulary.logits_width}; "
                "build the vocabulary with logits_width= or model="
            )
        self.source = source
        self.vocabulary = vocabulary
        self.max_batch_size = max_batch_size
        self.compiler = GrammarCompiler(_as_backend(backend, vocabulary))
        self._stepper = Stepper(source, vocabulary, max_batch_size)
        self._source_lock = source_lock(source)
        self._waiting: list[ActiveRequest] = []
        self._running: list[ActiveRequest] = []
        self._finished: list[GenerationResult] = []
        self._free_slots = list(range(max_batch_size - 1, -1, -1))
        self._next_id = 0
        self._closed = False

    def add(self, request: Request) -> int:
        """Queue ``request`` and start compiling its constraint; returns the id that its result will carry.

        Raises ``InvalidPromptError`` or ``VocabularyError`` for what can be known to be wrong before any work. A
        constraint that does not compile ends the request later, in its result.
        """
        if self._closed:
            raise ClosedError("this Engine is closed; make a new one")
        prompt_ids = self._checked_prompt(request)
        compiling = self._start_compiling(request.constraint)
        seed = secrets.randbits(64) if request.params.seed is None else request.params.seed
        sequence = ActiveRequest(
            self._next_id, request, seed, time.perf_counter(), prompt_ids, len(prompt_ids), compiling
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
        """One token for every running request; returns the results of those that ended.

        Where nothing runs and constraints are still compiling, it waits for the first of them.
        """
        if self._closed:
            raise ClosedError("this Engine is closed; make a new one")
        self._end_overdue()
        self._admit()
        if self._running:
            batch = list(self._running)
            with self._source_lock:  # until the tokens are taken: logits may be a view of the source's memory
                outcomes = self._stepper.take_tokens(batch)
            for sequence, outcome in zip(batch, outcomes, strict=True):
                if not sequence.has_ended:  # a decoder, which is the caller's code, may have cancelled it
                    self._commit(sequence, outcome)
        finished, self._finished = self._finished, []
        return finished

    def new_tokens(self, request_id: int) -> NewTokens | None:
        """What a waiting or running request wrote since the last call for it; None once it has ended.

        Its result has all tokens, so the last ones are found there. Costs nothing to those who do not call it.
        """
        for sequence in (*self._running, *self._waiting):
            if sequence.request_id == request_id:
                start, sequence.num_handed_out = sequence.num_handed_out, sequence.num_output
                return NewTokens(start, tuple(sequence.token_ids[sequence.num_prompt + start :]))
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
            self._release(sequence)
        self._waiting, self._running, self._finished = [], [], []
        self.compiler.close(wait=False)
        self._stepper.close()

    # admit

    def _checked_prompt(self, request: Request) -> list[int]:
        prompt_ids, width, limit = request.prompt_ids, self.vocabulary.logits_width, self.source.max_length
        if not len(prompt_ids):
            raise InvalidPromptError("the prompt is empty; give at least one token (the model's BOS, for example)")
        for position, token_id in enumerate(prompt_ids):
            if not isinstance(token_id, Integral) or isinstance(token_id, bool) or not 0 <= token_id < width:
                raise InvalidPromptError(
                    f"prompt token {token_id!r} at position {position}: want an id in [0, {width})"
                )
        if limit is not None and len(prompt_ids) >= limit:
            raise InvalidPromptError(
                f"the prompt has {len(prompt_ids)} tokens and the context {limit}: shorten it by at least "
                f"{len(prompt_ids) - limit + 1}"
            )
        return [int(token_id) for token_id in prompt_ids]

    def _start_compiling(self, constraint: object) -> Future[CompiledGrammar] | None:
        if constraint is None:
            return None
        if isinstance(constraint, GrammarSpec):
            return self.compiler.submit(constraint)
        if not isinstance(constraint, CompiledGrammar):
            raise InvalidInputError(
                f"the constraint of a Request is a GrammarSpec or a CompiledGrammar, not {type(constraint).__name__}; "
                "as_grammar_spec() makes one of types, schemas, patterns and choices"
            )
        theirs = constraint.vocabulary
        if theirs is not self.vocabulary and theirs.fingerprint != self.vocabulary.fingerprint:
            raise VocabularyError("the compiled grammar is for another vocabulary than the engine's; compile it anew")
        done: Future[CompiledGrammar] = Future()
        done.set_result(constraint)
        return done

    def _end_overdue(self) -> None:
        now = time.perf_counter()
        for sequence in [each for each in (*self._waiting, *self._running) if each.deadline <= now]:
            self._finish(sequence, "deadline")

    def _admit(self) -> None:
        """Move requests whose grammar is ready to the batch, in order; end those whose grammar failed."""
        if not self._running and not self._finished:
            self._wait_for_a_grammar()
        for sequence in list(self._waiting):
            if sequence.compiling is not None and not sequence.compiling.done():
                continue
            if not self._free_slots:
                return
            try:
                self._start_grammar(sequence)
            except BaseException as exc:
                self._finish(sequence, "error", as_backend_error(exc, sequence.backend))
                continue
            self._waiting.remove(sequence)
            sequence.slot = self._free_slots.pop()
            sequence.timings.queued_s = time.perf_counter() - sequence.added_at
            self._running.append(sequence)

    def _wait_for_a_grammar(self) -> None:
        compiling = [each.compiling for each in self._waiting if each.compiling is not None]
        if compiling and len(compiling) == len(self._waiting):
            patience = min(each.deadline for each in self._waiting) - time.perf_counter()
            wait(compiling, None if patience == float("inf") else max(patience, 0.0), FIRST_COMPLETED)

    def _start_grammar(self, sequence: ActiveRequest) -> None:
        if sequence.compiling is None:
            return
        try:
            compiled = sequence.compiling.result()
        except CancelledError as exc:
            raise ClosedError("the compile of this constraint was cancelled") from exc
        sequence.backend = compiled.backend_name
        sequence.grammar = compiled.start()
        sequence.backend_reason = compiled.backend_reason
        if compiled.enforced_spec != compiled.grammar_spec:
            sequence.enforced = compiled.enforced_spec

    # commit

    def _commit(self, sequence: ActiveRequest, outcome: int | ConstrainError) -> None:
        if isinstance(outcome, ConstrainError):
            self._finish(sequence, "dead_end" if isinstance(outcome, DeadEndError) else "error", outcome)
            return
        token_id = outcome
        try:
            accepted = sequence.grammar is None or sequence.grammar.accept([token_id]) == 1
        except BaseException as exc:
            self._finish(sequence, "error", as_backend_error(exc, sequence.backend))
            return
        if not accepted:
            message = f"{sequence.backend} refused token {token_id}, which its own mask allowed"
            self._finish(sequence, "error", BackendError(message))
            return
        sequence.token_ids.append(token_id)
        if token_id in self.vocabulary.stop_token_ids:
            self._finish(sequence, "stop")
        elif self._is_out_of_tokens(sequence):
            self._finish(sequence, "length")

    def _is_out_of_tokens(self, sequence: ActiveRequest) -> bool:
        limit = self.source.max_length
        is_full = limit is not None and len(sequence.token_ids) >= limit
        return is_full or sequence.num_output >= sequence.request.params.max_tokens

    # finish

    def _finish(self, sequence: ActiveRequest, reason: FinishReason, error: ConstrainError | None = None) -> None:
        sequence.has_ended = True
        if sequence in self._running:
            self._running.remove(sequence)
            self._free_slots.append(sequence.slot)
            self._release(sequence)
        else:
            self._waiting.remove(sequence)
            if sequence.compiling is not None:
                sequence.compiling.cancel()
        output_ids = sequence.token_ids[sequence.num_prompt :]
        text = self.vocabulary.decode(output_ids).decode("utf-8", errors="replace")
        value: object = None
        if reason == "stop":
            value, error = _decoded(sequence, text, output_ids, self.vocabulary)
            reason = "stop" if error is None else "error"
        sequence.timings.total_s = time.perf_counter() - sequence.added_at
        self._finished.append(
            GenerationResult(
                request_id=sequence.request_id,
                finish_reason=reason,
                value=value,
                text=text,
                token_ids=tuple(output_ids),
                num_prompt_tokens=sequence.num_prompt,
                error=error,
                backend=sequence.backend,
                backend_reason=sequence.backend_reason,
                seed=sequence.seed,
                timings=sequence.timings,
            )
        )

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


def _as_backend(backend: str | Backend, vocabulary: Vocabulary) -> Backend:
    if isinstance(backend, Backend):
        if backend.vocabulary is not vocabulary and backend.vocabulary.fingerprint != vocabulary.fingerprint:
            raise VocabularyError(f"backend {backend.name!r} was made for another vocabulary than the engine's")
        return backend
    from constrain.backends import make_backend

    return make_backend(backend, vocabulary)


def _decoded(
    sequence: ActiveRequest, text: str, output_ids: list[int], vocabulary: Vocabulary
) -> tuple[object, ConstrainError | None]:
    try:
        decode = _decoder(sequence)
        decode_tokens = getattr(decode, "decode_tokens", None)  # of constrain.schema.Constraint
        return (decode(text) if decode_tokens is None else decode_tokens(output_ids, vocabulary)), None
    except InvalidValueError as exc:
        return None, exc
    except Exception as exc:
        error = InvalidValueError(f"decoding the output raised {type(exc).__name__}: {exc}")
        error.__cause__ = exc
        return None, error


def _decoder(sequence: ActiveRequest) -> Callable[[str], object]:
    decode = _asked_decoder(sequence.request)
    enforcing = getattr(decode, "enforcing", None)  # of constrain.schema.decoders.SpecDecoder
    return decode if enforcing is None or sequence.enforced is None else enforcing(sequence.enforced)


def _asked_decoder(request: Request) -> Callable[[str], object]:
    if request.decode is not None:
        return request.decode
    if request.constraint is None:
        return str
    from constrain.schema import as_constraint

    constraint = request.constraint
    grammar_spec = constraint.grammar_spec if isinstance(constraint, CompiledGrammar) else constraint
    return as_constraint(grammar_spec).decode
