"""Reading a family's thinking, without constraining anything."""

from collections.abc import Sequence

from constrain.reasoning.bound import BoundFormat, bind
from constrain.reasoning.formats import ReasoningFormat
from constrain.reasoning.options import Reasoning
from constrain.reasoning.prompts import track_of_prompt
from constrain.reasoning.splitter import Split, Splitter
from constrain.reasoning.thinking import Phase, Thinking, Track
from constrain.vocabulary import Vocabulary


class ReasoningParser:
    """Says whether a prompt leaves thinking open, and takes outputs apart. Immutable; made by :func:`parser_for`."""

    def __init__(self, bound: BoundFormat) -> None:
        self.bound = bound
        self._thinking = Thinking(bound)

    @property
    def format(self) -> ReasoningFormat:
        """The format that it reads."""
        return self.bound.format

    def starts_open(self, prompt_ids: Sequence[int]) -> bool:
        """Whether an output behind this prompt is thinking from its first token."""
        return self._begin(prompt_ids).phase is Phase.INSIDE

    def split(self, token_ids: Sequence[int], prompt_ids: Sequence[int] = ()) -> Split:
        """An output, taken apart. The stop token and padding may be there, and add nothing."""
        return split_all(self.splitter(prompt_ids), token_ids)

    def splitter(self, prompt_ids: Sequence[int] = ()) -> Splitter:
        """One that takes an output apart as it grows."""
        return Splitter(self._thinking, self._begin(prompt_ids))

    def _begin(self, prompt_ids: Sequence[int]) -> Track:
        return self._thinking.begin(track_of_prompt(self.bound, prompt_ids))


def parser_for(
    parser: str | ReasoningFormat,
    vocabulary: Vocabulary,
    *,
    end_markers: Sequence[str] = (),
    content_starts: Sequence[str] = (),
) -> ReasoningParser:
    """The parser of that name, or for that format, with the markers as ``vocabulary`` writes them.

    ``end_markers`` and ``content_starts`` are those of :class:`Reasoning`.

    Raises ``InvalidInputError`` for a name that is none, and ``VocabularyError`` for a vocabulary that cannot write a
    marker.
    """
    asked = Reasoning(parser=parser, end_markers=tuple(end_markers), content_starts=tuple(content_starts))
    return ReasoningParser(bind(parser, asked.end_markers, vocabulary, asked.content_starts))


def split_all(splitter: Splitter, token_ids: Sequence[int]) -> Split:
    """Everything at once, by a fresh ``splitter``."""
    piece = splitter.feed(token_ids)
    rest = splitter.finish()
    return Split(piece.reasoning + rest.reasoning, piece.text + rest.text, splitter.end_index, splitter.ended_by)
