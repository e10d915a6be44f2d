"""Tagged texts as the text of a spec: xgrammar's ``triggered_tags`` in JSON, with more contents and markers."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from constrain.errors import InvalidGrammarError
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.tags.model import Marker, Special, Tag, TaggedText, has_tail, joined, problem_of


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
    return tagged if problem_of(tagged) is None else None


_FIELDS = frozenset({
    "type", "tags", "triggers", "at_least_one", "stop_after_first", "opening", "separator", "closing"
})  # fmt: skip


class _OtherFormatError(Exception):
    """Something in a structural tag that is xgrammar's own."""


def written(tagged: TaggedText) -> str:
    """The text of the spec of ``tagged``."""
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
    if joined(tagged.opening) or has_tail(tagged):
        place["opening"] = _written_marker(tagged.opening)
        place["separator"] = None if tagged.separator is None else _written_marker(tagged.separator)
        place["closing"] = _written_marker(tagged.closing)
    return json.dumps({"type": "structural_tag", "format": place}, ensure_ascii=False, separators=(",", ":"))


def _written_marker(marker: Marker) -> Any:
    parts: list[Any] = [
        {"type": "token", "token": part.token} if isinstance(part, Special) else part for part in joined(marker)
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
