"""A grammar of llguidance for a loose schema: what it cannot follow is dropped, keyword by keyword.

It may let through what the schema refuses, and must take what the schema takes: so the holes that let too much through,
for which ``_llguidance_json`` refuses a schema, do not matter here.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from constrain.backends._llguidance_json import (
    MAX_DEPTH,
    has_unwritable_text,
    json_grammar,
    schema_support,
    slow_multiples,
)
from constrain.backends._llguidance_pattern import rust_pattern
from constrain.errors import UnsatisfiableGrammarError, Unsupported
from constrain.grammar_spec import GrammarSpec, JsonForm

if TYPE_CHECKING:
    from constrain.schema.evaluation import Ranges
    from constrain.schema.inventory import KeywordUse
    from constrain.schema.loosening import LooseSchema
    from constrain.schema.rewrite import Rewritten

Compile = Callable[[str], Any]
"""From a Lark text to a matcher, or to the message of what is wrong with it."""

_MAX_ATTEMPTS = 24
_STAGES = (
    ("patternProperties",), ("allOf",), ("pattern", "format"), ("anyOf",), ("enum", "const"), ("minItems", "maxItems"),
    ("minLength", "maxLength"), ("minProperties", "maxProperties"), ("items", "prefixItems"), ("properties",),
)  # fmt: skip
"""What is dropped, together with all before it, where a message names no keyword that is there."""


def guide_of(grammar_spec: GrammarSpec, compile_lark: Compile) -> "tuple[LooseSchema, Any]":
    """The tightest loose schema that llguidance takes, and its matcher.

    Raises ``UnsatisfiableGrammarError`` where there is no valid value.
    """
    found = None
    for exact_rules, padded in ((True, True), (True, False), (False, True), (False, False)):
        schema = _loosened(grammar_spec, exact_rules, padded)
        loose, matcher = _taken(schema, grammar_spec.form or JsonForm(), compile_lark)
        if found is None or len(loose.dropped) < len(found[0].dropped):
            found = loose, matcher
        if not found[0].dropped - _unbearable_places(schema):
            break
    assert found is not None
    return found


def escapes_of(grammar_spec: GrammarSpec, loose: "LooseSchema") -> "Ranges":
    """The characters that the grammar of ``loose`` lets be written with a backslash."""
    from constrain.schema.evaluation import ANY_CHARACTER, CONTROL_ESCAPES, SHORT_ESCAPES

    form = grammar_spec.form or JsonForm()
    if form.escapes == "any":
        return ANY_CHARACTER
    return CONTROL_ESCAPES if _has_escapes(loose, form) else SHORT_ESCAPES


def _has_escapes(loose: "LooseSchema", form: JsonForm) -> bool:
    """Whether there are escapes of six characters."""
    return form.escapes == "any" or loose.asks_for_controls or has_unwritable_text(loose.read)


def _loosened(grammar_spec: GrammarSpec, exact_rules: bool, padded: bool) -> "LooseSchema":
    from constrain.schema.loosening import loosened

    form = grammar_spec.form or JsonForm()
    return loosened(
        grammar_spec.text,
        grammar_spec.assert_formats,
        exact_rules=exact_rules,
        padded=padded,
        any_order=form.key_order == "free",
        any_form=form.numbers == "any",
    )


def _unbearable_places(loose: "LooseSchema") -> set[str]:
    """What has to go whatever else is tried."""
    return {loose.read.at_home(item).pointer for item in _unbearable(loose.read)}


def _taken(loose: "LooseSchema", form: JsonForm, compile_lark: Compile) -> "tuple[LooseSchema, Any]":
    if loose.read.schema is False:
        reason = "the schema is false, or comes to that: no value is valid"
        raise UnsatisfiableGrammarError(reason, unsupported=[Unsupported(reason)])
    stages = iter([*_STAGES, None, None])
    for _ in range(_MAX_ATTEMPTS):
        missing = list(_unbearable(loose.read))
        if not missing:
            try:
                outcome = compile_lark(json_grammar(loose.read, form, escapes=_has_escapes(loose, form)))
            except UnsatisfiableGrammarError:
                missing = list(_narrow_formats(loose.read))
                if not missing:
                    raise
            else:
                if not isinstance(outcome, str):
                    return loose, outcome
                missing = _blamed(loose.read, outcome) or _next_stage(loose.read, stages)
        looser = loose.without(missing)
        loose = looser if looser is not None else _nothing_of(loose)
    loose = _nothing_of(loose)
    return loose, compile_lark(json_grammar(loose.read, form, escapes=_has_escapes(loose, form)))


def _narrow_formats(schema: "Rewritten") -> Iterator[Unsupported]:
    """The formats of which some texts are never written, which may be those that something else asks for."""
    for use in schema.uses:
        if use.effective and use.keyword == "format":
            yield use.unsupported("is followed in its usual forms only")


def _unbearable(schema: "Rewritten") -> Iterator[Unsupported]:
    """What llguidance must not be given: it would refuse what is valid, take too long, or die."""
    for pointer, depth in schema.depths():
        if depth > MAX_DEPTH:
            yield Unsupported(f"nests deeper than {MAX_DEPTH} levels", pointer)
    for use in schema.uses:
        if use.effective and use.keyword not in _HARMLESS:
            found = schema_support(use)
            if found is not None and not (use.keyword in _SPELLED and "\\u escape" in found.reason):
                yield found
    yield from slow_multiples(schema)


_HARMLESS = frozenset({"minProperties", "false"})
_SPELLED = frozenset({"properties", "patternProperties", "required", "const", "enum"})


def _blamed(schema: "Rewritten", message: str) -> list[Unsupported]:
    """What ``message`` of llguidance speaks of, as far as it can go."""
    line = message.strip().partition("\n")[0]
    uses = [use for use in schema.uses if use.effective]
    if "not disjoint" in line:
        overlapping = [use for use in uses if use.keyword == "patternProperties" and _is_named(use, line)]
        return [use.unsupported(line) for use in overlapping[:1]]
    if "circular references" in line:
        target = "#" + line.rpartition("#")[2].strip()
        circular = [use for use in uses if use.keyword == "$ref" and use.value == target]
        beside = [use for ref in circular for use in uses if use.node is ref.node and use is not ref]
        return [use.unsupported(line) for use in beside or circular]
    for words, keywords in (("min/maxProperties", ("minProperties", "maxProperties")), ("enum", ("enum",))):
        if words in line:
            return [use.unsupported(line) for use in uses if use.keyword in keywords]
    listed = re.search(r"Unimplemented keys: (\[.*\])", line)
    unknown = json.loads(listed[1]) if listed else []
    return [use.unsupported(line) for use in uses if use.keyword in unknown]


def _is_named(use: "KeywordUse", line: str) -> bool:
    return any(f"/{rust_pattern(pattern)}/" in line for pattern in use.value)


def _next_stage(schema: "Rewritten", stages: Iterator[tuple[str, ...] | None]) -> list[Unsupported]:
    for stage in stages:
        if stage is None:
            return []
        found = [use.unsupported("cannot be followed") for use in schema.uses if use.effective and use.keyword in stage]
        if found:
            return found
    return []


def _nothing_of(loose: "LooseSchema") -> "LooseSchema":
    return loose.without([Unsupported("cannot be followed")]) or loose
