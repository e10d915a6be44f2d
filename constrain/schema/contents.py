"""Which tokens decide nothing inside a string that has to match patterns: all of a vocabulary at once.

Every token is a path through the automaton of a pattern. All paths are followed side by side, one character after the
other, over a table of the automaton's transitions that grows as they need it.
"""

import weakref
from typing import Any

import numpy as np

from constrain.schema.evaluation import Automaton, ContentBounds, State
from constrain.schema.token_table import Ids, Words, words_of
from constrain.vocabulary import Vocabulary

_MAX_CHARACTERS = 40
_MAX_KEPT = 64
_FAILED, _MATCHED, _START = range(3)


class PlainTokens:
    """The tokens of a vocabulary that are whole characters of a JSON string, without escapes; longest first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = {i: text for i, token in enumerate(vocabulary.token_bytes) if (text := _plain_text(token))}
        order = sorted(texts, key=lambda i: -len(texts[i]))
        self._ids: Ids = np.array(order, dtype=np.int64)
        self._lengths: Ids = np.array([len(texts[i]) for i in order], dtype=np.int64)
        self._num_words = vocabulary.num_mask_words
        self._all = words_of(self._ids, self._num_words)
        self._by_length = {
            length: words_of(self._ids[self._lengths == length], self._num_words)
            for length in np.unique(self._lengths).tolist()
        }
        self._codes = sorted({ord(char) for text in texts.values() for char in text})
        number_of = {code: number for number, code in enumerate(self._codes)}
        longest = len(texts[order[0]]) if order else 0
        # Column n has the n-th character of each token that is so long, as an index into the codes.
        self._columns: list[Ids] = [
            np.array([number_of[ord(texts[i][n])] for i in order if len(texts[i]) > n], dtype=np.int64)
            for n in range(longest)
        ]
        self._classes: weakref.WeakKeyDictionary[Automaton, Ids] = weakref.WeakKeyDictionary()
        self._kept: weakref.WeakKeyDictionary[Automaton, dict[State, tuple[Words, Words]]]
        self._kept = weakref.WeakKeyDictionary()

    def alike(self, bounds: ContentBounds, words: Words) -> list[Words]:
        """Parts of ``words``, each of tokens that are alike under ``bounds``; what is in none is for itself."""
        row = words & self._all
        for automaton, state in bounds.undecided:
            row = row & self._after(automaton, state)[0]
        parts = [row]
        for group in bounds.hopeful:
            hopeful = np.zeros_like(row)
            for automaton, state in group:
                hopeful |= self._after(automaton, state)[1]
            parts = [part for whole in parts for part in (whole & hopeful, whole & ~hopeful)]
        if bounds.most is not None:
            parts = [part for whole in parts for part in self._by_count(whole, bounds.most)]
        return [part for part in parts if part.any()]

    def _by_count(self, words: Words, most: int) -> list[Words]:
        longer = [(length, row) for length, row in self._by_length.items() if length > most]
        short = words.copy()
        for _, row in longer:
            short &= ~row
        return [short, *(words & row for _, row in longer)]

    def _after(self, automaton: Automaton, state: State) -> tuple[Words, Words]:
        """The tokens that leave ``state`` undecided, and those that do not fail."""
        kept = self._kept.setdefault(automaton, {})
        rows = kept.get(state)
        if rows is None:
            ends = self._followed(automaton, state)
            rows = words_of(self._ids[ends >= _START], self._num_words), words_of(self._ids[ends > 0], self._num_words)
            if len(kept) >= _MAX_KEPT:
                kept.pop(next(iter(kept)), None)
            kept[state] = rows
        return rows

    def _followed(self, automaton: Automaton, state: State) -> Ids:
        """Where each token leads from ``state``: failed, matched, or the number of an undecided state."""
        ends: Ids = np.full(len(self._ids), _START, dtype=np.int64)
        if state.verdict:
            return np.full_like(ends, _MATCHED if state.verdict > 0 else _FAILED)
        classes = self._classes_of(automaton)
        table = _Transitions(automaton, state)
        for column in self._columns:
            length = len(column)
            ends[:length] = table.follow(ends[:length], classes[column])
        return ends

    def _classes_of(self, automaton: Automaton) -> Ids:
        classes = self._classes.get(automaton)
        if classes is None:
            classes = np.array([automaton.class_of(code) for code in self._codes], dtype=np.int64)
            self._classes[automaton] = classes
        return classes


class _Transitions:
    def __init__(self, automaton: Automaton, start: State) -> None:
        self._automaton, self._width = automaton, automaton.num_classes
        self._states: list[Any] = [None, None, start]
        self._numbers: dict[State, int] = {start: _START}
        self._table: Ids = np.full(16 * self._width, -1, dtype=np.int64)
        self._table[: 2 * self._width] = np.repeat([_FAILED, _MATCHED], self._width)

    def follow(self, states: Ids, classes: Ids) -> Ids:
        """The numbers of the states after one more character each."""
        keys = states * self._width + classes
        following: Ids = self._table[keys]
        unknown = keys[following < 0]
        if len(unknown):
            for key in np.unique(unknown).tolist():
                number = self._number(self._automaton.step_class(self._states[key // self._width], key % self._width))
                self._table[key] = number
            following = self._table[keys]
        return following

    def _number(self, state: State) -> int:
        if state.verdict:
            return _MATCHED if state.verdict > 0 else _FAILED
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            if (number + 1) * self._width > len(self._table):
                self._table = np.concatenate([self._table, np.full_like(self._table, -1)])
        return number


def _plain_text(token: bytes) -> str:
    """The characters of ``token``; "" where it is none of those that are looked at."""
    if not token or b'"' in token or b"\\" in token or min(token) < 0x20:
        return ""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) <= _MAX_CHARACTERS else ""


_PLAIN: "weakref.WeakKeyDictionary[Vocabulary, PlainTokens]" = weakref.WeakKeyDictionary()


def plain_tokens(vocabulary: Vocabulary) -> PlainTokens:
    """Those of ``vocabulary``, found once."""
    plain = _PLAIN.get(vocabulary)
    if plain is None:
        plain = _PLAIN[vocabulary] = PlainTokens(vocabulary)
    return plain
