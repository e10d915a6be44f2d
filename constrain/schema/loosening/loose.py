"""The loose schema of a spec, and looser ones for a library that still cannot follow it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from constrain.errors import LimitExceededError, Unsupported
from constrain.schema.evaluation.pattern_automaton import pattern_of
from constrain.schema.inventory import KeywordUse, inventory
from constrain.schema.json_text import join_pointer
from constrain.schema.load import load_graph
from constrain.schema.loosening.dropping import drop_
from constrain.schema.loosening.reach import listed_names
from constrain.schema.loosening.rules import LOOSE_RULES
from constrain.schema.loosening.widening import widened
from constrain.schema.normal import Normal, NormalObject, NormalSchema, normalise
from constrain.schema.rewrite import Rewriter, Rewritten
from constrain.schema.rules import RULES

_LOOSE = {rule.keyword: rule for rule in LOOSE_RULES}


@dataclass(frozen=True, slots=True)
class LooseSchema:
    """A schema that accepts whatever the original does.

    ``read`` has it as the backends read schemas. ``losses`` names, for the pointer of each keyword of the original that
    is no longer said in full, the rule; ``dropped`` has those that are not said at all. ``asks_for_controls``: some
    pattern of the original matches only texts with a control character, as far as one of its sets says.
    """

    read: Rewritten
    losses: dict[str, str] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()
    asks_for_controls: bool = False

    def without(self, items: Iterable[Unsupported]) -> "LooseSchema | None":
        """A looser one that lacks the keywords ``items``, which were found in ``read``; None if it has none of them."""
        data = json.loads(json.dumps(self.read.schema))
        gone = {self.read.at_home(item).pointer for item in items if drop_(data, item)}
        if not gone:
            return None
        graph = load_graph(data)
        read = replace(self.read, schema=data, graph=graph, uses=inventory(graph, assert_formats=True))
        return replace(self, read=read, dropped=self.dropped | gone)


@lru_cache(maxsize=64)
def loosened(
    schema_text: str,
    assert_formats: bool = False,
    *,
    exact_rules: bool = True,
    padded: bool = True,
    any_order: bool = False,
    any_form: bool = False,
) -> LooseSchema:
    """The loose schema of a ``GrammarSpec``; it has none of the keywords of ``LOOSE_RULES``.

    ``exact_rules`` tries first to say keywords by the equivalences of ``constrain.schema.rules``, which may grow too
    large for a library; ``padded`` lets branches have their keys in one order; ``any_order`` leaves the order of keys
    open, ``any_form`` the form of numbers.
    """
    graph = load_graph(schema_text)
    uses = inventory(graph, assert_formats=assert_formats)
    loosener = _Loosener(normalise(graph, uses), exact_rules, padded and not any_order, any_order, any_form)
    try:
        read = loosener.finish(uses)
    except LimitExceededError:
        if not exact_rules:
            raise
        return loosened(
            schema_text, assert_formats, exact_rules=False, padded=padded, any_order=any_order, any_form=any_form
        )
    return LooseSchema(read, loosener.losses, asks_for_controls=any(map(_asks_for_controls, uses)))


def _asks_for_controls(use: KeywordUse) -> bool:
    if use.keyword not in ("pattern", "patternProperties") or not use.effective:
        return False
    automata = (pattern_of(source).automaton for source in ([use.value] if use.keyword == "pattern" else use.value))
    sets = (ranges for automaton in automata if automaton is not None for ranges in automaton.network.sets)
    return any(ranges and all(span[1] <= 0x1F or span == (0x7F, 0x7F) for span in ranges) for ranges in sets)


class _Loosener(Rewriter):
    def __init__(self, normal: Normal, exact_rules: bool, padded: bool, any_order: bool, any_form: bool) -> None:
        super().__init__(normal)
        self._exact_rules, self._padded = exact_rules, padded
        self._any_order, self._any_form = any_order, any_form
        self.losses: dict[str, str] = {}

    def rewrite(self, schema: NormalSchema) -> NormalSchema:
        names = listed_names(self.normal, schema) if self._padded else []
        made = super().rewrite(schema)
        if isinstance(made, NormalObject):
            made = made if self._any_order else _padded(made, names)
            if self._any_order or self._any_form:
                made = widened(made, any_order=self._any_order, any_form=self._any_form)
        return made

    def apply_rules(self, schema: NormalSchema) -> NormalSchema:
        # llguidance compiles neither a reference to false nor an empty enum, wherever it stands.
        if isinstance(schema, NormalObject) and schema.get("enum") == []:
            return False
        if isinstance(schema, NormalObject) and "$ref" in schema and self.normal.target(schema) is False:
            return False
        for rule in RULES:
            while isinstance(schema, NormalObject) and rule.keyword in schema:
                place = join_pointer(schema.origin, rule.keyword)
                loose = _LOOSE.get(rule.keyword)
                # llguidance 1.9.1 takes no name at all where alternatives of closed patterns for keys come together.
                is_exact = self._exact_rules and not (self._any_order and rule.keyword == "unevaluatedProperties")
                changed = rule.change(self.normal, schema) if is_exact or loose is None else None
                if changed is not None:
                    self.rules.setdefault(place, rule.name)
                else:
                    assert loose is not None, rule.keyword
                    for keyword in (loose.keyword, *(other for other in loose.others if other in schema)):
                        self.losses.setdefault(join_pointer(schema.origin, keyword), loose.name)
                    changed = loose.change(self.normal, schema)
                schema = changed
        return schema


def _padded(schema: NormalObject, names: list[str]) -> NormalObject:
    """``schema`` that lists ``names`` itself, so that each of its branches has its keys in the same order.

    A branch that lists fewer names than another would put its own first.
    """
    own: dict[str, Any] = schema.get("properties", {})
    branches = sum(len(schema.get(keyword, ())) for keyword in ("allOf", "anyOf")) + ("$ref" in schema)
    listed = list(own)[: len(names)] == names
    if listed or branches + bool(own) < 2 or len(names) < 2:
        return schema
    if "additionalProperties" in schema or "patternProperties" in schema:
        return schema
    made = NormalObject(schema.origin, schema)
    made["properties"] = {name: own.get(name, NormalObject(schema.origin)) for name in dict.fromkeys([*names, *own])}
    return made
