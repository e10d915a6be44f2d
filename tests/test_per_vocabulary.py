"""What is kept for a vocabulary is made once, and goes with it."""

import gc
import threading
import weakref

from constrain.per_vocabulary import once_per_vocabulary
from constrain.vocabulary import Vocabulary


def vocabulary() -> Vocabulary:
    return Vocabulary([b"a", b"b", b""], stop_token_ids=[2])


def test_threads_that_ask_at_once_are_given_the_same() -> None:
    calls: list[int] = []
    entered, go_on = threading.Event(), threading.Event()

    @once_per_vocabulary
    def made(of: Vocabulary) -> list[int]:
        entered.set()
        go_on.wait(10)
        calls.append(of.size)
        return [of.size]

    asked, found = vocabulary(), list[list[int]]()
    threads = [threading.Thread(target=lambda: found.append(made(asked))) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert entered.wait(10)
    go_on.set()
    for thread in threads:
        thread.join()
    assert calls == [3]
    assert len(found) == 4
    assert len({id(each) for each in found}) == 1


def test_it_is_let_go_with_its_vocabulary() -> None:
    class Made:
        pass

    made = once_per_vocabulary(lambda of: Made())
    asked = vocabulary()
    kept = weakref.ref(made(asked))
    assert kept() is made(asked)
    assert made(vocabulary()) is not kept()
    del asked
    gc.collect()
    assert kept() is None
