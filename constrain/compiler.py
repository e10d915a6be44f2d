"""Compiling in the background: one compile per spec in flight, a bounded cache, futures."""

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from constrain.backend import Backend
from constrain.errors import BackendError, ClosedError, ConstrainError, InvalidInputError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec


class GrammarCompiler:
    """Compiles specs on threads and keeps the results.

    Parameters
    ----------
    backend:
        Does the work. The libraries release the GIL while they compile.
    max_threads:
        Compiles that run at one time.
    max_cached:
        Compiled grammars kept, least recently used out first. Errors are not kept.

    Close it when done (it is a context manager). Safe to use from several threads.
    """

    def __init__(self, backend: Backend, *, max_threads: int = 2, max_cached: int = 256) -> None:
        if max_threads < 1 or max_cached < 0:
            raise InvalidInputError(f"max_threads={max_threads}, max_cached={max_cached}: want at least 1 and 0")
        self.backend = backend
        self._max_cached = max_cached
        self._pool = ThreadPoolExecutor(max_threads, thread_name_prefix="constrain-compile")
        self._lock = threading.Lock()
        self._cache: OrderedDict[GrammarSpec, CompiledGrammar] = OrderedDict()
        self._waiting: dict[GrammarSpec, list[Future[CompiledGrammar]]] = {}
        self._closed = False

    def submit(self, grammar_spec: GrammarSpec) -> Future[CompiledGrammar]:
        """A future of the compiled ``grammar_spec``: done at once where it is cached.

        Every call has a future of its own, so that one caller's ``cancel()`` touches nobody else; the compile itself
        is shared and, since no library can be interrupted, runs to its end. Raises ``ClosedError`` after ``close()``.
        """
        future: Future[CompiledGrammar] = Future()
        with self._lock:
            if self._closed:
                raise ClosedError("this GrammarCompiler is closed; make a new one")
            compiled = self._cache.get(grammar_spec)
            if compiled is not None:
                self._cache.move_to_end(grammar_spec)
            elif grammar_spec in self._waiting:
                self._waiting[grammar_spec].append(future)
            else:
                self._pool.submit(self._compile, grammar_spec)  # waits for this lock before it settles anything
                self._waiting[grammar_spec] = [future]
        if compiled is not None:
            future.set_result(compiled)
        return future

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        """``submit`` and wait. Raises what the backend raised."""
        return self.submit(grammar_spec).result()

    def close(self, *, wait: bool = True) -> None:
        """Finish the compiles that run, fail those that wait with ``ClosedError``, and refuse new ones.

        Without ``wait`` those that run fail, too; their threads go on to the end, since no library can be interrupted.
        """
        with self._lock:
            self._closed = True
        self._pool.shutdown(wait=wait, cancel_futures=True)
        with self._lock:
            abandoned = [future for waiting in self._waiting.values() for future in waiting]
            self._waiting.clear()
            self._cache.clear()
        for future in abandoned:
            _settle(future, ClosedError("the GrammarCompiler was closed before this grammar was compiled"))

    def _compile(self, grammar_spec: GrammarSpec) -> None:
        outcome: CompiledGrammar | BaseException
        try:
            outcome = self.backend.compile(grammar_spec)
        except ConstrainError as exc:
            outcome = exc
        except BaseException as exc:  # whatever a library throws must reach the waiting callers, or they wait for ever
            outcome = BackendError(f"{self.backend.name} failed on {grammar_spec!r}: {exc}")
            outcome.__cause__ = exc
        with self._lock:
            waiting = self._waiting.pop(grammar_spec, [])
            if isinstance(outcome, CompiledGrammar) and not self._closed:
                self._cache[grammar_spec] = outcome
                while len(self._cache) > self._max_cached:
                    self._cache.popitem(last=False)
        for future in waiting:
            _settle(future, outcome)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _settle(future: Future[CompiledGrammar], outcome: CompiledGrammar | BaseException) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
