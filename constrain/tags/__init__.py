"""Free text with tagged regions: what stands in a ``structural_tag`` spec.

The language, the same for every backend. Outside of regions the text is any valid UTF-8. It is read from the left;
where a *trigger* is complete, the trigger begins a region: one of the tags whose ``begin`` starts with it must follow.
So free text holds no trigger but those that begin a region. A region is ``begin``, a text of the tag's ``content``, and
``end``; ``content=None`` is any text up to the first ``end``. Behind the region free text goes on.
"""

from collections.abc import Sequence

from constrain.errors import InvalidGrammarError
from constrain.grammar_spec import GrammarSpec
from constrain.tags.model import Marker, Special, Tag, TaggedText, begins_with, joined, problem_of
from constrain.tags.text import read_tagged_text, written
from constrain.tags.vocabulary import Parts, named_token_ids, parts_of

__all__ = [
    "Marker",
    "Parts",
    "Special",
    "Tag",
    "TaggedText",
    "begins_with",
    "named_token_ids",
    "parts_of",
    "read_tagged_text",
    "tagged_text",
]


def tagged_text(
    tags: Sequence[Tag],
    *,
    triggers: Sequence[str | Special] | None = None,
    at_least_one: bool = False,
    stop_after_first: bool = False,
    opening: Marker = "",
    separator: Marker | None = None,
    closing: Marker = "",
) -> GrammarSpec:
    """Free text with constrained regions.

    triggers:
        What begins a region; each ``begin`` starts with exactly one. By default the first part of each ``begin``.
    at_least_one:
        The output begins with a region, at once.
    stop_after_first:
        Nothing comes behind the first region.
    opening, separator, closing:
        A region is ``opening``, one tag, and with a ``separator`` any number of others behind it, then ``closing``; as
        in a list ``[{...}, {...}]``. The triggers then begin ``opening``, if that is not empty.

    A special token of the vocabulary is legal in this text only where a marker names it. A marker that is a stop token
    ends the output there.

    Raises ``InvalidGrammarError`` for tags that mean nothing, naming the tag.
    """
    starts = [joined(opening, tag.begin) for tag in tags]
    if triggers is None:
        triggers = list(dict.fromkeys(start[0] for start in starts if start))
    tagged = TaggedText(tuple(tags), tuple(triggers), at_least_one, stop_after_first, opening, separator, closing)
    problem = problem_of(tagged)
    if problem is not None:
        raise InvalidGrammarError(problem)
    return GrammarSpec("structural_tag", written(tagged))
