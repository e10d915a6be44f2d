"""Free text with tagged regions: what stands in a ``structural_tag`` spec.

The language, the same for every backend. Outside of regions the text is any valid UTF-8. It is read from the left;
where a *trigger* is complete, the trigger begins a region: one of the tags whose ``begin`` starts with it must follow.
So free text holds no trigger but those that begin a region. A region is ``begin``, a text of the tag's ``content``, and
``end``; ``content=None`` is any text up to the first ``end``. Behind the region free text goes on.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from constrain.errors import InvalidGrammarError
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Special:
    """A special token in a marker: by its name, or by its id.

    A name that is no special token of the vocabulary stands for its own characters, as in a model whose tokenizer takes
    ``<tool_call>`` for ordinary text.
    """

    token: str | int


Marker: TypeAlias = str | Special | Sequence[str | Special]
"""What begins or ends a region: text, a special token, or several of these."""

Parts: TypeAlias = tuple[str | int, ...]
"""A marker for one vocabulary: texts and ids of special tokens, no two texts side by side."""


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
    starts = [_joined(opening, tag.begin) for tag in tags]
    if triggers is None:
        triggers = list(dict.fromkeys(start[0] for start in starts if start))
    tagged = TaggedText(tuple(tags), tuple(triggers), at_least_one, stop_after_first, opening, separator, closing)
    problem = _problem(tagged)
    if problem is not None:
        raise InvalidGrammarError(problem)
    return GrammarSpec("structural_tag", _written(tagged))


@lru_cache(maxsize=64)
def read_tagged_text(text: str) -> TaggedText | None:
    """The tagged text of a ``structural_tag`` spec; None for a structural tag that only xgrammar reads.

    A tagged text is xgrammar's format ``triggered_tags`` with plain contents (``any_text``, ``json_schema``, ``regex``,
    ``grammar``, ``const_string``), with ``spec`` as one more content and lists as markers.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        return None
    place = data.get("format") if isinstance(data, dict) else None
    if not isinstance(place, dict) or place.get("type") != "triggered_tags" or not set(place) <= _FIELDS:
        return None
    try:
        tagged = TaggedText(
            tuple(Tag(_marker(tag["begin"]), _content(tag["content"]), _marker(tag["end"])) for tag in place["tags"]),
            tuple(_trigger(trigger) for trigger in place["triggers"]),
            bool(place.get("at_least_one", False)),
            bool(place.get("stop_after_first", False)),
            _marker(place.get("opening", "")),
            None if place.get("separator") is None else _marker(place["separator"]),
            _marker(place.get("closing", "")),
        )
    except (KeyError, TypeError, _OtherFormatError):
        return None
    return tagged if _problem(tagged) is None else None


def parts_of(marker: Marker, vocabulary: Vocabulary) -> Parts:
    """``marker`` in the texts and special ids of ``vocabulary``.

    Raises ``InvalidGrammarError`` for an id that is no special token there, and for a text that no tokens write.
    """
    found: list[str | int] = []
    for part in _sequence(marker):
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
    found = {part for marker in _markers(tagged) for part in parts_of(marker, vocabulary) if isinstance(part, int)}
    return frozenset(found).difference(vocabulary.stop_token_ids)


def _markers(tagged: TaggedText) -> Iterator[Marker]:
    yield from tagged.triggers
    yield from (tagged.opening, tagged.separator or "", tagged.closing)
    for tag in tagged.tags:
        yield from (tag.begin, tag.end)


def _sequence(marker: Marker) -> list[str | Special]:
    return [marker] if isinstance(marker, str | Special) else list(marker)


def _joined(*markers: Marker) -> list[str | Special]:
    """The parts of the markers in a row, texts side by side made one and empty ones left out."""
    found: list[str | Special] = []
    for part in (part for marker in markers for part in _sequence(marker) if part != ""):
        last = found[-1] if found else None
        if isinstance(last, str) and isinstance(part, str):
            found[-1] = last + part
        else:
            found.append(part)
    return found


def _problem(tagged: TaggedText) -> str | None:
    """What makes ``tagged`` mean nothing, in words."""
    if not tagged.tags:
        return "a tagged text needs at least one tag"
    for marker in _markers(tagged):
        for part in _sequence(marker):
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
        start, place = _joined(tagged.opening, tag.begin), f"tag {number} ({tag.begin!r})"
        if not start:
            return f"{place} begins with nothing: nothing could tell it from free text"
        if sum(begins_with(start[0], trigger) for trigger in tagged.triggers) != 1:
            return f"{place} must begin with exactly one of the triggers {list(tagged.triggers)!r}"
        if tag.content is None and not _joined(tag.end) and not (tagged.stop_after_first and not _tail(tagged)):
            return f"{place} holds any text and has no end: nothing could follow it; give an end, or stop_after_first"
        if tag.content is not None and tag.content.kind == "structural_tag":
            return f"{place} holds another structural tag; tags do not nest"
    return None


def begins_with(part: str | int | Special, trigger: str | int | Special) -> bool:
    """Whether the first part of a marker starts with ``trigger``."""
    if isinstance(part, str) and isinstance(trigger, str):
        return part.startswith(trigger)
    return part == trigger


def _tail(tagged: TaggedText) -> bool:
    return tagged.separator is not None or bool(_joined(tagged.closing))


# The text of a spec.

_FIELDS = frozenset({
    "type", "tags", "triggers", "at_least_one", "stop_after_first", "opening", "separator", "closing"
})  # fmt: skip


class _OtherFormatError(Exception):
    """Something in a structural tag that is xgrammar's own."""


def _written(tagged: TaggedText) -> str:
    place: dict[str, Any] = {
        "type": "triggered_tags",
        "triggers": [_written_marker(trigger) for trigger in tagged.triggers],
        "tags": [
            {
                "begin": _written_marker(tag.begin),
                "content": _written_content(tag.content),
                "end": _written_marker(tag.end),
            }
            for tag in tagged.tags
        ],
        "at_least_one": tagged.at_least_one,
        "stop_after_first": tagged.stop_after_first,
    }
    if _joined(tagged.opening) or _tail(tagged):
        place["opening"] = _written_marker(tagged.opening)
        place["separator"] = None if tagged.separator is None else _written_marker(tagged.separator)
        place["closing"] = _written_marker(tagged.closing)
    return json.dumps({"type": "structural_tag", "format": place}, ensure_ascii=False, separators=(",", ":"))


def _written_marker(marker: Marker) -> Any:
    parts: list[Any] = [
        {"type": "token", "token": part.token} if isinstance(part, Special) else part for part in _joined(marker)
    ]
    return "" if not parts else parts[0] if len(parts) == 1 else parts


def _written_content(content: GrammarSpec | None) -> dict[str, Any]:
    if content is None:
        return {"type": "any_text"}
    written: dict[str, Any] = {"type": "spec", "kind": content.kind, "text": content.text}
    if content.form is not None:
        written["form"] = asdict(content.form)
    if content.assert_formats:
        written["assert_formats"] = True
    if content.unsupported != "error":
        raise InvalidGrammarError("unsupported='ignore' inside a tag: what is left of a region would be unknown")
    return written


def _marker(data: Any) -> Marker:
    if isinstance(data, list):
        return tuple(_trigger(part) for part in data)
    return _trigger(data)


def _trigger(data: Any) -> str | Special:
    if isinstance(data, str):
        return data
    if isinstance(data, Mapping) and data.get("type") == "token" and isinstance(data.get("token"), str | int):
        return Special(data["token"])
    raise _OtherFormatError


def _content(data: Any) -> GrammarSpec | None:
    known: dict[str, set[str]] = {
        "any_text": set(),
        "json_schema": {"json_schema"},
        "regex": {"pattern"},
        "grammar": {"grammar"},
        "const_string": {"value"},
        "spec": {"kind", "text", "form", "assert_formats"},
    }
    kind = data["type"]
    if kind not in known or not set(data) - {"type"} <= known[kind]:
        raise _OtherFormatError
    match kind:
        case "any_text":
            return None
        case "json_schema":
            schema = json.dumps(data["json_schema"], ensure_ascii=False, separators=(",", ":"))
            return GrammarSpec("json_schema", schema, JsonForm(), True)
        case "regex":
            return GrammarSpec("regex", data["pattern"])
        case "grammar":
            return GrammarSpec("ebnf", data["grammar"])
        case "const_string":
            return GrammarSpec("choice", json.dumps([data["value"]], ensure_ascii=False))
        case _:
            form = None if data.get("form") is None else JsonForm(**data["form"])
            return GrammarSpec(data["kind"], data["text"], form, bool(data.get("assert_formats", False)))
