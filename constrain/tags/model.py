"""The parts of a tagged text, and what makes one mean nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from constrain.grammar_spec import GrammarSpec


@dataclass(frozen=True, slots=True)
class Special:
    """A special token in a marker: by its name, or by its id.

    A name that is no special token of the vocabulary stands for its own characters, as in a model whose tokenizer takes
    ``<tool_call>`` for ordinary text.
    """

    token: str | int


Marker: TypeAlias = str | Special | Sequence[str | Special]
"""What begins or ends a region: text, a special token, or several of these."""


@dataclass(frozen=True, slots=True)
class Tag:
    """One kind of region. ``content`` is a spec of any kind but another ``structural_tag``; None is any text."""

    begin: Marker
    content: GrammarSpec | None
    end: Marker = ""


@dataclass(frozen=True, slots=True)
class TaggedText:
    """The parsed text of a ``structural_tag`` spec; :func:`tagged_text` says what the fields mean."""

    tags: tuple[Tag, ...]
    triggers: tuple[str | Special, ...]
    at_least_one: bool = False
    stop_after_first: bool = False
    opening: Marker = ""
    separator: Marker | None = None
    closing: Marker = ""


def problem_of(tagged: TaggedText) -> str | None:
    """What makes ``tagged`` mean nothing, in words."""
    if not tagged.tags:
        return "a tagged text needs at least one tag"
    for marker in markers_of(tagged):
        for part in sequence_of(marker):
            if isinstance(part, str) and any("\ud800" <= char <= "\udfff" for char in part):
                return f"the marker {part!r} holds half of a surrogate pair, which is no text"
    texts = [trigger for trigger in tagged.triggers if isinstance(trigger, str)]
    if not tagged.triggers or "" in texts:
        return f"triggers={list(tagged.triggers)!r}: want at least one, and none of them empty"
    if len(set(tagged.triggers)) < len(tagged.triggers):
        return f"triggers={list(tagged.triggers)!r}: one of them stands there twice"
    for one in texts:
        for other in texts:
            if one != other and one in other:
                return f"the trigger {one!r} stands inside the trigger {other!r}, which could never be complete"
    for number, tag in enumerate(tagged.tags):
        start, place = joined(tagged.opening, tag.begin), f"tag {number} ({tag.begin!r})"
        if not start:
            return f"{place} begins with nothing: nothing could tell it from free text"
        if sum(begins_with(start[0], trigger) for trigger in tagged.triggers) != 1:
            return f"{place} must begin with exactly one of the triggers {list(tagged.triggers)!r}"
        if tag.content is None and not joined(tag.end) and not (tagged.stop_after_first and not has_tail(tagged)):
            return f"{place} holds any text and has no end: nothing could follow it; give an end, or stop_after_first"
        if tag.content is not None and tag.content.kind == "structural_tag":
            return f"{place} holds another structural tag; tags do not nest"
    return None


def begins_with(part: str | int | Special, trigger: str | int | Special) -> bool:
    """Whether the first part of a marker starts with ``trigger``."""
    if isinstance(part, str) and isinstance(trigger, str):
        return part.startswith(trigger)
    return part == trigger


def has_tail(tagged: TaggedText) -> bool:
    """Whether something of a region may follow a tag."""
    return tagged.separator is not None or bool(joined(tagged.closing))


def markers_of(tagged: TaggedText) -> Iterator[Marker]:
    """Every marker of ``tagged``."""
    yield from tagged.triggers
    yield from (tagged.opening, tagged.separator or "", tagged.closing)
    for tag in tagged.tags:
        yield from (tag.begin, tag.end)


def sequence_of(marker: Marker) -> list[str | Special]:
    """The parts of ``marker``."""
    return [marker] if isinstance(marker, str | Special) else list(marker)


def joined(*markers: Marker) -> list[str | Special]:
    """The parts of the markers in a row, texts side by side made one and empty ones left out."""
    found: list[str | Special] = []
    for part in (part for marker in markers for part in sequence_of(marker) if part != ""):
        last = found[-1] if found else None
        if isinstance(last, str) and isinstance(part, str):
            found[-1] = last + part
        else:
            found.append(part)
    return found
