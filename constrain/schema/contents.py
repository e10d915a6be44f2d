"""Which tokens mean the same inside a string, by what they add to its content: all of a vocabulary at once."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import numpy as np

from constrain.per_vocabulary import once_per_vocabulary
from constrain.schema.end_tokens import EndTokens
from constrain.schema.evaluation import Automaton, ContentBounds, EndBounds, State
from constrain.schema.evaluation.characters import Ranges
from constrain.schema.paths import ACCEPTS, FAILED, MATCHED, OPEN, UNKNOWN, Codes, Paths, TextTrie
from constrain.schema.token_content import MAX_CHARACTERS, begun_ranges, content_of
from constrain.schema.token_table import Ids, Words, packed, token_table, words_of
from constrain.vocabulary import Vocabulary

_MAX_PARTS = 200
_MAX_PATHS = 64
_MAX_STATES = 256
_NO_TEXT = 255
_OWN = 1 << 30
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class _After:
    """Where the tokens without a quote lead: to a match in any case, to what is undecided or to a failure, by rows;
    those in none to what nobody knows. ``ends``: the code of each content that a quote follows."""

    matched: Words
    open: Words
    failed: Words
    ends: Codes


class Contents:
    """What the tokens of ``vocabulary`` add to a string up to the first quote: characters, the last maybe begun only.

    An escape counts as its character, unless a quote follows.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._table, self._num_words = token_table(vocabulary), vocabulary.num_mask_words
        tokens = list(enumerate(vocabulary.token_bytes))
        found = {i: content for i, token in tokens if token and (content := content_of(token))}
        texts = sorted({"", *(content.text for content in found.values())})
        number_of = {text: number for number, text in enumerate(texts)}
        self._trie = TextTrie(texts)
        quoted = {i for i in found if b'"' in vocabulary.token_bytes[i]}

        self.ends = EndTokens(self._table, {i: found[i].text for i in quoted}, self._num_words)
        self._ended_numbers = _ids([number_of[text] for text in self.ends.texts])
        self._ended_lengths = _ids(list(map(len, self.ends.texts)))

        # The text of each token without a quote; behind the last one for others. A character that has begun counts.
        going = {i: content for i, content in found.items() if i not in quoted}
        self._texts: Ids = np.full(32 * self._num_words, len(texts), dtype=np.int64)
        self._texts[list(going)] = [number_of[content.text] for content in going.values()]
        lengths: Ids = np.full(32 * self._num_words, MAX_CHARACTERS + 1, dtype=np.int64)
        lengths[list(going)] = [len(content.text) + bool(content.fragment) for content in going.values()]
        self._lengths = np.unique([0, *lengths[list(going)]]).tolist()
        self._up_to = [packed(lengths <= length) for length in self._lengths]

        self._escaped = {i: content for i, content in going.items() if content.escaped or content.fragment[:1] == b"\\"}
        self._escapes: dict[Ranges, Words] = {}
        begun = {i: content.fragment for i, content in going.items() if content.fragment}
        fragments = list(dict.fromkeys(begun.values()))
        self._fragments = fragments
        number_of_begun = {fragment: number for number, fragment in enumerate(fragments)}
        self._begun = _ids(list(begun))
        self._begun_numbers = _ids([number_of_begun[fragment] for fragment in begun.values()])

        self._paths: dict[tuple[Automaton, Ranges], tuple[Paths, Ids]] = {}
        self._after: dict[tuple[Automaton, State, Ranges], _After] = {}
        self._lock = Lock()

    def prepare(self, automata: Iterable[Automaton], escapes: Ranges) -> None:
        """Have what contents at the start of a string need."""
        for automaton in automata:
            if not automaton.start.verdict:
                self._of(automaton, automaton.start, escapes)

    def alike(self, bounds: ContentBounds, escapes: Ranges, words: Words) -> list[Words]:
        """Parts of ``words``, tokens without a quote, each of alike ones; what is in none is for itself.

        ``escapes``: the characters that may be written with a backslash.
        """
        parts = [words & self._up_to[-1] & ~self._beyond(escapes) & ~self._listed(bounds.listed)]
        for automaton, state in bounds.undecided:
            after = self._of(automaton, state, escapes)
            parts = _split(parts, [after.open, after.failed, after.matched])
        for group in bounds.hopeful:
            found = [self._of(automaton, state, escapes) for automaton, state in group]
            hopeful = np.bitwise_or.reduce([row for after in found for row in (after.open, after.matched)])
            failed = np.bitwise_and.reduce([after.failed for after in found])
            parts = _split(parts, [hopeful, failed])
        parts = _split(parts, self._between(bounds.limits))
        return parts if len(parts) <= _MAX_PARTS else []

    def kinds(self, bounds: EndBounds, escapes: Ranges) -> Ids:
        """For each token of ``ends`` the kind of its content before the quote; -1: its own."""
        kinds: Ids = np.zeros(len(self._ended_lengths) + 1, dtype=np.int64)
        kinds[-1] = -1  # for those that are not looked at
        known = kinds[:-1]
        if bounds.limits:
            known[:] = np.searchsorted(bounds.limits, self._ended_lengths, side="right")
        for automaton, state in bounds.automata:
            codes = self._of(automaton, state, escapes).ends
            mixed = known * (ACCEPTS + 1) + codes
            own = np.flatnonzero(codes == UNKNOWN)
            mixed[own] = _OWN + own
            known[:] = np.unique(mixed, return_inverse=True)[1]
        for place in self.ends.listed(bounds):
            known[place] = _OWN + place
        return kinds[self.ends.numbers]

    def _listed(self, texts: Sequence[str]) -> Words:
        """The tokens that any of ``texts`` may begin with."""
        first = {text[:1] for text in texts}
        found = (
            [i for i, content in self._escaped.items() if not content.text or content.text[0] in first] if texts else []
        )
        found += [i for text in texts for i in self._table.beginnings(text)]
        return words_of(found, self._num_words)

    def _beyond(self, escapes: Ranges) -> Words:
        """The tokens with escapes of other characters."""
        row = self._escapes.get(escapes)
        if row is None:
            beyond = [i for i, content in self._escaped.items() if not content.is_within(escapes)]
            row = self._escapes[escapes] = words_of(beyond, self._num_words)
        return row

    def _between(self, limits: Sequence[int]) -> list[Words]:
        """The tokens by which of ``limits`` their characters reach."""
        rows, shorter = [], np.zeros(self._num_words, dtype=np.uint32)
        for limit in limits:
            if limit <= self._lengths[-1]:
                below = self._up_to[bisect_left(self._lengths, limit) - 1]
                rows.append(below & ~shorter)
                shorter = below
        return [*rows, self._up_to[-1] & ~shorter]

    def _of(self, automaton: Automaton, state: State, escapes: Ranges) -> _After:
        key = automaton, state, escapes
        after = self._after.get(key)
        if after is None:
            paths, nodes = self._paths_of(automaton, escapes)
            reached = paths.follow(state)
            by_node = reached.codes[reached.numbers]
            by_id = np.append(by_node, np.uint8(_NO_TEXT))[nodes]
            by_id[self._begun] = paths.begin(reached, nodes[self._begun], self._begun_numbers)
            after = _After(
                matched=packed(by_id == MATCHED),
                open=packed((by_id == OPEN) | (by_id == ACCEPTS)),
                failed=packed(by_id == FAILED),
                ends=by_node[paths.nodes[self._ended_numbers]],
            )
            self._keep(self._after, key, after, _MAX_STATES)
        return after

    def _paths_of(self, automaton: Automaton, escapes: Ranges) -> tuple[Paths, Ids]:
        """With the node of each token without a quote; behind the last one for others."""
        found = self._paths.get((automaton, escapes))
        if found is None:
            begun = [begun_ranges(fragment, escapes) for fragment in self._fragments]
            paths = Paths(self._trie, automaton, begun)
            nodes = np.append(paths.nodes, paths.num_nodes)[self._texts]
            found = paths, nodes.astype(np.int32)
            self._keep(self._paths, (automaton, escapes), found, _MAX_PATHS)
        return found

    def _keep(self, kept: dict[_Key, _Value], key: _Key, value: _Value, most: int) -> None:
        with self._lock:
            if len(kept) >= most:
                del kept[next(iter(kept))]
            kept[key] = value


def _split(parts: list[Words], rows: list[Words]) -> list[Words]:
    return [both for part in parts for row in rows if np.count_nonzero(both := part & row)]


def _ids(values: list[int]) -> Ids:
    return np.array(values, dtype=np.int64)


contents_of = once_per_vocabulary(Contents)
