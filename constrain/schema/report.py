"""What becomes of each keyword of a schema: enforced, and by what, or not."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from constrain.errors import Unsupported
from constrain.schema.inventory import KeywordUse, effective

Enforcement = Literal["grammar", "check", "fallback", "annotation", "unsupported", "ignored"]
"""By the grammar; by a check during decoding, where the grammar guides by something looser; by a check alone; nothing
to enforce; not enforced; not enforced, as the caller wants."""

SchemaSupport = Callable[[KeywordUse], Unsupported | None]
"""What a backend enforces exactly, one keyword at a time: None is a promise, otherwise ``use.unsupported(reason)``.

It is asked about effective keywords only, each with its siblings and its type at hand, and lives with the backend::

    def schema_support(use: KeywordUse) -> Unsupported | None:
        if use.keyword == "minLength" and "pattern" in use.siblings:
            return use.unsupported("dropped beside pattern")
        if use.about is not None and not use.has_type:
            return use.unsupported("dropped without type")
        return None if use.keyword in _EXACT else use.unsupported("not known to be enforced")
"""


@dataclass(frozen=True, slots=True)
class KeywordReport:
    """One keyword: where it stands, what enforces it, and why, where that is not plain."""

    pointer: str
    keyword: str
    enforcement: Enforcement
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """One schema under one backend.

    ``reason`` says why that backend, and ``defaults`` what holds besides the schema: the form of JSON, caps.
    """

    entries: tuple[KeywordReport, ...]
    backend: str
    reason: str = ""
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unsupported(self) -> list[KeywordReport]:
        """The keywords that nothing enforces."""
        return [entry for entry in self.entries if entry.enforcement == "unsupported"]

    @property
    def ignored(self) -> list[KeywordReport]:
        """The keywords that nothing enforces, as the caller wants."""
        return [entry for entry in self.entries if entry.enforcement == "ignored"]

    @property
    def exact(self) -> bool:
        """Whether every keyword that can refuse a value is enforced."""
        return not self.unsupported and not self.ignored

    def to_json(self) -> dict[str, Any]:
        """The report as JSON data."""
        return {
            "backend": self.backend,
            "reason": self.reason,
            "exact": self.exact,
            "defaults": dict(self.defaults),
            "keywords": [asdict(entry) for entry in self.entries],
        }

    def to_text(self) -> str:
        """The report for a terminal: what is not enforced first, annotations counted only."""
        lines = [f"backend: {self.backend}{f' ({self.reason})' if self.reason else ''}"]
        lines += [f"{name}: {value}" for name, value in self.defaults.items()]
        width = max((len(entry.pointer) for entry in self.entries), default=0)
        for enforcement in ("unsupported", "ignored", "fallback", "check", "grammar"):
            for entry in self.entries:
                if entry.enforcement == enforcement:
                    lines.append(f"{enforcement:11}  {entry.pointer or '/':{min(width, 60)}}  {entry.reason}".rstrip())
        num_annotations = sum(entry.enforcement == "annotation" for entry in self.entries)
        lines.append(f"{num_annotations} annotation{'' if num_annotations == 1 else 's'}, with nothing to enforce")
        count = len(self.unsupported) + len(self.ignored)
        missing = f"{count} keyword{' is' if count == 1 else 's are'} not enforced"
        lines.append("every keyword is enforced" if self.exact else missing)
        return "\n".join(lines)


def unsupported_keywords(uses: Iterable[KeywordUse], support: SchemaSupport) -> list[Unsupported]:
    """Everything in ``uses`` that a backend does not enforce, as its ``support`` says."""
    answers = (support(use) for use in effective(uses))
    return [answer for answer in answers if answer is not None]


def schema_report(
    uses: Iterable[KeywordUse],
    unsupported: Sequence[Unsupported],
    *,
    backend: str,
    reason: str = "",
    checked: Collection[str] = (),
    fallback: Collection[str] = (),
    rules: Mapping[str, str] | None = None,
    ignored: Collection[str] = (),
    defaults: Mapping[str, Any] | None = None,
) -> SchemaReport:
    """The report on ``uses``, given what the grammar does not enforce.

    Of that, a check takes over the pointers ``checked``, and those in ``fallback``, where nothing guides; the caller
    wants those in ``ignored`` ignored. ``rules`` names, by pointer, the rule that has put other keywords in the place
    of one.
    """
    reasons: dict[str, str] = {}
    for item in unsupported:
        reasons[item.pointer] = "; ".join(filter(None, (reasons.get(item.pointer), item.reason)))
    entries = [_entry(use, reasons, checked, fallback, rules or {}, ignored) for use in uses]
    return SchemaReport(tuple(entries), backend, reason, dict(defaults or {}))


def _entry(
    use: KeywordUse,
    reasons: Mapping[str, str],
    checked: Collection[str],
    fallback: Collection[str],
    rules: Mapping[str, str],
    ignored: Collection[str],
) -> KeywordReport:
    if not use.effective:
        return KeywordReport(use.pointer, use.keyword, "annotation", use.reason)
    for place in _outwards(use.pointer):
        inside = f"inside {place or '/'}" if place != use.pointer else ""
        if place in fallback:
            return KeywordReport(use.pointer, use.keyword, "fallback", inside or reasons.get(place, ""))
        if place in checked:
            return KeywordReport(use.pointer, use.keyword, "check", inside or reasons.get(place, ""))
        if place in reasons:
            enforcement: Enforcement = "ignored" if place in ignored else "unsupported"
            return KeywordReport(use.pointer, use.keyword, enforcement, inside or reasons[place])
    rule = next((rules[place] for place in _outwards(use.pointer) if place in rules), None)
    return KeywordReport(use.pointer, use.keyword, "grammar", f"as {rule}" if rule is not None else "")


def _outwards(pointer: str) -> Iterator[str]:
    """``pointer`` and the places around it: what is inside a keyword is enforced by what enforces that."""
    while pointer:
        yield pointer
        pointer = pointer.rpartition("/")[0]
    yield ""
