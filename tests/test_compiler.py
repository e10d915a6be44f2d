"""Futures, one compile in flight per spec, a bounded cache."""

import threading
import time
from concurrent.futures import CancelledError

import pytest

from constrain import BackendError, ClosedError, CompiledGrammar, GrammarCompiler, InvalidInputError, choice, regex
from constrain.backends.trie import TrieBackend
from constrain.grammar_spec import GrammarSpec
from tests.tiny import tiny_vocabulary


class Counting(TrieBackend):
    """Counts compiles, and lets none end before ``go`` is set."""

    def __init__(self) -> None:
        super().__init__(tiny_vocabulary())
        self.compiled: list[GrammarSpec] = []
        self.go = threading.Event()

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        self.compiled.append(grammar_spec)
        assert self.go.wait(10)
        if grammar_spec == regex("1"):
            raise RuntimeError("the library broke")
        return super().compile(grammar_spec)


def test_equal_specs_in_flight_are_compiled_once() -> None:
    backend = Counting()
    with GrammarCompiler(backend) as compiler:
        futures = [compiler.submit(choice(["a", "b"])) for _ in range(5)]
        backend.go.set()
        grammars = {id(future.result(10)) for future in futures}
        assert len(grammars) == 1 and len(backend.compiled) == 1
        assert compiler.submit(choice(["a", "b"])).done()


def test_cancelling_one_waiter_leaves_the_others() -> None:
    backend = Counting()
    with GrammarCompiler(backend) as compiler:
        first, second = compiler.submit(regex("a")), compiler.submit(regex("a"))
        assert first.cancel()
        backend.go.set()
        assert second.result(10).grammar_spec == regex("a")
        with pytest.raises(CancelledError):
            first.result(10)


def test_an_unknown_failure_reaches_every_waiter_and_is_not_cached() -> None:
    backend = Counting()
    backend.go.set()
    with GrammarCompiler(backend) as compiler:
        for _ in range(2):
            with pytest.raises(BackendError, match="the library broke") as caught:
                compiler.compile(regex("1"))
            assert isinstance(caught.value.__cause__, RuntimeError)
        assert len(backend.compiled) == 2
        assert compiler.compile(regex("a")).backend_name == "trie"


def test_the_least_recently_used_grammar_leaves_the_cache() -> None:
    backend = Counting()
    backend.go.set()
    with GrammarCompiler(backend, max_cached=2) as compiler:
        for pattern in ("a", "b", "a", "ab", "a", "b"):
            compiler.compile(regex(pattern))
    assert backend.compiled == [regex("a"), regex("b"), regex("ab"), regex("b")]


def test_close_fails_what_waits_and_refuses_what_comes() -> None:
    backend = Counting()
    compiler = GrammarCompiler(backend, max_threads=1)
    running, waiting = compiler.submit(regex("a")), compiler.submit(regex("b"))
    while not backend.compiled:
        time.sleep(0.001)
    closing = threading.Thread(target=compiler.close)
    closing.start()
    time.sleep(0.05)
    backend.go.set()
    closing.join(10)
    assert running.result(0).grammar_spec == regex("a")
    with pytest.raises(ClosedError):
        waiting.result(0)
    with pytest.raises(ClosedError):
        compiler.submit(regex("a"))


def test_sizes_are_checked() -> None:
    with pytest.raises(InvalidInputError):
        GrammarCompiler(Counting(), max_threads=0)
