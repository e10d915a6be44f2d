"""What is derived from a vocabulary once, and kept as long as the vocabulary lives."""

from collections.abc import Callable
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

from constrain.vocabulary import Vocabulary

Made = TypeVar("Made")


def once_per_vocabulary(make: Callable[[Vocabulary], Made]) -> Callable[[Vocabulary], Made]:
    """``make``, called once for each vocabulary, whichever thread asks first. What it gives must not hold the
    vocabulary, which would then never go.
    """
    made: WeakKeyDictionary[Vocabulary, Made] = WeakKeyDictionary()
    making = Lock()

    def of(vocabulary: Vocabulary) -> Made:
        found = made.get(vocabulary)
        if found is None:
            with making:
                found = made.get(vocabulary)
                if found is None:
                    found = made[vocabulary] = make(vocabulary)
        return found

    return of
