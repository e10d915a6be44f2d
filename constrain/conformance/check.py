"""One case from its schema to its verdict."""

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any

from constrain.backend import Backend
from constrain.backends import make_backend
from constrain.conformance.case import Case, Instance, Settings
from constrain.conformance.masks import MaskRow, judge_text
from constrain.conformance.order import in_schema_order
from constrain.conformance.results import CaseResult, InstanceResult, WalkResults, verdict_of
from constrain.conformance.suite import needs_remotes, remote_documents
from constrain.conformance.vocabulary import load_vocabulary
from constrain.conformance.walk import Walker
from constrain.conformance.words import words_of
from constrain.errors import (
    BackendError,
    ConstrainError,
    InvalidInputError,
    InvalidSchemaError,
    LimitExceededError,
    UnsatisfiableGrammarError,
    UnsupportedGrammarError,
)
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec, json_schema
from constrain.schema import DIALECTS, Dialect, Documents, Validator, load_graph

_DIALECTS = {dialect.name: dialect for dialect in DIALECTS}
_WALK_SHARE = 0.5  # of the time of a case; what is left of the walks then is skipped


class Checker:
    """Checks cases one by one with one backend on one vocabulary; what a worker process owns."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._vocabulary = load_vocabulary(settings.vocabulary)
        self._backend = _load_backend(settings.backend, self._vocabulary)
        self._row = MaskRow(self._vocabulary)

    def check(self, case: Case, key: str) -> Iterator[CaseResult]:
        """The result of ``case`` as far as it is known: compiled, instances judged, walks done. The last one counts."""
        started = time.monotonic()
        result = CaseResult(key, case.id, case.family, case.collection, case.group, case.name, "exact")
        try:
            compiled = self._backend.compile(self._grammar_spec(case))
            result = replace(result, backend=compiled.backend_name)
            yield result
            instances = tuple(self._judge(case, compiled))
            result = replace(result, instances=instances, verdict=verdict_of(instances, result.walks))
            yield result
            walks = self._walk(case, compiled, started)
            result = replace(result, walks=walks, verdict=verdict_of(instances, walks))
        except Exception as exc:
            result = _failed(result, exc, case)
        yield replace(result, seconds=round(time.monotonic() - started, 3))

    @cached_property
    def _remotes(self) -> Documents | None:
        return remote_documents(self.settings.remotes) if self.settings.remotes else None

    def _documents(self, case: Case) -> Documents | None:
        return self._remotes if needs_remotes(json.dumps(case.schema)) else None

    def _grammar_spec(self, case: Case) -> GrammarSpec:
        return json_schema(
            case.schema,
            profile=self.settings.profile,
            documents=self._documents(case),
            dialect=_dialect(case),
            assert_formats=case.assert_formats,
        )

    def _judge(self, case: Case, compiled: CompiledGrammar) -> Iterator[InstanceResult]:
        for instance in case.instances:
            results = [self._judge_text(instance, text, compiled) for text in self._texts(case, instance)]
            wrong = [result for result in results if result.verdict != "exact"]
            yield (wrong or results)[0]

    def _texts(self, case: Case, instance: Instance) -> list[str]:
        """The texts of one instance: an invalid one must be refused in whatever order its keys stand."""
        as_is = _text(instance.data)
        if self.settings.keeps_order or "{" not in as_is:
            return [as_is]
        graph = load_graph(case.schema, documents=self._documents(case), dialect=_dialect(case))
        ordered = _text(in_schema_order(instance.data, graph))
        return [ordered] if instance.valid or ordered == as_is else [ordered, as_is]

    def _judge_text(self, instance: Instance, text: str, compiled: CompiledGrammar) -> InstanceResult:
        judged = judge_text(compiled.start(), self._row, self._vocabulary, text)
        return InstanceResult(
            instance.description, instance.valid, judged.accepted, text, judged.at, judged.disagreement
        )

    def _walk(self, case: Case, compiled: CompiledGrammar, started: float) -> WalkResults:
        settings = self.settings
        if not settings.num_walks:
            return WalkResults()
        source = random.Random(f"{settings.seed}/{case.id}")
        walker = Walker(self._vocabulary, source, max_tokens=settings.max_walk_tokens)
        documents, dialect = self._documents(case), _dialect(case)
        validator = Validator(case.schema, documents=documents, dialect=dialect, assert_formats=case.assert_formats)
        hints = [self._vocabulary.encode(_text(instance.data)) for instance in case.instances]
        words = [self._vocabulary.encode(word) for word in words_of(case)]
        found = WalkResults()
        for index in range(settings.num_walks):
            if time.monotonic() - started > _WALK_SHARE * settings.case_seconds:
                return replace(found, skipped=settings.num_walks - index)
            hint = source.choice(hints) if hints and index % 2 else []
            walk = walker.walk(compiled, hint[: source.randint(0, len(hint))], words)
            found = _counted(found, walk.ending, walk.text, walk.disagreement, validator)
        return found


def _counted(found: WalkResults, ending: str, text: bytes, disagreement: str, validator: Validator) -> WalkResults:
    shown = text.decode("utf-8", "backslashreplace")
    if ending == "disagreement":
        return replace(found, disagreements=(*found.disagreements, f"{disagreement}, after {shown!r}"))
    if ending == "dead_end":
        return replace(found, dead_ends=found.dead_ends + 1, dead_texts=(*found.dead_texts, shown))
    if ending == "capped":
        return replace(found, capped=found.capped + 1)
    found = replace(found, finished=found.finished + 1)
    try:
        error = validator.error(text.decode("utf-8"))
    except UnicodeDecodeError as exc:
        error = f"it is not UTF-8: {exc}"
    return replace(found, invalid=(*found.invalid, (shown, error))) if error is not None else found


def _failed(result: CaseResult, exc: Exception, case: Case) -> CaseResult:
    """``result`` with what was raised: a typed error is a refusal, unless it comes after compiling."""
    keywords: tuple[str, ...] = ()
    verdict = result.verdict
    if result.backend or isinstance(exc, BackendError) or not isinstance(exc, ConstrainError):
        verdict = verdict if verdict == "false_accept" else "crash"
    elif isinstance(exc, UnsatisfiableGrammarError):
        verdict = "false_reject" if any(instance.valid for instance in case.instances) else "unsatisfiable"
    elif isinstance(exc, LimitExceededError):
        verdict = "limit"
    else:
        verdict = "refused"
        if isinstance(exc, UnsupportedGrammarError):
            keywords = tuple(dict.fromkeys(item.keyword for item in exc.unsupported if item.keyword is not None))
        elif isinstance(exc, InvalidSchemaError) and exc.pointer:
            keywords = (exc.pointer.rpartition("/")[2],)
    return replace(result, verdict=verdict, error=type(exc).__name__, message=str(exc)[:2000], keywords=keywords)


def _dialect(case: Case) -> Dialect:
    return _DIALECTS[case.dialect]


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Half a surrogate pair can only be written as an escape.
    return text if text.isascii() or _is_unicode(text) else json.dumps(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _load_backend(name: str, vocabulary: Any) -> Backend:
    """A backend by its name, or one of somebody's own as ``package.module:Class``."""
    module, colon, class_name = name.partition(":")
    if not colon:
        return make_backend(name, vocabulary)
    try:
        backend_class = getattr(import_module(module), class_name)
    except (ImportError, AttributeError) as exc:
        raise InvalidInputError(f"backend {name!r} cannot be imported: {exc}") from exc
    if not (isinstance(backend_class, type) and issubclass(backend_class, Backend)):
        raise InvalidInputError(f"backend {name!r} is {backend_class!r}; want a class that derives from Backend")
    return backend_class(vocabulary)
