"""Random walks through the masks: what can be generated, whoever the model is."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from constrain.conformance.masks import MaskRow, take_step
from constrain.grammar import CompiledGrammar
from constrain.vocabulary import Vocabulary

Ending = Literal["finished", "capped", "dead_end", "disagreement"]

_REST, _BLANK, _OPENER, _QUOTE, _CLOSER, _LAST, _STOP = range(7)
_CALM = {_REST: 1.0, _BLANK: 0.1, _OPENER: 0.5, _QUOTE: 0.7, _CLOSER: 0.5, _LAST: 0.5, _STOP: 0.8}
_NUM_CALM = 100
"""After so many tokens a walk hurries to its end: else hardly one would come to it within any number of tokens."""
_WORD_SHARE = 0.3
_HURRIED = {_REST: 1.0, _BLANK: 0.1, _OPENER: 0.05, _QUOTE: 15.0, _CLOSER: 30.0, _LAST: 60.0, _STOP: 80.0}


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk: how it ended, its text so far, and what disagreed."""

    ending: Ending
    text: bytes
    disagreement: str = ""


class Walker:
    """Draws tokens by their kind first: quotes and closers come often, blanks seldom, the end mostly when it may.

    After the first tokens it hurries: what ends a string, a value or the text is drawn nearly always where it may, what
    opens an object or an array hardly ever, and now and then one of ``words`` is begun, and followed as far as it is
    legal: for what no luck would ever hit, such as a text that a pattern asks for.

    ``random_source`` decides everything, so that a seed gives the same walks again.
    """

    def __init__(self, vocabulary: Vocabulary, random_source: random.Random, *, max_tokens: int) -> None:
        self._vocabulary, self._random, self._max_tokens = vocabulary, random_source, max_tokens
        self._kinds = np.array([_kind(i, token, vocabulary) for i, token in enumerate(vocabulary.token_bytes)])
        self._row = MaskRow(vocabulary)

    def walk(self, compiled: CompiledGrammar, prefix: Sequence[int] = (), words: Sequence[Sequence[int]] = ()) -> Walk:
        """Follow ``prefix`` as far as it is legal, and then go on at random; ``words`` are tokens, too."""
        grammar, written = compiled.start(), bytearray()
        follow = list(reversed(prefix))
        for index in range(self._max_tokens):
            contradiction = self._row.contradiction(self._row.fill(grammar))
            allowed = self._row.allowed_ids()
            if contradiction:
                return Walk("disagreement", bytes(written), contradiction)
            if not len(allowed):
                return Walk("dead_end", bytes(written))
            hurry = index > _NUM_CALM
            if words and hurry and not follow and self._random.random() < _WORD_SHARE:
                follow = list(reversed(self._random.choice(words)))
            token_id = follow.pop() if follow else -1
            if token_id < 0 or not self._row.allows(token_id):
                follow.clear()
                token_id = self._draw(allowed, hurry=hurry)
            step = take_step(grammar, self._row, token_id)
            if step.disagreement or not step.accepted:
                return Walk("disagreement", bytes(written), step.disagreement or f"token {token_id} is refused")
            if grammar.is_terminated:
                return Walk("finished", bytes(written))
            written += self._vocabulary.token_bytes[token_id]
        return Walk("capped", bytes(written))

    def _draw(self, allowed: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]", *, hurry: bool) -> int:
        if allowed[-1] >= len(self._kinds):  # past the vocabulary, which breaks a law: let accept tell
            return int(allowed[-1])
        kinds = self._kinds[allowed]
        weights = _HURRIED if hurry else _CALM
        present = [kind for kind in weights if (kinds == kind).any()]
        (kind,) = self._random.choices(present, [weights[kind] for kind in present])
        return int(self._random.choice(allowed[kinds == kind]))


def _kind(token_id: int, token: bytes, vocabulary: Vocabulary) -> int:
    if token_id in vocabulary.stop_token_ids:
        return _STOP
    if not token.strip(b" \t\r\n"):
        return _BLANK
    if token[-1] in b"}]":
        return _LAST if b'"' in token else _CLOSER
    if b"{" in token or b"[" in token:
        return _OPENER
    return _QUOTE if b'"' in token else _REST
