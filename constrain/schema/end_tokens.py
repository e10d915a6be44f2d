"""The tokens of a vocabulary with a quote: few, and all that can end a string."""

import numpy as np

from constrain.schema.evaluation import EndBounds
from constrain.schema.known import Flags
from constrain.schema.token_table import TANGLED, Ids, TokenTable, Words, words_of

NO_BOUNDS = EndBounds((), (), ())
"""All contents mean the same."""


class EndTokens:
    """E tokens, in the order of bytes, at ``places`` there; ``contents`` has what some add to a string, by id.

    ``texts`` are those, ascending, and ``numbers`` [E] has the place of each token's own in them, -1 for none; ``all``
    is true for each.
    """

    def __init__(self, table: TokenTable, contents: dict[int, str], num_words: int) -> None:
        self._table, self._num_words = table, num_words
        self.places: Ids = np.array([i for i, token in enumerate(table.ordered) if b'"' in token], dtype=np.int64)
        self._ids = table.order[self.places]
        self._words, self._bits = self._ids >> 5, np.uint32(1) << (self._ids & 31).astype(np.uint32)
        self.all: Flags = np.ones(len(self.places), dtype=bool)
        self.texts = sorted(set(contents.values()))
        self._number_of = {text: number for number, text in enumerate(self.texts)}
        numbers = [self._number_of[contents[i]] if i in contents else -1 for i in self._ids.tolist()]
        self.numbers: Ids = np.array(numbers, dtype=np.int64)
        self._tangled: Flags = np.array([bool(TANGLED.search(table.tokens[i])) for i in self._ids], dtype=bool)
        self._unread: Flags = self._tangled | (self.numbers < 0)

    def among(self, words: Words) -> Flags:
        """Which of them are set in ``words``."""
        flags: Flags = (words[self._words] & self._bits) != 0
        return flags

    def row(self, flags: Flags) -> Words:
        """The row in which those of ``flags`` are set."""
        return words_of(self._ids[flags], self._num_words)

    def flags(self, places: Ids) -> Flags:
        """Those at ``places``."""
        flags = ~self.all
        flags[np.searchsorted(self.places, places)] = True
        return flags

    def listed(self, bounds: EndBounds) -> list[int]:
        """The numbers of the texts that are listed."""
        return list({self._number_of[text] for text in bounds.listed if text in self._number_of})

    def apart(self, bounds: EndBounds) -> Flags:
        """Those whose content is listed, or may be, or is copied behind the quote."""
        if not bounds.listed:
            return self._tangled
        found = self._unread
        for number in self.listed(bounds):
            found = found | (self.numbers == number)
        return found
