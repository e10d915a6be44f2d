"""Markers in the tokens of a vocabulary."""

from typing import TypeAlias

from constrain.errors import InvalidGrammarError
from constrain.grammar_spec import GrammarSpec
from constrain.tags.model import Marker, Special, markers_of, sequence_of
from constrain.tags.text import read_tagged_text
from constrain.vocabulary import Vocabulary

Parts: TypeAlias = tuple[str | int, ...]
"""A marker for one vocabulary: texts and ids of special tokens, no two texts side by side."""


def parts_of(marker: Marker, vocabulary: Vocabulary) -> Parts:
    """``marker`` in the texts and special ids of ``vocabulary``.

    Raises ``InvalidGrammarError`` for an id that is no special token there, and for a text that no tokens write.
    """
    found: list[str | int] = []
    for part in sequence_of(marker):
        written: str | int = part.token if isinstance(part, Special) else part
        if isinstance(part, Special) and isinstance(part.token, str):
            written = vocabulary.special_tokens.get(part.token, part.token)
        if isinstance(written, int) and written not in vocabulary.special_token_ids:
            raise InvalidGrammarError(f"token {written} of a tag is no special token of the vocabulary; give its text")
        if found and isinstance(written, str) and isinstance(found[-1], str):
            found[-1] += written
        elif written != "":
            found.append(written)
    for text in found:
        if isinstance(text, str) and not vocabulary.written_bytes.issuperset(text.encode()):
            raise InvalidGrammarError(f"the marker {text!r} of a tag cannot be written: the vocabulary lacks its bytes")
    return tuple(found)


def named_token_ids(grammar_spec: GrammarSpec, vocabulary: Vocabulary) -> frozenset[int]:
    """The special tokens, stop tokens aside, that ``grammar_spec`` lets into its text."""
    tagged = read_tagged_text(grammar_spec.text) if grammar_spec.kind == "structural_tag" else None
    if tagged is None:
        return frozenset()
    found = {part for marker in markers_of(tagged) for part in parts_of(marker, vocabulary) if isinstance(part, int)}
    return frozenset(found).difference(vocabulary.stop_token_ids)
