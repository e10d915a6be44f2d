"""The tokens of a vocabulary as trials want them: in the order of their bytes, and which of them can decide what."""

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from constrain.per_vocabulary import once_per_vocabulary
from constrain.vocabulary import Vocabulary

Words: TypeAlias = np.ndarray[Any, np.dtype[np.uint32]]
"""A row of a bitmask: bit ``t % 32`` of word ``t // 32`` is token ``t``."""
Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

# What may stand inside a number, from some place of it on; an exponent of nine digits is always borne.
_PART_OF_NUMBER = re.compile(rb"[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{0,9})?|[+-]?[0-9]{0,9}")
_LONG_EXPONENT = re.compile(rb"[eE][+-]?0*[0-9]{10}")
# What each of ``Bears`` bears to; the last also ends where a literal may.
_ENDS = (
    None,
    re.compile(rb'.*"', re.DOTALL),
    re.compile(rb'.*["\]}]', re.DOTALL),
    re.compile(rb'.*["\]},a-z]', re.DOTALL),
)
TANGLED = re.compile(rb'"[^"]*"[^"]+"')
"""A string ends, or none does, and another stands behind it that may be a copy of it."""
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True, eq=False)
class TokenTable:
    """``ordered`` has the tokens in the order of their bytes, ``order`` [V] their ids, and ``rank`` [V] the place of
    each id there. The others are rows of W words.

    ``ends`` has for each member of ``Bears`` where in each token of ``ordered`` the last byte ends that it does not
    bear; ``tails`` [V], in that order, numbers what stands behind the first quote, -1 where a backslash is before
    it, none is there, or what follows is tangled.
    ``with_quote`` has the tokens that can end a string, ``without_quote`` the others, ``ends_number`` those that can do
    more than go on with a number (by a byte that is none of a number's, or a long exponent), ``closing`` those with a
    quote or a closing bracket (or a long exponent), ``not_blank`` those that are more than white space, ``stops`` the
    stop tokens. ``longest`` is the most bytes of one, ``longest_number`` of one that goes on with a number.
    """

    tokens: list[bytes]
    ordered: list[bytes]
    order: Ids
    rank: Ids
    ends: list[list[int]]
    tails: Ids
    with_quote: Words
    without_quote: Words
    closing: Words
    ends_number: Words
    not_blank: Words
    stops: Words
    stop_ids: frozenset[int]
    longest_number: int
    longest: int

    def places(self, words: Words) -> Ids:
        """Where in the order of bytes the tokens are whose bits are set, ascending."""
        return np.sort(self.rank[ids_of(words)])

    def place_behind(self, prefix: bytes) -> int:
        """The place of the first token behind all that begin with ``prefix``."""
        while prefix and prefix[-1] == 0xFF:
            prefix = prefix[:-1]
        if not prefix:
            return len(self.ordered)
        return bisect_left(self.ordered, prefix[:-1] + bytes((prefix[-1] + 1,)))

    def beginnings(self, text: str) -> list[int]:
        """The ids of all tokens that ``text`` begins with."""
        data = text.encode("utf-8", "surrogatepass")
        found: list[int] = []
        at = len(self.ordered)
        while data and (at := bisect_right(self.ordered, data, hi=at)):
            # Of all before it, the last has the most in common with it.
            last = self.ordered[at - 1]
            while not data.startswith(last):
                last = last[:-1]
            if last == self.ordered[at - 1]:
                first = bisect_left(self.ordered, last)
                found += self.order[first:at].tolist() if last else []
                last = last[:-1]
            data = last
        return found


def ids_of(words: Words) -> Ids:
    """The ids whose bits are set in a row, ascending."""
    filled = np.flatnonzero(words)
    bits = np.unpackbits(words[filled].view(np.uint8), bitorder="little").reshape(len(filled), 32)
    rows, columns = np.nonzero(bits)
    return filled[rows] * 32 + columns


def one_of(words: Words) -> Words:
    """A row in which one bit is set of those that are set in ``words``, which has some."""
    first = int(np.argmax(words != 0))
    row = np.zeros_like(words)
    row[first] = words[first] & (~words[first] + np.uint32(1))
    return row


def words_of(ids: Any, num_words: int) -> Words:
    """The row in which the bits of ``ids`` are set."""
    given = np.asarray(ids, dtype=np.int64)
    bits = np.zeros(32 * num_words, dtype=bool)
    bits[given] = True
    return packed(bits)


def packed(bits: Any) -> Words:
    """The row of ``bits`` [32 W]."""
    words: Words = np.packbits(bits, bitorder="little").view(np.uint32)
    return words


def _tail(token: bytes) -> bytes | None:
    before, quote, behind = token.partition(b'"')
    return behind if quote and b"\\" not in before and not TANGLED.search(token) else None


def _end(token: bytes, pattern: "re.Pattern[bytes] | None") -> int:
    """Where the longest match from its start ends, 0 for none."""
    if pattern is None or _LONG_EXPONENT.search(token):
        return len(token)
    match = pattern.match(token)
    return match.end() if match else 0


@once_per_vocabulary
def token_table(vocabulary: Vocabulary) -> TokenTable:
    tokens = vocabulary.token_bytes
    order = sorted(range(len(tokens)), key=tokens.__getitem__)
    rank = np.empty(len(tokens), dtype=np.int64)
    rank[order] = np.arange(len(tokens))

    def row(ids: list[int]) -> Words:
        return words_of(ids, vocabulary.num_mask_words)

    ordered = [tokens[i] for i in order]
    numbers: dict[bytes, int] = {}
    tails = [numbers.setdefault(tail, len(numbers)) if tail is not None else -1 for tail in map(_tail, ordered)]
    return TokenTable(
        tokens=list(tokens),
        ordered=ordered,
        ends=[[_end(token, pattern) for token in ordered] for pattern in _ENDS],
        tails=np.array(tails, dtype=np.int64),
        closing=row([i for i, token in enumerate(tokens) if _end(token, _ENDS[2])]),
        order=np.array(order, dtype=np.int64),
        rank=rank,
        without_quote=row([i for i, token in enumerate(tokens) if b'"' not in token]),
        with_quote=row([i for i, token in enumerate(tokens) if b'"' in token]),
        ends_number=row([i for i, token in enumerate(tokens) if not _PART_OF_NUMBER.fullmatch(token)]),
        not_blank=row([i for i, token in enumerate(tokens) if token.strip(_BLANKS)]),
        stops=row(list(vocabulary.stop_token_ids)),
        stop_ids=frozenset(vocabulary.stop_token_ids),
        longest=max(map(len, tokens)),
        longest_number=max((len(token) for token in tokens if _PART_OF_NUMBER.fullmatch(token)), default=0),
    )
