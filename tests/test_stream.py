"""Streams: exact pieces, whole characters, partial values, and nothing left behind by whoever leaves early."""

import random
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from pydantic import BaseModel, TypeAdapter

from constrain import (
    ClosedError,
    Engine,
    InvalidPromptError,
    InvalidSchemaError,
    Request,
    SamplingParams,
    SequenceView,
    SourceError,
    StreamEvent,
    UnsupportedGrammarError,
    Vocabulary,
    generate,
    regex,
    stream,
)
from tests.tiny import AB, EOS, ONE, SPACE, A, B, ScriptedSource, tiny_vocabulary

STOP = 256
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), b""], stop_token_ids=[STOP])


class Writes(ScriptedSource):
    """Writes ``text`` byte by byte, and sleeps before each."""

    def __init__(self, text: bytes, *, sleep_s: float = 0.0) -> None:
        super().__init__({0: [*text, STOP]}, width=257)
        self.sleep_s = sleep_s

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        time.sleep(self.sleep_s)
        return super().__call__(views)


def our_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("constrain")}


def assert_threads_end(before: set[str]) -> None:
    """The threads that are not in ``before`` end by themselves; an idle one needs a moment to notice."""
    patience = time.perf_counter() + 10
    while not our_threads() <= before and time.perf_counter() < patience:
        time.sleep(0.01)
    assert our_threads() <= before


def tiny_stream(source: ScriptedSource, constraint: Any = None, **options: Any) -> Any:
    return stream(source, [A], constraint, vocabulary=tiny_vocabulary(), backend="trie", temperature=0.0, **options)


def byte_stream(source: ScriptedSource, constraint: Any = None, **options: Any) -> Any:
    return stream(source, [0], constraint, vocabulary=BYTES, temperature=0.0, **options)


def test_each_token_is_an_event_and_the_last_has_the_result() -> None:
    events = list(tiny_stream(ScriptedSource({A: [AB, SPACE, ONE]})))
    assert [(event.text, event.token_ids) for event in events] == [
        ("ab", (AB,)),
        (" ", (SPACE,)),
        ("1", (ONE,)),
        ("", (EOS,)),
    ]
    assert [event.result is None for event in events] == [True, True, True, False]
    result = events[-1].result
    assert result is not None and result.ok and (result.value, result.request_id) == ("ab 1", 0)


def test_a_stream_writes_what_generate_writes() -> None:
    source = ScriptedSource({A: [AB, B, ONE, A] * 4})
    options: dict[str, Any] = {"vocabulary": tiny_vocabulary(), "backend": "trie", "temperature": 1.5, "seed": 7}
    whole = generate(source, [A], regex("[ab12]{9}"), **options)
    with stream(source, [A], regex("[ab12]{9}"), **options) as events:
        pieces = list(events)
    assert events.result().token_ids == whole.token_ids == tuple(i for piece in pieces for i in piece.token_ids)
    assert "".join(piece.text for piece in pieces) == whole.text


def test_a_character_is_never_cut() -> None:
    written = "aé€😀ü"
    events = list(byte_stream(Writes(written.encode())))
    assert [event.text for event in events] == [*written, ""]
    assert [len(event.token_ids) for event in events] == [1, 2, 3, 4, 2, 1]


@pytest.mark.parametrize("max_tokens", [2, 3, 4])
def test_a_character_cut_by_the_limit_is_replaced_at_the_end(max_tokens: int) -> None:
    events = list(byte_stream(Writes("a😀".encode()), max_tokens=max_tokens))
    assert [event.text for event in events] == ["a", "\ufffd"]
    assert events[-1].result is not None and events[-1].result.finish_reason == "length"
    assert events[-1].result.text == "a\ufffd"


def test_pieces_of_any_bytes_join_to_the_text_of_the_result() -> None:
    draw = random.Random(5)
    interesting = [0x41, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80, 0xED, 0xA0, 0xFF, 0xC0]
    for _ in range(60):
        written = bytes(draw.choices(interesting, k=draw.randrange(1, 12)))
        events = list(byte_stream(Writes(written)))
        assert "".join(event.text for event in events) == events[-1].result.text == written.decode(errors="replace")
        assert tuple(i for event in events for i in event.token_ids) == (*written, STOP)


def test_partial_values_come_where_they_change() -> None:
    class User(BaseModel):
        name: str
        tags: list[str]

    events = list(byte_stream(Writes(b'{"name": "Jo", "tags": ["x"]}'), User))
    changes = [event.partial for event in events if event.partial is not None]
    assert changes == [
        {},
        {"name": ""},
        {"name": "J"},
        {"name": "Jo"},
        {"name": "Jo", "tags": []},
        {"name": "Jo", "tags": [""]},
        {"name": "Jo", "tags": ["x"]},
    ]
    assert events[-1].result.value == User(name="Jo", tags=["x"])


def test_pydantic_makes_objects_of_a_partial_list() -> None:
    class Point(BaseModel):
        x: int
        y: int

    adapter = TypeAdapter(list[Point])
    counts = [
        len(adapter.validate_python(event.partial, experimental_allow_partial=True))
        for event in byte_stream(Writes(b'[{"x":1,"y":2},{"x":3,"y":4}]'), list[Point])
        if event.partial is not None
    ]
    assert counts == [0, 0, 0, 1, 1, 1, 2]


def test_text_has_no_partial_value() -> None:
    assert {event.partial for event in byte_stream(Writes(b"12"), regex("[0-9]+"))} == {None}


@pytest.mark.parametrize("leave", ["break", "close", "raise", "with", "drop"])
def test_whoever_leaves_early_leaves_nothing_behind(leave: str) -> None:
    source, before = ScriptedSource({A: [B] * 50}), our_threads()
    if leave == "break":
        for _ in tiny_stream(source, regex("[ab]+")):
            break
    elif leave == "close":
        events = tiny_stream(source, regex("[ab]+"))
        next(events)
        events.close()
        result = events.result()
        assert (result.finish_reason, result.text, list(events)) == ("cancelled", "b", [])
    elif leave == "raise":
        with pytest.raises(RuntimeError, match="consumer"):
            for _ in tiny_stream(source, regex("[ab]+")):
                raise RuntimeError("consumer")
    elif leave == "with":
        with tiny_stream(source, regex("[ab]+")) as events:
            next(events)
    else:
        next(tiny_stream(source, regex("[ab]+")))
    assert source.released == [0] and len(source.calls) == 1
    assert_threads_end(before)


def test_a_stream_that_nobody_reads_costs_no_step() -> None:
    source, before = ScriptedSource({A: [B]}), our_threads()
    tiny_stream(source)
    assert source.calls == []
    assert_threads_end(before)


def test_result_reads_what_is_left() -> None:
    events = tiny_stream(ScriptedSource({A: [AB, SPACE, ONE]}))
    assert next(events).text == "ab"
    assert events.result().text == "ab 1" == events.result().text
    assert list(events) == []


def test_cancel_from_another_thread_ends_the_stream_with_what_it_has() -> None:
    events = byte_stream(Writes(b"x" * 200, sleep_s=0.01))
    pieces = [next(events)]
    timer = threading.Timer(0.05, events.cancel)
    timer.start()
    pieces += events
    timer.join()
    result = pieces[-1].result
    assert result.finish_reason == "cancelled" and 1 <= len(result.text) < 100
    assert "".join(piece.text for piece in pieces) == result.text


def test_a_deadline_ends_the_stream_with_what_it_has() -> None:
    *pieces, last = byte_stream(Writes(b"x" * 200, sleep_s=0.05), timeout_s=0.3)
    assert last.result.finish_reason == "deadline" and 1 <= len(pieces) <= 7
    assert last.result.text == "x" * len(pieces)


def test_what_is_wrong_with_the_call_is_raised_and_frees_the_threads() -> None:
    before = our_threads()
    with pytest.raises(InvalidPromptError):
        stream(ScriptedSource({}), [], vocabulary=tiny_vocabulary())
    with pytest.raises(InvalidPromptError, match="99"):
        stream(ScriptedSource({}), [99], vocabulary=tiny_vocabulary())
    with pytest.raises(InvalidSchemaError):
        byte_stream(Writes(b""), {"type": "strin"})
    refused = byte_stream(Writes(b""), {"not": {}})
    for _ in range(2):
        with pytest.raises(UnsupportedGrammarError):
            refused.result()
    assert_threads_end(before)


def test_what_fails_on_the_way_stands_in_the_result() -> None:
    class Breaks(ScriptedSource):
        def row(self, token_ids: Sequence[int]) -> torch.Tensor:
            if len(token_ids) == 3:
                raise RuntimeError("no more")
            return super().row(token_ids)

    *pieces, last = tiny_stream(Breaks({A: [B] * 9}))
    assert [piece.text for piece in pieces] == ["b", "b"]
    assert last.result.finish_reason == "error" and isinstance(last.result.error, SourceError)


def test_an_interrupted_step_closes_the_stream() -> None:
    class Interrupted(ScriptedSource):
        def row(self, token_ids: Sequence[int]) -> torch.Tensor:
            if len(token_ids) == 2:
                raise KeyboardInterrupt
            return super().row(token_ids)

    source, before = Interrupted({A: [B] * 9}), our_threads()
    events = tiny_stream(source)
    next(events)
    with pytest.raises(KeyboardInterrupt):
        next(events)
    assert source.released == [0]
    assert_threads_end(before)
    with pytest.raises(ClosedError, match="exception"):
        events.result()


def test_streams_on_threads_share_a_source_that_remembers() -> None:
    class Remembers(ScriptedSource):
        """Like a cache of keys and values: wrong where two calls overlap."""

        busy = False

        def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
            assert not self.busy, "two calls at once"
            self.busy = True
            time.sleep(0.002)
            self.busy = False
            return super().__call__(views)

    source = Remembers({A: [AB, ONE] * 5, B: [B, SPACE] * 5})
    texts: dict[int, str] = {}

    def read(prompt: int) -> None:
        events = stream(source, [prompt], vocabulary=tiny_vocabulary(), temperature=0.0)
        texts[prompt] = "".join(event.text for event in events)

    threads = [threading.Thread(target=read, args=(prompt,)) for prompt in (A, B)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {A: "ab1" * 5, B: "b " * 5}


def test_an_engine_hands_out_new_tokens_of_each_request() -> None:
    with Engine(ScriptedSource({A: [AB, ONE, SPACE], B: [B] * 9}), tiny_vocabulary(), backend="trie") as engine:
        params = SamplingParams(temperature=0.0, max_tokens=5)
        first, second = (engine.add(Request(prompt_ids=[prompt], params=params)) for prompt in (A, B))
        waiting = engine.new_tokens(first)
        assert waiting is not None and (waiting.start, waiting.token_ids) == (0, ())
        engine.step()
        engine.step()
        new = engine.new_tokens(first)
        assert new is not None and (new.start, new.token_ids) == (0, (AB, ONE))
        engine.step()
        new = engine.new_tokens(first)
        assert new is not None and (new.start, new.token_ids) == (2, (SPACE,))
        [ended] = engine.step()
        assert ended.token_ids == (AB, ONE, SPACE, EOS) and engine.new_tokens(first) is None
        new = engine.new_tokens(second)
        assert new is not None and (new.start, new.token_ids) == (0, (B,) * 4)
        assert engine.new_tokens(99) is None


@pytest.mark.model
def test_a_real_model_streams_the_text_of_its_result(smollm2: tuple[Any, Any]) -> None:
    class City(BaseModel):
        name: str
        population: int

    model, tokenizer = smollm2
    messages = [{"role": "user", "content": "Describe Paris as JSON with name and population."}]
    options: dict[str, Any] = {"tokenizer": tokenizer, "temperature": 0.0, "max_tokens": 60}
    events: list[StreamEvent] = []
    with stream(model, messages, City, **options) as reading:
        events += reading
    result = reading.result()
    assert isinstance(result.unwrap(), City)
    assert "".join(event.text for event in events) == result.text == generate(model, messages, City, **options).text
    partials = [event.partial for event in events if event.partial is not None]
    assert partials[-1] == result.value.model_dump() and len(partials) > 4
