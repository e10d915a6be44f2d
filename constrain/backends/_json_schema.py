"""The JSON schema of a spec as its backend reads it, and what the backend says of it, in the words of the original."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from constrain.backend import Backend, unsupported_error
from constrain.errors import Unsupported
from constrain.grammar_spec import GrammarSpec, JsonForm

if TYPE_CHECKING:
    from constrain.schema.inventory import KeywordUse
    from constrain.schema.rewrite import Rewritten

_READ_BY = {
    "properties": ("additionalProperties",),
    "patternProperties": ("additionalProperties",),
    "prefixItems": ("items",),
    "items": ("additionalItems",),
}
"""What means something else where the keyword is gone, and goes with it."""


def read_schema(grammar_spec: GrammarSpec) -> "Rewritten":
    """The schema of ``grammar_spec``, rewritten by rules that are equivalences; cached."""
    from constrain.schema.rewrite import rewritten

    return rewritten(grammar_spec.text, grammar_spec.assert_formats, _is_free(grammar_spec))


def unwritten_forms(grammar_spec: GrammarSpec, schema: "Rewritten") -> list[Unsupported]:
    """Where the form of JSON asks for more ways to write a value than a grammar of its own has."""
    from constrain.schema.key_order import ordered_keyword, unformed_keyword

    form = grammar_spec.form or JsonForm()
    found = []
    for node in schema.graph.nodes if form.key_order == "free" else ():
        keyword = ordered_keyword(node) if node.applied and node.pointer not in schema.unordered else None
        if keyword is not None:
            reason = "key_order='free', which is exact only for closed objects of up to four properties"
            found.append(Unsupported(reason, child_pointer(node.pointer, keyword), keyword))
    for node in schema.graph.nodes if form.numbers == "any" else ():
        keyword = unformed_keyword(node) if node.applied else None
        if keyword is not None:
            reason = "numbers='any', and this has numbers written in one form"
            found.append(Unsupported(reason, child_pointer(node.pointer, keyword), keyword))
    if form.escapes == "any":
        found.append(Unsupported("escapes='any', with which a key has several spellings"))
    return found


def _is_free(grammar_spec: GrammarSpec) -> bool:
    return grammar_spec.form is not None and grammar_spec.form.key_order == "free"


def read_text(schema: Any) -> "Rewritten":
    """A schema that stands inside another kind of spec; formats decide."""
    from constrain.schema.rewrite import rewritten

    return rewritten(json.dumps(schema), True)


def each_keyword(schema: "Rewritten", support: Callable[["KeywordUse"], Unsupported | None]) -> Iterable[Unsupported]:
    """What ``support`` says of each keyword that must be enforced."""
    for use in schema.uses:
        answer = support(use) if use.effective else None
        if answer is not None:
            yield answer


def enforceable(grammar_spec: GrammarSpec, backend: Backend) -> tuple[GrammarSpec, list[Unsupported]]:
    """The strict spec that is left of one with ``unsupported="ignore"``, and what was left out for ``backend``.

    Raises ``UnsupportedGrammarError`` where what is unsupported cannot be left out.
    """
    strict = replace(grammar_spec, unsupported="error")
    ignored: list[Unsupported] = []
    while missing := backend.unsupported(strict):
        schema = json.loads(strict.text)
        if not any([_take_out_(schema, item) for item in missing]):
            raise unsupported_error(backend.name, missing)
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        strict = replace(strict, text=text)
        ignored += missing
    return strict, ignored


def _take_out_(schema: Any, item: Unsupported) -> bool:
    """Delete the keyword at the pointer of ``item``, or what is in a subschema there; whether anything was."""
    *path, last = [token.replace("~1", "/").replace("~0", "~") for token in item.pointer.split("/")[1:]] or [""]
    place = schema
    for token in path:
        place = place[int(token)] if isinstance(place, list) else place.get(token)
        if not isinstance(place, dict | list):
            return False
    if last == item.keyword and isinstance(place, dict):
        for keyword in (last, *_READ_BY.get(last, ())):
            place.pop(keyword, None)
        return True
    inner = place if not item.pointer else place[int(last)] if isinstance(place, list) else place.get(last)
    if not isinstance(inner, dict) or not inner:
        return False
    kept = {keyword: inner[keyword] for keyword in ("$schema", "$id", "$defs", "definitions") if keyword in inner}
    changed = kept != inner
    inner.clear()
    inner.update(kept)
    return changed


def child_pointer(pointer: str, *names: str | int) -> str:
    """``pointer`` with ``names`` appended, escaped as RFC 6901 wants."""
    return pointer + "".join("/" + str(name).replace("~", "~0").replace("/", "~1") for name in names)
