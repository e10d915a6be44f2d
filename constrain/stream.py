"""The output as it grows."""

import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from constrain.engine import Engine
from constrain.errors import ClosedError
from constrain.generate import raise_if_refused
from constrain.inputs import Message, OneOptions, Options, cached_backend, make_request, prepare
from constrain.request import Request
from constrain.result import GenerationResult
from constrain.stream_pieces import StreamEvent, StreamPieces


class Stream:
    """An iterator over the :class:`StreamEvent` s of one output; made by :func:`stream`.

    Leaving early ends the request and frees its place in the model and its threads: at the end of a ``with`` block, at
    ``close()``, or when nothing refers to the stream any more, as after a ``break`` out of
    ``for event in stream(...)``. For one thread, ``cancel`` aside.
    """

    def __init__(self, engine: Engine, request: Request, *, stable: bool = False) -> None:
        self._engine = engine
        self._stable = stable
        # Not a __del__: it must not refer to the stream, and runs at the exit of the interpreter, too.
        self._finalizer = weakref.finalize(self, engine.close)
        self._cancelled = threading.Event()
        self._result: GenerationResult | None = None
        self._pieces = StreamPieces(request, engine.vocabulary)
        try:
            self._request_id = engine.add(request)
        except BaseException:
            self._finalizer()
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> StreamEvent:
        while self._finalizer.alive:
            try:
                event = self._step()
            except BaseException:
                self._finalizer()
                raise
            if event is not None:
                return event
        raise StopIteration

    def result(self) -> GenerationResult:
        """The result; what is left of the stream is read first. After ``close()`` it says ``"cancelled"``."""
        for _ in self:
            pass
        if self._result is None:
            raise ClosedError("the stream ended by an exception and has no result")
        return raise_if_refused(self._result)

    def cancel(self) -> None:
        """Have the stream end with ``finish_reason="cancelled"`` before its next token. From any thread."""
        self._cancelled.set()

    def close(self) -> None:
        """End the request now, if it has not ended."""
        if self._finalizer.alive:
            try:
                self._engine.cancel(self._request_id)
                for result in self._engine.step():  # no more than the cancelled one
                    self._result = result
            finally:
                self._finalizer()

    def _step(self) -> StreamEvent | None:
        """One step of the engine; None where it wrote no whole character."""
        if self._cancelled.is_set():
            self._engine.cancel(self._request_id)
        for result in self._engine.step():
            self._result = result
            self._finalizer()
            return self._pieces.last_event(raise_if_refused(result))
        new = self._engine.new_tokens(self._request_id, stable=self._stable)
        return None if new is None else self._pieces.event(new)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def stream(
    model: Any,
    prompt: str | Sequence[Message] | Sequence[int],
    constraint: Any = None,
    *,
    stable: bool = False,
    **options: Unpack[OneOptions],
) -> Stream:
    """Generate for one prompt and hand out the text as it grows.

    ::

        with stream(model, prompt, User) as events:
            for event in events:
                print(event.text, end="")
        user = events.result().unwrap()

    The arguments, and what is raised, are those of :func:`constrain.generate`; a constraint that does not compile is
    raised by the first event. The tokens are those that ``generate`` gives for the same seed, but for dead ends of a
    ``stable`` stream. The model runs when the next event is asked for, so the time that you take over one counts
    towards ``timeout_s``. Streams on several threads may share a model; a function as a model must bear being called by
    several threads then. For many outputs at once ``Engine.new_tokens`` is cheaper, since they share each forward pass.

    At a dead end the engine takes tokens back, which an event says (``retracted``). With ``stable`` nothing that was
    handed out is ever taken back. Where checks decide a schema, and so dead ends are to be expected, text is held until
    the value that it belongs to is closed. Other grammars know no values, and mostly no dead ends: text is not held,
    and a dead end that ``generate`` would go around ends the request, with a ``DeadEndError`` that says so.
    """
    read = Options.read(options)
    source, vocabulary, tokenizer = prepare(model, read.tokenizer, read.vocabulary)
    request = make_request(prompt, constraint, read, vocabulary, tokenizer)
    backend = cached_backend(read.backend, vocabulary)
    engine = Engine(source, vocabulary, backend=backend, max_batch_size=1, **read.engine)
    return Stream(engine, request, stable=stable)
