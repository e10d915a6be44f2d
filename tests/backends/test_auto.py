"""Which backend is chosen, and what is said when there is none."""

import json

import pytest

from constrain.backend import Backend, unsupported_error
from constrain.backends import BACKEND_NAMES, make_backend
from constrain.backends.auto import AutoBackend
from constrain.errors import InvalidGrammarError, InvalidInputError, Unsupported, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec, JsonForm, choice, ebnf, json_object, lark, regex, structural_tag
from constrain.vocabulary import Vocabulary

VOCABULARY = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0])
BACKEND = AutoBackend(VOCABULARY)


def schema_spec(schema: object) -> GrammarSpec:
    return GrammarSpec("json_schema", json.dumps(schema), JsonForm())


@pytest.mark.parametrize(
    ("grammar_spec", "name"),
    [
        (schema_spec({"type": "object"}), "llguidance"),
        (json_object(), "llguidance"),
        (regex("a+"), "llguidance"),
        (choice(["a", "b"]), "llguidance"),
        (lark('start: "a"'), "llguidance"),
        (ebnf('root ::= "a"'), "xgrammar"),
        (structural_tag({"type": "structural_tag", "format": {"type": "any_text"}}), "xgrammar"),
    ],
)
def test_each_kind_has_its_library(grammar_spec: GrammarSpec, name: str) -> None:
    assert BACKEND.unsupported(grammar_spec) == []
    assert BACKEND.compile(grammar_spec).backend_name == name
    chosen, reason = BACKEND.explain(grammar_spec)
    assert chosen == name and reason


class _Refusing(Backend):
    name = "llguidance"

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        return [Unsupported("not today")]

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        raise unsupported_error(self.name, self.unsupported(grammar_spec))


_REFUSED = {"dependencies": {"a": ["b"]}}  # which draft 2020-12 does not know, and whoever writes it means it


def test_what_llguidance_refuses_goes_to_xgrammar_if_it_is_on_its_list() -> None:
    # With llguidance 1.9.1 the list of xgrammar holds nothing that llguidance refuses, hence the stand-in.
    backend = AutoBackend(VOCABULARY)
    backend._backends["llguidance"] = _Refusing(VOCABULARY)
    assert backend.compile(schema_spec({"type": "integer"})).backend_name == "xgrammar"
    chosen, reason = backend.explain(schema_spec({"type": "integer"}))
    assert chosen == "xgrammar" and "not today" in reason
    assert backend.order(schema_spec({"type": "integer"})) == ("llguidance", "xgrammar")


def test_a_refusal_names_the_reasons_of_every_backend() -> None:
    with pytest.raises(UnsupportedGrammarError) as caught:
        BACKEND.compile(schema_spec({"properties": {"a": _REFUSED}}))
    assert all(name in str(caught.value) for name in ("llguidance", "xgrammar", "checks"))
    places = {(item.pointer, item.keyword) for item in caught.value.unsupported}
    assert ("/properties/a/dependencies", "dependencies") in places
    with pytest.raises(UnsupportedGrammarError):
        BACKEND.explain(schema_spec(_REFUSED))
    assert BACKEND.unsupported(schema_spec(_REFUSED))


def test_what_no_library_enforces_is_checked() -> None:
    spec = schema_spec({"type": "array", "uniqueItems": True})
    compiled = BACKEND.compile(spec)
    assert compiled.backend_name == "llguidance+checks" and compiled.grammar_spec == spec
    assert "uniqueItems is not implemented" in compiled.backend_reason and not BACKEND.unsupported(spec)
    assert BACKEND.explain(spec) == (compiled.backend_name, compiled.backend_reason)
    checks = BACKEND.checks(spec)
    assert checks is not None and [item.pointer for item in checks.taken_over] == ["/uniqueItems"]
    assert BACKEND.checks(schema_spec({"type": "null"})) is None


def test_an_invalid_grammar_is_not_tried_elsewhere() -> None:
    for spec in (lark("start: nothing"), ebnf("root ::= nothing")):
        with pytest.raises(InvalidGrammarError):
            BACKEND.compile(spec)


def test_backends_are_made_by_name() -> None:
    for name in BACKEND_NAMES:
        try:
            assert make_backend(name, VOCABULARY).name == name
        except InvalidInputError as exc:
            assert name in ("outlines", "lm-format-enforcer") and "pip install" in str(exc)
    with pytest.raises(InvalidInputError, match="choose one of auto"):
        make_backend("guidance", VOCABULARY)
