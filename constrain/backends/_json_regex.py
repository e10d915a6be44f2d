"""JSON schemas as regular expressions, for backends that know nothing else; endless nesting is refused.

This is a list of what is right, and what is not on it is refused by keyword. The libraries' own translations are not
used: they drop keywords in silence, and what they write is not in the form that was asked for.
"""

import json
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from constrain.backends._json_schema import child_pointer
from constrain.backends._number_regex import ANY_NUMBER, bounded_integer
from constrain.backends._string_regex import any_string, literal, matching_string, string_literal
from constrain.errors import InvalidGrammarError, Unsupported, UnsupportedGrammarError
from constrain.grammar_spec import JsonForm
from constrain.regex import Alternation, Concat, Node, Repeat, alternation, chars, concat, repeat

if TYPE_CHECKING:
    from constrain.schema.graph import SchemaNode
    from constrain.schema.rewrite import Rewritten

Schema = dict[str, Any]

_KEYWORDS = {
    "null": frozenset[str](),
    "boolean": frozenset[str](),
    "integer": frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "number": frozenset[str](),
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "array": frozenset({"prefixItems", "items", "minItems", "maxItems"}),
    "object": frozenset({"properties", "required", "additionalProperties"}),
}
_ALONE = ("$ref", "anyOf", "enum", "const")
_EMPTY = concat(())
_ENDLESS = "values that may nest without end, which no regular expression describes"
_TOO_LARGE = "written as a regular expression it is too large"
MAX_COUNT = 10_000
"""The largest length or count: the libraries write repeats out."""

MAX_PARTS = 50_000
"""The largest expression: what a reference leads to is written out wherever it stands."""


def json_regex(schema: "Rewritten", form: JsonForm) -> tuple[Node | None, list[Unsupported]]:
    """The texts of the values of ``schema`` in ``form``, and what of it is not enforced; one of both is empty."""
    writer = _Writer(schema, form)
    try:
        node = writer.value(schema.graph.root)
    except RecursionError:
        return None, [Unsupported("the schema nests too deep")]
    unsupported = list(dict.fromkeys(writer.unsupported))
    return (None, unsupported) if unsupported else (node, [])


class _Writer:
    """Every method gives a node, a meaningless one where it has put a refusal into ``unsupported``."""

    def __init__(self, schema: "Rewritten", form: JsonForm) -> None:
        self._keywords: dict[int, Schema] = {}
        for use in schema.uses:
            if use.effective and use.keyword != "false":
                self._keywords.setdefault(id(use.node), {})[use.keyword] = use.value
        self._known: dict[int, Node | None] = {}
        self.unsupported: list[Unsupported] = []
        blank = chars((ord(char), ord(char)) for char in "\t\n\r ")
        self._blank = repeat(blank, 0, form.max_whitespace) if form.whitespace == "flexible" else _EMPTY
        after = " " if form.whitespace == "canonical" else ""
        self._comma = concat([self._blank, literal("," + after), self._blank])
        self._colon = concat([self._blank, literal(":" + after), self._blank])

    def value(self, node: "SchemaNode") -> Node:
        """The texts of the values of one subschema."""
        if id(node) not in self._known:
            self._known[id(node)] = None
            found = self._value(node)
            self._known[id(node)] = self._refuse(node, None, _TOO_LARGE) if _is_large([found], MAX_PARTS) else found
        known = self._known[id(node)]
        return known if known is not None else self._refuse(node, None, _ENDLESS)

    def _value(self, node: "SchemaNode") -> Node:
        keywords = self._keywords.get(id(node), {})
        if node.schema is False:
            return self._refuse(node, "false", "a schema that is false")
        alone = next((keyword for keyword in _ALONE if keyword in keywords), None)
        if alone is not None:
            return self._alone(node, alone, keywords)
        names = keywords.get("type", list(_KEYWORDS))
        types = [names] if isinstance(names, str) else names
        known = {"type"}.union(*(_KEYWORDS[name] for name in types))
        others = [keyword for keyword in keywords if keyword not in known]
        for keyword in others:
            self._refuse(node, keyword, f"{keyword} is not enforced")
        if "type" not in keywords:
            for keyword in keywords if not others else ():
                self._refuse(node, keyword, f"{keyword} without type: {_ENDLESS}")
            if not keywords:
                self._refuse(node, None, f"any value: {_ENDLESS}")
            return _EMPTY
        return self._union(node, "type", [self._of_type(node, name, keywords) for name in types])

    def _alone(self, node: "SchemaNode", alone: str, keywords: Schema) -> Node:
        is_values = alone in ("enum", "const")
        for keyword in keywords.keys() - {alone, *(("type",) if is_values else ())}:
            self._refuse(node, keyword, f"{keyword} beside {alone} is not enforced")
        if alone == "$ref":
            return self.value(node.references["$ref"])
        if alone == "anyOf":
            options = [node.child("anyOf", n) for n in range(len(keywords["anyOf"]))]
            return self._union(node, alone, [self.value(option) for option in options if option.schema is not False])
        values = keywords["enum"] if alone == "enum" else [keywords["const"]]
        names = keywords.get("type", list(_KEYWORDS))
        types = [names] if isinstance(names, str) else names
        return self._union(node, alone, [self._literal(each) for each in values if _has_type(each, types)])

    def _of_type(self, node: "SchemaNode", name: str, keywords: Schema) -> Node:
        match name:
            case "null":
                return literal("null")
            case "boolean":
                return alternation([literal("true"), literal("false")])
            case "integer":
                return self._integer(node, keywords)
            case "number":
                return ANY_NUMBER
            case "string":
                return self._string(node, keywords)
            case "array":
                return self._array(node, keywords)
            case _:
                return self._object(node, keywords)

    def _integer(self, node: "SchemaNode", keywords: Schema) -> Node:
        lows = [math.ceil(keywords["minimum"])] if "minimum" in keywords else []
        lows += [math.floor(keywords["exclusiveMinimum"]) + 1] if "exclusiveMinimum" in keywords else []
        highs = [math.floor(keywords["maximum"])] if "maximum" in keywords else []
        highs += [math.ceil(keywords["exclusiveMaximum"]) - 1] if "exclusiveMaximum" in keywords else []
        found = bounded_integer(max(lows, default=None), min(highs, default=None))
        keyword = next((each for each in keywords if each != "type"), "type")
        return self._refuse(node, keyword, "no integer lies within the bounds") if found is None else found

    def _string(self, node: "SchemaNode", keywords: Schema) -> Node:
        shortest, longest = self._counts(node, keywords, "minLength", "maxLength")
        if "pattern" not in keywords:
            return any_string(shortest, longest)
        for keyword in ("minLength", "maxLength"):
            if keyword in keywords:
                self._refuse(node, keyword, f"{keyword} beside pattern is not enforced")
        try:
            return matching_string(keywords["pattern"])
        except (UnsupportedGrammarError, InvalidGrammarError) as exc:
            return self._refuse(node, "pattern", f"pattern {keywords['pattern']!r}: {exc}")

    def _array(self, node: "SchemaNode", keywords: Schema) -> Node:
        least, most = self._counts(node, keywords, "minItems", "maxItems")
        first = [node.child("prefixItems", n) for n in range(len(keywords.get("prefixItems", ())))]
        rest = node.child("items") if "items" in keywords else None
        ended = next((n for n, item in enumerate(first) if item.schema is False), len(first))
        if ended < len(first) or (rest is not None and rest.schema is False):
            most = ended if most is None else min(most, ended)
        if most is not None and least > most:
            return self._refuse(node, "minItems", "no array is long enough and short enough")
        items = [self.value(item) for item in first[:most]]
        if most is None or most > len(items):
            if rest is None:
                return self._refuse(node, None, f"an array of anything: {_ENDLESS}")
            # Items beyond the first ones are alike: each but the very first of all stands behind a comma.
            more = concat([self._comma, self.value(rest)])
            left = None if most is None else most - len(items)
            tail = repeat(more, max(least - len(items), 0), left)
            if not items:
                some = concat([self.value(rest), repeat(more, max(least - 1, 0), None if left is None else left - 1)])
                return self._brackets("[]", some, least == 0)
        else:
            tail = _EMPTY
        for place in range(len(items) - 1, 0, -1):
            tail = concat([self._comma, items[place], tail])
            tail = tail if place < least else repeat(tail, 0, 1)
        return self._brackets("[]", concat([items[0], tail]) if items else None, least == 0)

    def _object(self, node: "SchemaNode", keywords: Schema) -> Node:
        properties, required = keywords.get("properties", {}), set(keywords.get("required", ()))
        if keywords.get("additionalProperties") is not False:
            keyword = "additionalProperties" if "additionalProperties" in keywords else None
            return self._refuse(node, keyword, "an object without additionalProperties: false")
        if required - properties.keys():
            reason = f"required names {sorted(required - properties.keys())}, which properties lacks"
            return self._refuse(node, "required", reason)
        members: list[tuple[Node, bool]] = []
        for name in properties:
            child = node.child("properties", name)
            if child.schema is not False or name in required:
                value = concat([string_literal(name), self._colon, self.value(child)])
                members.append((value, name in required))
        leading = next((n for n, (_, is_required) in enumerate(members) if is_required), len(members))
        if _is_large((member for member, _ in members), MAX_PARTS // (leading + 1)):
            return self._refuse(node, "properties", f"{leading} optional properties come first: {_TOO_LARGE}")
        some, may_be_empty = self._members(members)
        return self._brackets("{}", some, may_be_empty)

    def _members(self, members: list[tuple[Node, bool]]) -> tuple[Node | None, bool]:
        """One or more of ``members``, each with whether it must be there, in their order; whether there may be none."""
        some: Node | None = None  # of the members from here on, at least one
        behind, may_be_empty = _EMPTY, True  # what may follow a member before them
        for member, is_required in reversed(members):
            first = concat([member, behind])
            some = first if some is None or is_required else alternation([first, some])
            if is_required:
                behind, may_be_empty = concat([self._comma, first]), False
            else:
                behind = concat([repeat(concat([self._comma, member]), 0, 1), behind])
        return some, may_be_empty

    def _brackets(self, pair: str, some: Node | None, may_be_empty: bool) -> Node:
        inside = concat([self._blank, some, self._blank]) if some is not None else self._blank
        if some is not None and may_be_empty:
            inside = alternation([inside, self._blank])
        return concat([literal(pair[0]), inside, literal(pair[1])])

    def _literal(self, value: Any) -> Node:
        """``value`` in the spelling of ``json.dumps``, but for white space."""
        if isinstance(value, list):
            items = [self._literal(item) for item in value]
        elif isinstance(value, dict):
            pairs = value.items()
            items = [concat([string_literal(name), self._colon, self._literal(item)]) for name, item in pairs]
        else:
            return literal(json.dumps(value, ensure_ascii=False))
        pair = "[]" if isinstance(value, list) else "{}"
        parts = [part for item in items for part in (self._comma, item)][1:]
        return self._brackets(pair, concat(parts) if parts else None, False)

    def _counts(self, node: "SchemaNode", keywords: Schema, low: str, high: str) -> tuple[int, int | None]:
        least, most = int(keywords.get(low, 0)), int(keywords[high]) if high in keywords else None
        for keyword in (low, high):
            if int(keywords.get(keyword, 0)) > MAX_COUNT:
                self._refuse(node, keyword, f"{keyword} {keywords[keyword]}: at most {MAX_COUNT}")
                return 0, None
        if most is not None and least > most:
            self._refuse(node, low, f"{low} is greater than {high}")
            return 0, None
        return least, most

    def _union(self, node: "SchemaNode", keyword: str, options: list[Node]) -> Node:
        return alternation(options) if options else self._refuse(node, keyword, "no value is valid")

    def _refuse(self, node: "SchemaNode", keyword: str | None, reason: str) -> Node:
        inside = keyword is not None and keyword != "false"
        pointer = child_pointer(node.pointer, str(keyword)) if inside else node.pointer
        self.unsupported.append(Unsupported(reason, pointer, keyword))
        return _EMPTY


def _has_type(value: Any, types: list[str]) -> bool:
    if isinstance(value, bool) or value is None:
        return ("null" if value is None else "boolean") in types
    if isinstance(value, int | float):
        return "number" in types or ("integer" in types and value == int(value))
    name = "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
    return name in types


def _is_large(nodes: Iterable[Node], most: int) -> bool:
    """Whether ``nodes`` have more than ``most`` parts, written out; parts may stand in many places of them."""
    todo = list(nodes)
    while todo:
        match todo.pop():
            case Concat(parts) | Alternation(parts):
                todo += parts
            case Repeat(body, _, _):
                todo.append(body)
        most -= 1
        if most < 0:
            return True
    return False
