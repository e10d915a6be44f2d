"""asyncio: the loop never waits, cancelling returns at once, and the thread cleans up behind it."""

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from constrain import (
    AsyncStream,
    ClosedError,
    InvalidInputError,
    UnsupportedGrammarError,
    agenerate,
    astream,
    regex,
)
from tests.test_stream import BYTES, STOP, Writes, our_threads


def run(main: Coroutine[Any, Any, Any]) -> None:
    """Runs ``main``, then waits for the threads that it left to clean up."""
    before = our_threads()
    asyncio.run(asyncio.wait_for(main, 20))
    patience = time.perf_counter() + 5
    while our_threads() != before and time.perf_counter() < patience:
        time.sleep(0.005)
    assert our_threads() == before


def bytes_of(source: Any, constraint: Any = None, **options: Any) -> AsyncStream:
    return astream(source, [0], constraint, vocabulary=BYTES, temperature=0.0, **options)


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """The moments at which the event loop was free to run something else."""
    ticks: list[float] = []

    async def tick() -> None:
        while True:
            ticks.append(time.perf_counter())
            await asyncio.sleep(0.002)

    task = asyncio.create_task(tick())
    yield ticks
    task.cancel()


def test_events_come_whole_and_the_loop_stays_free() -> None:
    async def main() -> None:
        source = Writes("aé😀".encode(), sleep_s=0.02)
        async with ticking() as ticks, bytes_of(source) as events:
            pieces = [event async for event in events]
        assert [piece.text for piece in pieces] == ["a", "é", "😀", ""]
        result = await events.result()
        assert result is pieces[-1].result and result.token_ids == (*"aé😀".encode(), STOP)
        assert len(ticks) > 10  # 8 steps of 20 ms

    run(main())


def test_two_streams_grow_side_by_side() -> None:
    async def main() -> None:
        order: list[str] = []

        async def read(name: str, text: bytes) -> str:
            pieces = []
            async for event in bytes_of(Writes(text, sleep_s=0.005), regex("[xy]{20}")):
                pieces.append(event.text)
                order.append(name)
            return "".join(pieces)

        assert await asyncio.gather(read("a", b"xy" * 10), read("b", b"yx" * 10)) == ["xy" * 10, "yx" * 10]
        changes = sum(one != other for one, other in pairwise(order))
        assert changes > 5, order

    run(main())


@pytest.mark.parametrize("leave", ["break", "aclose", "with", "raise"])
def test_whoever_leaves_early_leaves_nothing_behind(leave: str) -> None:
    source = Writes(b"x" * 500)

    async def main() -> None:
        if leave == "break":
            async for _ in bytes_of(source):
                break
        elif leave == "aclose":
            events = bytes_of(source)
            await anext(events)
            await events.aclose()
            result = await events.result()
            assert result.finish_reason == "cancelled" and result.text.startswith("x")
            assert [event async for event in events] == []
        elif leave == "with":
            async with bytes_of(source) as events:
                await anext(events)
        else:
            with pytest.raises(RuntimeError, match="consumer"):
                async for _ in bytes_of(source):
                    raise RuntimeError("consumer")

    run(main())
    assert source.released == [0] and len(source.calls) <= 3


def test_cancelling_a_reader_returns_at_once_and_ends_the_request_after_its_step() -> None:
    source = Writes(b"x" * 500, sleep_s=0.8)

    async def main() -> None:
        async def read() -> None:
            async with bytes_of(source) as events:
                async for _ in events:
                    pass

        task = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        started = time.perf_counter()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.perf_counter() - started < 0.4

    run(main())
    assert source.released == [0] and len(source.calls) == 1


def test_the_model_runs_one_event_ahead_and_no_more() -> None:
    source = Writes(b"x" * 500)

    async def main() -> None:
        async with bytes_of(source) as events:
            await anext(events)
            while len(source.calls) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert len(source.calls) == 2

    run(main())


def test_a_deadline_and_a_cancel_end_a_stream_with_its_result() -> None:
    async def main() -> None:
        *_, last = [event async for event in bytes_of(Writes(b"x" * 99, sleep_s=0.03), timeout_s=0.1)]
        assert last.result is not None and last.result.finish_reason == "deadline"
        events = bytes_of(Writes(b"x" * 99, sleep_s=0.01))
        await anext(events)
        events.cancel()
        result = await events.result()
        assert result.finish_reason == "cancelled" and 1 <= len(result.text) <= 3

    run(main())


def test_errors_are_raised_by_the_first_event() -> None:
    async def main() -> None:
        for constraint, error in (({"not": {}}, UnsupportedGrammarError), (object(), InvalidInputError)):
            with pytest.raises(error):
                await anext(bytes_of(Writes(b""), constraint))
        unread = bytes_of(Writes(b""))
        await unread.aclose()
        with pytest.raises(ClosedError, match="before it began"):
            await unread.result()

    run(main())


def test_agenerate_takes_one_prompt_or_many_and_keeps_the_loop_free() -> None:
    async def main() -> None:
        options: dict[str, Any] = {"vocabulary": BYTES, "temperature": 0.0}
        async with ticking() as ticks:
            one = await agenerate(Writes(b"xy", sleep_s=0.02), [0], regex("[xy]+"), **options)
            many = await agenerate(Writes(b"xy"), [[0], [0]], constraints=[None, regex("xy")], **options)
        assert one.value == "xy" and [result.value for result in many] == ["xy", "xy"]
        assert len(ticks) > 5
        with pytest.raises(UnsupportedGrammarError):
            await agenerate(Writes(b""), [0], {"not": {}}, **options)

    run(main())


def test_cancelling_agenerate_returns_at_once_and_ends_every_request() -> None:
    source = Writes(b"x" * 500, sleep_s=0.8)

    async def main() -> None:
        started = time.perf_counter()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agenerate(source, [[0], [0]], vocabulary=BYTES, temperature=0.0), 0.1)
        assert time.perf_counter() - started < 0.5

    run(main())
    assert sorted(source.released) == [0, 1] and len(source.calls) == 1
