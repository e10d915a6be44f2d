"""llguidance: JSON schemas, regular expressions, choices and Lark grammars."""

import ctypes
import json
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import torch
from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from constrain.backend import Backend, unsupported_error
from constrain.backends._compiled import CompiledAsAsked
from constrain.backends._described import compile_without
from constrain.backends._json_schema import read_schema, read_text, unwritten_forms
from constrain.backends._llguidance_guide import escapes_of, guide_of
from constrain.backends._llguidance_json import json_grammar, unsupported_schema
from constrain.backends._llguidance_lark import embedded_schemas, unsupported_lark
from constrain.backends._llguidance_regex import rust_literal, rust_regex
from constrain.backends._llguidance_tags import tagged_lark, unsupported_tagged
from constrain.backends._stopping import StoppingGrammar
from constrain.backends._tag_expression import tag_expression
from constrain.backends._tags import unsupported_tags
from constrain.errors import (
    BackendError,
    InvalidGrammarError,
    UnsatisfiableGrammarError,
    Unsupported,
    VocabularyError,
)
from constrain.grammar import CompiledGrammar, RowState
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.regex import parse_regex
from constrain.tags import named_token_ids, read_tagged_text
from constrain.vocabulary import Vocabulary

if TYPE_CHECKING:
    from constrain.schema.evaluation import Ranges
    from constrain.schema.loosening import LooseSchema
    from constrain.schema.rewrite import Rewritten

_KINDS = ("json_schema", "json_object", "regex", "choice", "lark", "structural_tag")


class LLGuidanceBackend(Backend):
    """Grammars of llguidance, whose masks in forced regions are made to equal what it accepts."""

    name = "llguidance"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._tokenizer: Any = LLTokenizer(
            TokenizerWrapper(_TokenBytes(vocabulary)), eos_token=list(vocabulary.stop_token_ids)
        )

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        """What llguidance refuses, or would get wrong. Tries a compile, which takes some milliseconds."""
        outcome = self._try_compile(grammar_spec)
        return outcome if isinstance(outcome, list) else []

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        if grammar_spec.unsupported == "ignore":
            return compile_without(self, grammar_spec)
        outcome = self._try_compile(grammar_spec)
        if isinstance(outcome, list):
            raise unsupported_error(self.name, outcome)
        return _Compiled(grammar_spec, self.vocabulary, outcome)

    def compile_guide(self, grammar_spec: GrammarSpec) -> "tuple[CompiledGrammar, LooseSchema, Ranges]":
        """A grammar that takes whatever is valid under a schema, and maybe more; the loose schema that it follows; and
        the characters that it lets be written with a backslash.

        Raises ``UnsatisfiableGrammarError`` where no value can be begun.
        """
        loose, matcher = guide_of(grammar_spec, self._try_guide)
        return _Compiled(grammar_spec, self.vocabulary, matcher), loose, escapes_of(grammar_spec, loose)

    def _try_guide(self, text: str) -> Any:
        outcome = self._try_lark(text)
        if isinstance(outcome, _Begins):
            if outcome.nowhere:
                raise UnsatisfiableGrammarError(_UNSATISFIABLE, unsupported=[Unsupported(_UNSATISFIABLE)])
            return outcome.matcher
        message = outcome if isinstance(outcome, str) else "; ".join(outcome)
        # One that is said of a definition speaks of that alone, which may be no more than optional.
        if "Unsatisfiable schema" in message and "while processing" not in message:
            reason = _first_line(message).removeprefix("failed to compile JSON schema: ")
            raise UnsatisfiableGrammarError(reason, unsupported=[Unsupported(reason)])
        return message

    def _try_compile(self, grammar_spec: GrammarSpec) -> Any:
        """A matcher at the start, or the list of what is unsupported."""
        if grammar_spec.kind not in _KINDS:
            return [Unsupported(f"llguidance does no {grammar_spec.kind}")]
        unsupported = self._static_problems(grammar_spec)
        if unsupported:
            return unsupported
        outcome = self._try_lark(self._lark_of(grammar_spec))
        if isinstance(outcome, _Begins):
            if outcome.nowhere and grammar_spec.kind == "json_schema":
                return [_schema_refusal(read_schema(grammar_spec), _UNSATISFIABLE)]
            return outcome.matcher
        return (
            [Unsupported(item) for item in outcome] if isinstance(outcome, list) else _refusals(grammar_spec, outcome)
        )

    def _static_problems(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        if grammar_spec.kind != "structural_tag":
            return _static_problems(grammar_spec)
        # Each content is compiled alone, so that what llguidance refuses has its place.
        problems = unsupported_tags(grammar_spec, self.unsupported)
        tagged = read_tagged_text(grammar_spec.text)
        if problems or tagged is None:
            return problems
        return unsupported_tagged(tag_expression(tagged, self.vocabulary))

    def _lark_of(self, grammar_spec: GrammarSpec) -> str:
        tagged = read_tagged_text(grammar_spec.text) if grammar_spec.kind == "structural_tag" else None
        return (
            _lark_of(grammar_spec) if tagged is None else tagged_lark(tag_expression(tagged, self.vocabulary), _lark_of)
        )

    def _try_lark(self, text: str) -> "_Begins | str | list[str]":
        """A matcher at the start, or the message of what is wrong with ``text``, or what llguidance gives up at."""
        # Last, so that it wins over a line of the user's own.
        lark = f'{text}\n%llguidance {{"no_forcing": true}}\n'
        try:
            matcher: Any = LLMatcher(self._tokenizer, lark, log_level=0, limits=_limits())
        except UnicodeEncodeError as exc:
            raise InvalidGrammarError("a lone surrogate is no character and cannot be generated") from exc
        except Exception as exc:
            raise BackendError(f"llguidance failed: {exc}") from exc
        if matcher.is_error():
            return str(matcher.get_error())
        warnings = matcher.get_grammar_warnings()
        if warnings:
            return list(map(str, warnings))
        # Some grammars compile and die at their first mask (1,000 optional properties); others allow nothing at all.
        probe = matcher.deep_copy()
        probe.compute_bitmask()
        if probe.is_error() and not _is_dead_end(probe):
            return [f"llguidance gives up at the first token: {_first_line(probe.get_error())}"]
        return _Begins(matcher, nowhere=probe.is_error())


_UNSATISFIABLE = "no value of this schema can be begun: it is unsatisfiable, or recurs without end"


@dataclass(frozen=True, slots=True)
class _Begins:
    """A matcher at the start; ``nowhere``: it has no first token."""

    matcher: Any
    nowhere: bool


def _limits() -> Any:
    # Four items for each optional property: with the 2,000 of llguidance 1.9.1 an object of 600 dies on its way. At
    # 1,000 properties a mask takes 10 ms, at 3,000 75 ms (49,152 tokens).
    return LLParserLimits(max_items_in_row=20_000)


class _TokenBytes:
    """What llguidance wants of a tokenizer.

    Ids that are no text have no bytes and are *not* declared special: special tokens of llguidance 1.9.1 can be named
    in a grammar, and show up in masks where it does not accept them.
    """

    bos_token_id = None
    special_token_ids: Sequence[int] = ()

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.stop_token_ids[0]
        self.tokens = [*vocabulary.token_bytes, *[b""] * (vocabulary.logits_width - vocabulary.size)]
        self._vocabulary = vocabulary

    def __call__(self, text: str) -> list[int]:
        if not isinstance(text, str):
            raise TypeError("str only")  # llguidance tries bytes first
        try:
            return self._vocabulary.encode(text)
        except VocabularyError:
            return []  # used for forced tokens only, which we do not ask for


class _Compiled(CompiledAsAsked):
    def __init__(self, grammar_spec: GrammarSpec, vocabulary: Vocabulary, pristine: Any) -> None:
        super().__init__(grammar_spec, vocabulary, LLGuidanceBackend.name)
        self._pristine = pristine
        self.named_token_ids = named_token_ids(grammar_spec, vocabulary)
        self._lock = threading.Lock()

    def start(self) -> "LLGuidanceGrammar":
        return LLGuidanceGrammar(self)

    def matcher(self) -> Any:
        """A matcher at the start, from any thread."""
        # One that two threads touch raises "Already borrowed".
        with self._lock:
            return self._pristine.deep_copy()


class LLGuidanceGrammar(StoppingGrammar):
    """The state of one llguidance matcher. It never sees a stop token."""

    def __init__(self, compiled: _Compiled) -> None:
        super().__init__(compiled.vocabulary, compiled.named_token_ids)
        self._compiled = compiled
        self._matcher = compiled.matcher()
        self._text: list[int] = []
        self._dead_end: int | None = None  # the length of the text at which no token goes on

    # Never consume_token: on an illegal token it leaves the matcher in an error state for good.
    def _accept_text(self, token_ids: Sequence[int]) -> int:
        count: int = self._matcher.try_consume_tokens(token_ids)
        if count == len(token_ids):
            self._text += token_ids
        else:
            self._check()
            self._text += token_ids[:count]
        return count

    def _validate_text(self, token_ids: Sequence[int]) -> int:
        count: int = self._matcher.validate_tokens(token_ids)
        if count < len(token_ids):
            self._check()
        return count

    def _rollback_text(self, num_tokens: int) -> None:
        if not self._matcher.rollback(num_tokens):
            self._check()
        del self._text[-num_tokens:]
        self._dead_end = None

    def _fill_row(self, bitmask: torch.Tensor, row: int, address: int) -> RowState:
        if self._dead_end != len(self._text):
            self._matcher.unsafe_compute_mask_ptr(address, self._ids.num_bytes)
            # The mask of a matcher in an error state is EOS only: unchecked, an unfinished output.
            if not self._matcher.is_error():
                return RowState.CONSTRAINED  # a dead end is an error to llguidance
            if not _is_dead_end(self._matcher):
                self._check()
            self._revive()
        ctypes.memset(address, 0, self._ids.num_bytes)
        return RowState.DEAD_END

    def _revive(self) -> None:
        """Replace a matcher that a dead end has broken: llguidance 1.9.1 cannot roll it back."""
        self._matcher = self._compiled.matcher()
        count = self._matcher.try_consume_tokens(self._text) if self._text else 0
        if count != len(self._text):
            raise BackendError(f"llguidance took {count} of {len(self._text)} tokens that it had taken before")
        self._dead_end = len(self._text)

    def _may_end(self) -> bool:
        may_end: bool = self._matcher.is_accepting()
        return may_end

    def _forced_bytes(self) -> bytes:
        forced: bytes = self._matcher.compute_ff_bytes()
        return forced

    def _reset_text(self) -> None:
        if not self._matcher.reset():
            self._check()
        self._text.clear()
        self._dead_end = None

    def _fork_text(self, twin: Self) -> None:
        twin._compiled, twin._matcher = self._compiled, self._matcher.deep_copy()
        twin._text, twin._dead_end = self._text.copy(), self._dead_end

    def _check(self) -> None:
        if self._matcher.is_error():
            raise BackendError(f"llguidance gave up on this text: {_first_line(self._matcher.get_error())}")


def _is_dead_end(matcher: Any) -> bool:
    """Whether the error of ``matcher`` says that the vocabulary cannot write what must come next."""
    message: str = matcher.get_error()
    return message.startswith("NoExtensionBias")


def _static_problems(grammar_spec: GrammarSpec) -> list[Unsupported]:
    if grammar_spec.kind == "json_schema":
        schema = read_schema(grammar_spec)
        return [schema.at_home(item) for item in (*unsupported_schema(schema), *unwritten_forms(grammar_spec, schema))]
    if grammar_spec.kind == "lark":
        return unsupported_lark(grammar_spec.text)
    return []


def _lark_of(grammar_spec: GrammarSpec) -> str:
    form = grammar_spec.form or JsonForm()
    match grammar_spec.kind:
        case "json_schema":
            return json_grammar(read_schema(grammar_spec), form)
        case "json_object":
            return json_grammar(read_text({"type": "object"}), form)
        case "regex":
            return f"start: /{rust_regex(parse_regex(grammar_spec.text))}/"
        case "choice":
            # One terminal, so that choices which begin alike share their states.
            return f"start: /{'|'.join(rust_literal(choice) for choice in json.loads(grammar_spec.text))}/"
        case _:
            return embedded_schemas(grammar_spec.text)


def _refusals(grammar_spec: GrammarSpec, message: str) -> list[Unsupported]:
    """The reasons in an error ``message``; raises ``InvalidGrammarError`` for a Lark text that does not parse."""
    line = _first_line(message).removeprefix("failed to compile JSON schema: ")
    if grammar_spec.kind == "json_schema":
        return [_schema_refusal(read_schema(grammar_spec), line)]
    if grammar_spec.kind == "lark" and "JSON schema" not in message and "panic" not in message:
        position = _position(grammar_spec.text, message)
        line = message.strip().partition("\n")[0]
        raise InvalidGrammarError(f"the Lark grammar does not parse: {line}", position=position)
    return [Unsupported(line)]


def _schema_refusal(schema: "Rewritten", line: str) -> Unsupported:
    """What llguidance itself said, at the first place with a keyword that its message names."""
    listed = re.search(r"Unimplemented keys: (\[.*\])", line)
    words = (
        json.loads(listed[1]) if listed else re.findall(r"\w+", line.replace("patternProperty", "patternProperties"))
    )
    uses = [use for use in schema.uses if use.effective]
    named = [use for word in words for use in uses if use.keyword == word]
    first = next(iter([*named, *uses]), None)
    return schema.at_home(first.unsupported(line)) if first is not None else Unsupported(line)


_PLACE = re.compile(r"^(?:at )?(\d+)\((\d+)\): ")


def _first_line(message: str) -> str:
    line = message.strip().partition("\n")[0]
    return _PLACE.sub("", line)


def _position(text: str, message: str) -> int | None:
    """The offset in ``text`` of the ``line(column)`` that an error message begins with."""
    match = _PLACE.match(message)
    lines = text.splitlines(keepends=True)
    if match is None or int(match[1]) > len(lines):
        return None
    return sum(map(len, lines[: int(match[1]) - 1])) + int(match[2]) - 1
