"""``generate`` and ``stream`` for asyncio: the model runs on a thread, the event loop never waits for it."""

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, Unpack, overload

from constrain.errors import ClosedError
from constrain.generate import generate_until
from constrain.inputs import ManyOptions, Message, OneOptions, Prompt
from constrain.result import GenerationResult
from constrain.stream import Stream, stream
from constrain.stream_pieces import StreamEvent


@overload
async def agenerate(
    model: Any,
    prompt: str | Sequence[Message] | Sequence[int],
    constraint: Any = None,
    **options: Unpack[OneOptions],
) -> GenerationResult: ...


@overload
async def agenerate(
    model: Any, prompt: Sequence[Prompt], constraint: Any = None, **options: Unpack[ManyOptions]
) -> list[GenerationResult]: ...


async def agenerate(model: Any, prompt: Any, constraint: Any = None, **options: Unpack[ManyOptions]) -> Any:
    """:func:`constrain.generate` on a thread of its own.

    Cancelling the task returns at once; the thread ends after the step that it is in.
    """
    stopped = threading.Event()
    thread = ThreadPoolExecutor(1, thread_name_prefix="constrain-generate")
    running = thread.submit(generate_until, stopped.is_set, model, prompt, constraint, **options)
    thread.shutdown(wait=False)  # the thread goes when its work is done
    try:
        return await asyncio.wrap_future(running)
    finally:
        stopped.set()


class AsyncStream:
    """An asynchronous iterator over the :class:`StreamEvent` s of one output; made by :func:`astream`.

    The model runs on a thread, one event ahead of its reader. Leaving early (the end of an ``async with`` block,
    ``aclose()``, cancelling the task that waits for an event, dropping the stream) returns at once; the thread ends the
    request and frees all it holds after the step that it is in. ``await result()`` waits for that.
    """

    def __init__(self, open_stream: Callable[[], Stream]) -> None:
        self._worker = _Worker(open_stream)
        self._finalizer = weakref.finalize(self, self._worker.stop)
        self._finalizer.atexit = False  # executors end their threads at exit by themselves
        self._ahead: Future[StreamEvent | None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamEvent:
        if not self._finalizer.alive:
            raise StopAsyncIteration
        waiting = self._ahead or self._worker.next_event()
        try:
            event = await asyncio.wrap_future(waiting)
        except BaseException:  # a cancelled task, too
            self._finalizer()
            raise
        if event is None:
            self._finalizer()
            raise StopAsyncIteration
        if event.result is None:
            self._ahead = self._worker.next_event()
        else:
            self._finalizer()
        return event

    async def result(self) -> GenerationResult:
        """The result; what is left of the stream is read first. After ``aclose()`` it says ``"cancelled"``."""
        async for _ in self:
            pass
        return await asyncio.wrap_future(self._worker.stop())

    def cancel(self) -> None:
        """Have the stream end with ``finish_reason="cancelled"`` before its next token. From any thread."""
        self._worker.cancel()

    async def aclose(self) -> None:
        """End the request, if it has not ended."""
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def astream(
    model: Any,
    prompt: str | Sequence[Message] | Sequence[int],
    constraint: Any = None,
    *,
    stable: bool = False,
    **options: Unpack[OneOptions],
) -> AsyncStream:
    """:func:`constrain.stream` for asyncio.

    ::

        async with astream(model, prompt, User) as events:
            async for event in events:
                print(event.text, end="")
        user = (await events.result()).unwrap()

    Takes what ``stream`` takes. Everything happens on the stream's thread, so what is wrong with the call is raised by
    the first event.
    """
    return AsyncStream(lambda: stream(model, prompt, constraint, stable=stable, **options))


class _Worker:
    """The thread of an :class:`AsyncStream` and what it owns. Holds no reference to the latter, so that it can go."""

    def __init__(self, open_stream: Callable[[], Stream]) -> None:
        self._open = open_stream
        self._stream: Stream | None = None
        self._cancelled = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="constrain-stream")
        self._stopping: Future[GenerationResult] | None = None

    def next_event(self) -> Future[StreamEvent | None]:
        return self._thread.submit(self._next_event)

    def cancel(self) -> None:
        self._cancelled.set()
        if self._stream is not None:
            self._stream.cancel()

    def stop(self) -> Future[GenerationResult]:
        """End the request behind the step that runs, then the thread; the future has the result."""
        if self._stopping is None:
            self.cancel()
            self._stopping = self._thread.submit(self._stop)
            self._thread.shutdown(wait=False)
        return self._stopping

    def _next_event(self) -> StreamEvent | None:
        if self._stream is None:
            self._stream = self._open()
            if self._cancelled.is_set():
                self._stream.cancel()
        return next(self._stream, None)

    def _stop(self) -> GenerationResult:
        if self._stream is None:
            raise ClosedError("the stream was closed before it began")
        self._stream.close()
        return self._stream.result()
