"""A tagged text as an expression, which each backend writes in its own language."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from constrain.grammar_spec import GrammarSpec
from constrain.tags import Parts, TaggedText, begins_with, parts_of
from constrain.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Literal:
    """Exactly this text, which is not empty."""

    text: str


@dataclass(frozen=True, slots=True)
class TokenId:
    """One special token."""

    token_id: int


@dataclass(frozen=True, slots=True)
class FreeText:
    """Any text in which no string of ``without`` stands."""

    without: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TextUntil:
    """Any text that ends with the first occurrence of any string of ``without``, which is ``last``."""

    without: tuple[str, ...]
    last: str


@dataclass(frozen=True, slots=True)
class Content:
    """A text of ``grammar_spec``, then ``until``; the content of the tag with that number.

    ``is_open``: neither ``until`` nor a special token nor the end of the output shows where the content ends.
    """

    grammar_spec: GrammarSpec
    tag: int
    until: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One after the other; nothing at all if there are none."""

    items: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of them; at least one."""

    options: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Many:
    """Any number of times, none included."""

    body: "Expression"


Expression: TypeAlias = Literal | TokenId | FreeText | TextUntil | Content | Row | Either | Many


def tag_expression(tagged: TaggedText, vocabulary: Vocabulary) -> Expression:
    """What ``tagged`` says, for ``vocabulary``. Raises ``InvalidGrammarError`` for ids that are no special tokens."""
    return _Builder(tagged, vocabulary).whole()


def contents_of(expression: Expression) -> Iterator[Content]:
    """Every content, tags that stand in several places several times."""
    match expression:
        case Content():
            yield expression
        case Row(parts) | Either(parts):
            for part in parts:
                yield from contents_of(part)
        case Many(body):
            yield from contents_of(body)


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag for one vocabulary; ``ends_output`` where a stop token is its end."""

    number: int
    begin: Parts
    content: GrammarSpec | None
    end: Parts
    ends_output: bool


class _Builder:
    def __init__(self, tagged: TaggedText, vocabulary: Vocabulary) -> None:
        self.tagged = tagged
        self.opening = parts_of(tagged.opening, vocabulary)
        self.closing, closing_ends = _until_stop(parts_of(tagged.closing, vocabulary), vocabulary)
        self.separator = None if tagged.separator is None else parts_of(tagged.separator, vocabulary)
        self.triggers = [parts_of(trigger, vocabulary)[0] for trigger in tagged.triggers]
        self.forbidden = tuple(trigger for trigger in self.triggers if isinstance(trigger, str))
        self.stops = tagged.stop_after_first or closing_ends
        tags = []
        for number, tag in enumerate(tagged.tags):
            end, ends_output = _until_stop(parts_of(tag.end, vocabulary), vocabulary)
            tags.append(_Tag(number, parts_of(tag.begin, vocabulary), tag.content, end, ends_output))
        self.lasting = [tag for tag in tags if not tag.ends_output]
        self.ending = [tag for tag in tags if tag.ends_output]

    def whole(self) -> Expression:
        if self.tagged.at_least_one:
            behind = Row(()) if self.stops else self.text_and_regions()
            first = [_row(region, behind) for region in self.regions(self.lasting, None)]
            return _either([*first, *self.regions(self.ending, None)])
        return self.text_and_regions()

    def text_and_regions(self) -> Expression:
        """Free text, and the regions that triggers begin in it."""
        text = FreeText(self.forbidden)
        lasting, ending = self.triggered(self.lasting), self.triggered(self.ending)
        if self.stops or not lasting:
            return _either([text, *lasting, *ending])
        return _row(Many(_either(lasting)), _either([text, *ending]))

    def triggered(self, tags: Sequence[_Tag]) -> list[Expression]:
        """Free text, a trigger and the region that it begins, for each trigger."""
        found = []
        for trigger in self.triggers:
            regions = list(self.regions(tags, trigger))
            if regions:
                found.append(_row(self.text_until(trigger), _either(regions)))
        return found

    def text_until(self, trigger: str | int) -> Expression:
        if isinstance(trigger, int):
            return _row(FreeText(self.forbidden), TokenId(trigger))
        return TextUntil(self.forbidden, trigger)

    def regions(self, tags: Sequence[_Tag], trigger: str | int | None) -> Iterator[Expression]:
        """The regions that begin with one of ``tags``, without the ``trigger`` itself."""
        begun = []
        for tag in tags:
            start = _joined(self.opening, tag.begin)
            if trigger is not None:
                if not begins_with(start[0], trigger):
                    continue
                rest = start[0][len(trigger) :] if isinstance(start[0], str) and isinstance(trigger, str) else ""
                start = ((rest,) if rest else ()) + start[1:]
            is_whole = tag.ends_output or self.separator is not None
            begun.append(_row(_parts(start), self.behind_begin(tag, () if is_whole else self.closing)))
        if self.separator is None or tags is self.ending:
            yield from begun
        elif begun:
            # What follows the first tag stands there once for all tags, or grammars would grow by their square.
            yield _row(_either(begun), self.further(), self.closed())

    def further(self) -> Expression:
        """More tags behind the first one."""
        return Many(_either([self.another(tag) for tag in self.lasting]))

    def closed(self) -> Expression:
        """The end of a list of tags."""
        return _either([_parts(self.closing), *(self.another(tag) for tag in self.ending)])

    def another(self, tag: _Tag) -> Expression:
        assert self.separator is not None
        return _row(_parts(_joined(self.separator, tag.begin)), self.behind_begin(tag, ()))

    def behind_begin(self, tag: _Tag, closing: Parts) -> Expression:
        end = _joined(tag.end, closing)
        until = end[0] if end and isinstance(end[0], str) else ""
        rest = _parts(end[1:] if until else end)
        if tag.content is not None:
            is_last = tag.ends_output or (self.stops and self.separator is None)
            return _row(Content(tag.content, tag.number, until, not end and not is_last), rest)
        return _row(TextUntil((until,), until) if until else FreeText(()), rest)


def _until_stop(parts: Parts, vocabulary: Vocabulary) -> tuple[Parts, bool]:
    """The parts before the first stop token, and whether there is one."""
    for n, part in enumerate(parts):
        if part in vocabulary.stop_token_ids and isinstance(part, int):
            return parts[:n], True
    return parts, False


def _joined(*markers: Parts) -> Parts:
    found: list[str | int] = []
    for part in (part for marker in markers for part in marker):
        last = found[-1] if found else None
        if isinstance(last, str) and isinstance(part, str):
            found[-1] = last + part
        else:
            found.append(part)
    return tuple(found)


def _parts(parts: Parts) -> Expression:
    return _row(*(Literal(part) if isinstance(part, str) else TokenId(part) for part in parts))


def _row(*items: Expression) -> Expression:
    flat: list[Expression] = []
    for item in items:
        flat += item.items if isinstance(item, Row) else [item]
    return flat[0] if len(flat) == 1 else Row(tuple(flat))


def _either(options: Sequence[Expression]) -> Expression:
    return options[0] if len(options) == 1 else Either(tuple(options))
