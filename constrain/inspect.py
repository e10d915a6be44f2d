"""What becomes of each keyword of a schema, and which backend enforces it: asked before anything is generated."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from constrain.backend import Backend
from constrain.backends import make_backend
from constrain.backends._json_schema import enforceable
from constrain.backends.auto import AutoBackend
from constrain.errors import UnsatisfiableGrammarError, Unsupported
from constrain.grammar_spec import GrammarSpec, JsonForm, OnUnsupported, json_schema
from constrain.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrain.backends._checked import Checked
    from constrain.schema import SchemaReport


def inspect_schema(
    schema: Mapping[str, Any] | bool | str,
    *,
    backend: str | Backend = "auto",
    form: JsonForm | None = None,
    documents: Any = None,
    dialect: Any = None,
    assert_formats: bool | None = None,
    unsupported: OnUnsupported = "error",
) -> "SchemaReport":
    """A report on ``schema``: for each keyword at each place, what enforces it, or why nothing does.

    The arguments are those of :func:`constrain.json_schema`. A schema that ``backend`` would refuse is no error here:
    ``report.unsupported`` lists what it cannot enforce. Raises ``InvalidSchemaError`` for what is no schema.
    """
    grammar_spec = json_schema(
        schema,
        form=form,
        documents=documents,
        dialect=dialect,
        assert_formats=assert_formats,
        unsupported=unsupported,
    )
    return report_on(grammar_spec, make_backend(backend, _bytes()) if isinstance(backend, str) else backend)


def report_on(grammar_spec: GrammarSpec, backend: Backend) -> "SchemaReport":
    """The report on a ``json_schema`` spec under ``backend``."""
    from constrain.schema.report import schema_report
    from constrain.schema.rewrite import rewritten

    form = grammar_spec.form or JsonForm()
    read = rewritten(grammar_spec.text, grammar_spec.assert_formats)
    rules = read.rules
    checks = _checks(grammar_spec, backend)
    if checks is None:
        name, reason, missing, ignored = _chosen(grammar_spec, backend)
    else:
        name, reason = checks.compiled.backend_name, checks.compiled.backend_reason
        missing, ignored, rules = checks.taken_over, [], checks.loose.read.rules
    return schema_report(
        read.original_uses,
        missing,
        backend=name,
        reason=reason,
        checked=[] if checks is None else [item.pointer for item in missing],
        fallback=[] if checks is None else checks.loose.dropped,
        rules=rules,
        ignored={item.pointer for item in ignored},
        defaults=_defaults(form, grammar_spec),
    )


def _checks(grammar_spec: GrammarSpec, backend: Backend) -> "Checked | None":
    """How ``backend`` would enforce the spec with checks; None where it needs none, or has none."""
    if not isinstance(backend, AutoBackend):
        return None
    try:
        return backend.checks(grammar_spec)
    except UnsatisfiableGrammarError:
        return None  # and ``_chosen`` says so


def _chosen(grammar_spec: GrammarSpec, backend: Backend) -> tuple[str, str, list[Unsupported], list[Unsupported]]:
    """The library that enforces the spec, why, what no library enforces, and what of that is ignored."""
    strict = replace(grammar_spec, unsupported="error")
    try:
        missing = backend.unsupported(strict)
    except UnsatisfiableGrammarError as exc:
        return backend.name, str(exc), list(exc.unsupported), []
    if missing and grammar_spec.unsupported == "error":
        if not isinstance(backend, AutoBackend):
            return backend.name, "it cannot enforce all of the schema", missing, []
        return backend.name, "no backend enforces all of it, and no check", backend.unchecked(strict), []
    name, reason = backend.name, "as asked"
    if isinstance(backend, AutoBackend):
        name, reason = backend.explain(grammar_spec)
    if missing:
        _, missing = enforceable(grammar_spec, backend.library(name) if isinstance(backend, AutoBackend) else backend)
    return name, reason, missing, missing


def _defaults(form: JsonForm, grammar_spec: GrammarSpec) -> dict[str, str]:
    blanks = f"flexible, at most {form.max_whitespace} characters in one place"
    formats = "decide (dates of the years 1 to 9999, no leap seconds)" if grammar_spec.assert_formats else "annotations"
    return {
        "whitespace": blanks if form.whitespace == "flexible" else form.whitespace,
        "key order": "that of the schema, listed properties first" if form.key_order == "schema" else "free",
        "string escapes": "any" if form.escapes == "any" else r"the short ones (\" \\ \b \f \n \r \t); no \u, no \/",
        "numbers": "in any form" if form.numbers == "any" else _CANONICAL,
        "formats": formats,
    }


_CANONICAL = "integers without fraction or exponent; under bounds or multipleOf no exponent"


def _bytes() -> Vocabulary:
    """The smallest vocabulary that writes any text: what is enforced does not depend on it."""
    return Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0])
