"""A schema rewritten, by rules that are equivalences, into one that more libraries enforce exactly."""

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from constrain.errors import LimitExceededError, Unsupported
from constrain.schema.graph import SchemaGraph
from constrain.schema.inventory import KeywordUse, inventory
from constrain.schema.json_text import join_pointer
from constrain.schema.key_order import permuted
from constrain.schema.load import load_graph
from constrain.schema.normal import Normal, NormalObject, NormalSchema, children, normalise, with_children
from constrain.schema.proofs import as_type, kinds_of_type
from constrain.schema.rules import RULES, any_of

_MAX_SUBSCHEMAS = 20_000


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What came of a schema.

    ``schema`` stands alone, in draft 2020-12; it is shared, for reading only. ``rules`` names, for the pointer of each
    keyword of the original that a rule has taken out, the rule; ``places`` maps the pointer of each subschema of
    ``schema`` to that of the original place that it stands for. ``unordered`` has the pointers of those that are one of
    several which differ in the order of their properties only.
    """

    schema: dict[str, Any] | bool
    graph: SchemaGraph
    uses: list[KeywordUse]
    original_uses: list[KeywordUse]
    original_pointers: frozenset[str]
    rules: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    unordered: frozenset[str] = frozenset()

    def depths(self) -> list[tuple[str, int]]:
        """``(pointer, depth)`` of each subschema: how many steps, references too, it stands from the root."""
        found = {id(self.graph.root): 0}
        todo = [self.graph.root]
        for node in todo:
            for following in node.successors:
                if id(following) not in found:
                    found[id(following)] = found[id(node)] + 1
                    todo.append(following)
        return [(node.pointer, found[id(node)]) for node in todo]

    def at_home(self, item: Unsupported) -> Unsupported:
        """``item``, found in ``schema``, with the pointer of the original place."""
        if self.schema is False:
            culprit = next(use for use in self.original_uses if use.effective)
            return culprit.unsupported(item.reason)
        place = item.pointer
        tail = ""
        while place not in self.places:
            if not place:
                return item
            place, _, last = place.rpartition("/")
            tail = f"/{last}{tail}"
        home = self.places[place] + tail
        if tail and home not in self.original_pointers:
            home = self.places[place]
        return Unsupported(item.reason, home, item.keyword)


@lru_cache(maxsize=128)
def rewritten(schema_text: str, assert_formats: bool = False, free_order: bool = False) -> Rewritten:
    """The schema of a ``GrammarSpec``, rewritten. Raises ``LimitExceededError`` where that would grow too large.

    ``free_order`` lets the properties of small closed objects come in any order.
    """
    graph = load_graph(schema_text)
    uses = inventory(graph, assert_formats=assert_formats)
    return Rewriter(normalise(graph, uses), free_order).finish(uses)


class Rewriter:
    """One pass over a schema in normal form, with the rules that are equivalences."""

    def __init__(self, normal: Normal, free_order: bool = False) -> None:
        self.normal = normal
        self._free_order = free_order
        self._num_subschemas = 0
        self._references: dict[str, None] = {}
        self._hoisted: dict[str, NormalSchema] = {}
        self.rules: dict[str, str] = {}
        self.placed: list[tuple[str, NormalObject]] = []

    def finish(self, original_uses: list[KeywordUse]) -> Rewritten:
        """The result; ``original_uses`` is the inventory of what the normal form was made of."""
        data = self._run()
        result = load_graph(data)
        return Rewritten(
            data,
            result,
            inventory(result, assert_formats=True),
            original_uses,
            frozenset(use.pointer for use in original_uses),
            self.rules,
            {pointer: schema.origin for pointer, schema in self.placed},
            frozenset(pointer for pointer, schema in self.placed if not schema.ordered),
        )

    def rewrite(self, schema: NormalSchema) -> NormalSchema:
        """One subschema, with all that is inside."""
        self._num_subschemas += 1
        if self._num_subschemas > _MAX_SUBSCHEMAS:
            raise LimitExceededError(f"rewritten, the schema has more than {_MAX_SUBSCHEMAS} subschemas")
        schema = self.apply_rules(schema)
        if not isinstance(schema, NormalObject):
            return schema
        self._refer(schema)
        if any(keyword.startswith("unevaluated") for keyword in schema):
            # Refused as a whole; what is inside must go on evaluating what it does.
            return with_children(schema, self._kept)
        made = _simplified(with_children(schema, self.rewrite))
        return self._permuted(made) if self._free_order and isinstance(made, NormalObject) else made

    def apply_rules(self, schema: NormalSchema) -> NormalSchema:
        """``schema`` without the keywords at its top that a rule takes out."""
        for rule in RULES:
            while isinstance(schema, NormalObject) and rule.keyword in schema:
                changed = rule.change(self.normal, schema)
                if changed is None:
                    if rule.keyword.startswith("unevaluated"):
                        return schema
                    break
                self.rules.setdefault(join_pointer(schema.origin, rule.keyword), rule.name)
                schema = changed
        return schema

    def _run(self) -> Any:
        root = self.rewrite(self.normal.root)
        definitions: dict[str, NormalSchema] = {}
        while len(definitions) < len(self._references):
            name = next(name for name in self._references if name not in definitions)
            definitions[name] = self.rewrite(self.normal.definitions[name])
        definitions |= self._hoisted
        self.placed = _places("", root)
        for name, schema in definitions.items():
            self.placed += _places(f"/$defs/{name}", schema)
        data: Any = {**root} if isinstance(root, NormalObject) else root
        if definitions and isinstance(root, NormalObject):  # what is true or false refers to nothing
            data["$defs"] = definitions
        # Through text, so that nothing is shared: parts of the original may stand in several places.
        return json.loads(json.dumps(data))

    def _permuted(self, schema: NormalObject) -> NormalSchema:
        made = permuted(schema)
        if made is schema:
            return schema
        # The values stand in every alternative: by reference, or nested objects would multiply.
        shared = {name: self._shared(item) for name, item in schema["properties"].items()}
        return permuted(NormalObject(schema.origin, {**schema, "properties": shared}))

    def _shared(self, schema: NormalSchema) -> NormalSchema:
        if not isinstance(schema, NormalObject) or len(schema) <= 1:
            return schema
        name = f"value{len(self._hoisted)}"
        self._hoisted[name] = schema
        return NormalObject(schema.origin, {"$ref": f"#/$defs/{name}"})

    def _kept(self, schema: NormalSchema) -> NormalSchema:
        if not isinstance(schema, NormalObject):
            return schema
        self._refer(schema)
        return with_children(schema, self._kept)

    def _refer(self, schema: NormalObject) -> None:
        if "$ref" in schema:
            self._references[schema["$ref"].removeprefix("#/$defs/")] = None


def _simplified(schema: NormalObject) -> NormalSchema:
    """Without subschemas that accept everything or nothing, where that can be said more plainly."""
    made = NormalObject(schema.origin, schema)
    if "allOf" in made:
        parts = [item for item in made.pop("allOf") if item != {}]
        if any(item is False for item in parts):
            return False
        if len(parts) == 1 and not made:
            return parts[0]  # type: ignore[no-any-return]
        if parts:
            made["allOf"] = parts
    for keyword in ("anyOf", "oneOf"):
        if keyword in made and (keyword == "anyOf" or False in [item for item in made[keyword] if item is False]):
            branches = made.pop(keyword)
            if keyword == "oneOf":
                made["oneOf"] = [item for item in branches if item is not False]
                continue
            one = any_of(schema.origin, branches)
            if one is False:
                return False
            if isinstance(one, NormalObject) and "anyOf" in one and one.keys() == {"anyOf"}:
                made["anyOf"] = one["anyOf"]
            elif one and not made:
                return one
            elif one:
                made["allOf"] = [*made.get("allOf", ()), one]
    return _without_false(made)


def _without_false(schema: NormalObject) -> NormalSchema:
    """``false`` where values go: as bounds of arrays."""
    if "prefixItems" in schema and False in [item for item in schema["prefixItems"] if item is False]:
        first = next(index for index, item in enumerate(schema["prefixItems"]) if item is False)
        prefix = schema.pop("prefixItems")[:first]
        if prefix:
            schema["prefixItems"] = prefix
        schema["items"] = False
    if schema.get("items") is False and len(schema.get("prefixItems", ())) < schema.get("minItems", 0):
        left = kinds_of_type(schema.get("type", ["null", "boolean", "number", "string", "object", "array"])) - {"array"}
        names = as_type(left)
        if not names:
            return False
        kept = schema.without("items", "prefixItems", "minItems", "maxItems")
        kept["type"] = names
        return kept
    return schema


def _places(pointer: str, schema: NormalSchema) -> list[tuple[str, NormalObject]]:
    if not isinstance(schema, NormalObject):
        return []
    found = [(pointer, schema)]
    for path, child in children(schema):
        found += _places(join_pointer(pointer, *path), child)
    return found
