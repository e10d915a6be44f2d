"""The tokens that the checks of a schema refuse at a step, at the cost of the few that can decide something."""

import numpy as np

from constrain.schema.contents import contents_of
from constrain.schema.end_tokens import NO_BOUNDS
from constrain.schema.evaluation import Bears, EndBounds, Evaluator, Mode
from constrain.schema.known import Flags, Known, OpenString, Settled
from constrain.schema.token_table import Ids, Words, one_of, token_table, words_of
from constrain.schema.trials import refused_by_kind, refused_of
from constrain.vocabulary import Vocabulary

_FEW_WORDS = 32
_FEW_ENDS = 8
_MAX_LISTED = 2_000
_STRINGS = frozenset({Mode.IN_STRING, Mode.IN_NAME})
_INSIDE = frozenset({Mode.IN_NUMBER, Mode.IN_LITERAL})
"""Where white space says something, strings aside; elsewhere it says nothing."""


class Refusals:
    """What ``evaluator`` refuses, step by step. ``known``: what is known of its program and ``vocabulary``."""

    def __init__(self, evaluator: Evaluator, vocabulary: Vocabulary, known: Known[Words]) -> None:
        self._evaluator, self._known = evaluator, known
        self._table, self._contents = token_table(vocabulary), contents_of(vocabulary)
        self._string: OpenString | None = None

    def keep(self, num_text: int) -> None:
        """All but the first ``num_text`` tokens of text have been taken back."""
        if self._string is not None:
            self._string = self._string.kept(num_text)

    def allowed(self, legal: Words, num_text: int) -> Words | None:
        """A row whose bits are set, of those in ``legal``, for the tokens that are not refused; None: none is.

        ``legal`` is the text that JSON takes next, after ``num_text`` tokens of text.
        """
        evaluator = self._evaluator
        if evaluator.mode not in _STRINGS:
            return _without(self._refused(legal))
        string = self._string
        if string is None or string.start != evaluator.innermost_start():
            string = self._string = OpenString(evaluator.innermost_start(), num_text)
        given, settled = legal.tobytes(), string.settled
        if settled is not None and settled.legal == given and settled.partial == evaluator.partial:
            return settled.allowed
        refused, means_nothing = self._refused_in_string(legal, string, num_text)
        allowed = _without(refused)
        if means_nothing:
            since = num_text if settled is None else settled.num_text
            string.settled = Settled(since, evaluator.partial, given, allowed)
        return allowed

    def _refused(self, legal: Words) -> Words | None:
        """Which of ``legal`` are refused, outside of strings; None for none."""
        evaluator, table = self._evaluator, self._table
        if evaluator.bears(table.longest) == Bears.UNTIL_CLOSING:
            legal = legal & table.closing
        elif evaluator.ignores_digits(table.longest_number):
            legal = legal & table.ends_number
        if evaluator.mode == Mode.IN_NUMBER:
            return self._tried_with_a_blank(legal)
        return self._tried(legal if evaluator.mode in _INSIDE else legal & table.not_blank)

    def _tried_with_a_blank(self, legal: Words) -> Words | None:
        """As ``_tried``, where one token of white space stands for all."""
        blanks = legal & ~self._table.not_blank
        if not blanks.any():
            return self._tried(legal)
        refused = self._tried((legal & self._table.not_blank) | one_of(blanks))
        return refused | blanks if refused is not None and (refused & blanks).any() else refused

    # Strings and names.

    def _refused_in_string(self, legal: Words, string: OpenString, num_text: int) -> tuple[Words | None, bool]:
        """Which of ``legal`` are refused, and maybe more; and whether nothing up to the quote can change that."""
        evaluator, table = self._evaluator, self._table
        if evaluator.is_insensitive():
            return self._refused_ends(legal, string, num_text)
        content = legal & table.without_quote
        if np.count_nonzero(legal) <= _FEW_WORDS:
            return _united(self._tried(legal & ~content), self._tried(content, quoted=False)), False
        key = evaluator.content_key(table.longest)
        if key is None:
            refused = self._refused_content(content)
        else:
            refused = self._known.refused(key, content, table.without_quote, self._refused_content)
        return _united(refused, self._refused_ends(legal, string, num_text)[0]), False

    def _refused_content(self, legal: Words) -> Words | None:
        """Which of ``legal``, without quotes, are refused."""
        bounds = self._evaluator.content_bounds()
        if bounds is None or len(bounds.listed) > _MAX_LISTED:
            return self._tried(legal, quoted=False)
        parts = self._contents.alike(bounds, self._evaluator.escapes, legal)
        left = legal.copy()
        for part in parts:
            left &= ~part
        refused = self._tried(left, quoted=False)
        for part in parts:  # one of each stands for all
            if self._tried(one_of(part), quoted=False) is not None:
                refused = part if refused is None else refused | part
        return refused

    def _refused_ends(self, legal: Words, string: OpenString, num_text: int) -> tuple[Words | None, bool]:
        """As ``_refused_in_string``, of tokens with a quote."""
        evaluator, ends = self._evaluator, self._contents.ends
        present = ends.among(legal)
        bounds = NO_BOUNDS if evaluator.ignores_text() else evaluator.end_bounds()
        if bounds is None or bounds.automata or bounds.limits:
            key = evaluator.content_key(self._table.longest) if evaluator.ends_alike() else None
            if key is None:
                found = self._tried_ends(present, bounds)
            else:
                found = string.by_content.refused(key, present, ends.all, lambda fresh: self._tried_ends(fresh, bounds))
            return None if found is None else ends.row(found & present), False
        # All contents mean the same but those listed, as long as the string is open.
        apart = ends.apart(bounds)
        tried = string.ends(num_text, evaluator.partial, len(present))
        todo = present & (tried.untried | apart)
        refused = tried.refused & ~apart
        if np.count_nonzero(todo):
            found = self._tried_ends(todo, bounds)
            tried.untried &= ~todo | apart
            if found is not None:
                tried.refused |= found & ~apart
                refused |= found
        refused &= present
        means_nothing = not bounds.listed and not np.count_nonzero(present & apart)
        return ends.row(refused) if np.count_nonzero(refused) else None, means_nothing

    def _tried_ends(self, present: Flags, bounds: EndBounds | None) -> Flags | None:
        """Which tokens with a quote are refused: one of each kind is tried."""
        evaluator, ends = self._evaluator, self._contents.ends
        numbers = np.flatnonzero(present)
        places = ends.places[numbers]
        if bounds is None or len(places) <= _FEW_ENDS:
            refused = refused_of(evaluator, self._table, places, quoted=True)
        else:
            kinds = self._contents.kinds(bounds, evaluator.escapes)[numbers]
            refused = refused_by_kind(evaluator, self._table, places, kinds)
        return ends.flags(np.concatenate(refused)) if refused else None

    def _tried(self, legal: Words, *, quoted: bool = True) -> Words | None:
        """Which of ``legal`` are refused. ``quoted``: they have a quote, or stand outside of strings."""
        return self._row(refused_of(self._evaluator, self._table, self._table.places(legal), quoted=quoted), legal)

    def _row(self, refused: list[Ids], like: Words) -> Words | None:
        return words_of(self._table.order[np.concatenate(refused)], len(like)) if refused else None


def _united(one: Words | None, other: Words | None) -> Words | None:
    return other if one is None else one if other is None else one | other


def _without(refused: Words | None) -> Words | None:
    return None if refused is None else ~refused
