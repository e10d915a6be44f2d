"""xgrammar: EBNF, structural tags, regular expressions, choices, and the JSON schemas that it enforces exactly."""

import json
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
import xgrammar

from constrain.backend import Backend
from constrain.backends._compiled import CompiledAsAsked
from constrain.backends._described import compile_without
from constrain.backends._json_schema import read_schema, unwritten_forms
from constrain.backends._stopping import StoppingGrammar
from constrain.backends._tag_expression import tag_expression
from constrain.backends._tags import unsupported_tags
from constrain.backends._xgrammar_ebnf import (
    choice_ebnf,
    regex_ebnf,
    unsupported_ebnf,
    without_open_escapes,
    without_surrogates,
)
from constrain.backends._xgrammar_json import unsupported_schema
from constrain.backends._xgrammar_repeats import too_many_repeats
from constrain.backends._xgrammar_tagged import tagged_format
from constrain.backends._xgrammar_tags import portable_tag, unsupported_tag
from constrain.errors import BackendError, InvalidGrammarError, Unsupported
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec, JsonForm
from constrain.regex import Alternation, Chars, Concat, Node, Repeat, parse_regex
from constrain.tags import named_token_ids, read_tagged_text
from constrain.vocabulary import Vocabulary

MAX_CHOICES = 5_000


class XGrammarBackend(Backend):
    """Grammars of xgrammar, without what it drops in silence."""

    name = "xgrammar"

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._compilers: dict[frozenset[int], Any] = {}
        self._lock = threading.Lock()
        self._compiler_for(frozenset())

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        match grammar_spec.kind:
            case "json_schema":
                schema = read_schema(grammar_spec)
                return [
                    schema.at_home(item)
                    for item in (*unsupported_schema(schema), *unwritten_forms(grammar_spec, schema))
                ]
            case "ebnf":
                return unsupported_ebnf(grammar_spec.text)
            case "structural_tag":
                if read_tagged_text(grammar_spec.text) is not None:
                    return unsupported_tags(grammar_spec, self.unsupported)
                return unsupported_tag(json.loads(grammar_spec.text))
            case "choice":
                count = len(json.loads(grammar_spec.text))
                return [Unsupported(f"{count} choices: at most {MAX_CHOICES}")] if count > MAX_CHOICES else []
            case "regex":
                return _unsupported_regex(parse_regex(grammar_spec.text))
            case "lark":
                return [Unsupported("xgrammar does not read llguidance's Lark")]
            case _:
                return []

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        if grammar_spec.unsupported == "ignore":
            return compile_without(self, grammar_spec)
        self.require_supported(grammar_spec)
        grammar = self._grammar(grammar_spec)
        named = named_token_ids(grammar_spec, self.vocabulary)
        compiled = _known_errors(self._compiler_for(named).compile_grammar, grammar)
        return _Compiled(grammar_spec, self.vocabulary, compiled, named)

    def _compiler_for(self, named: frozenset[int]) -> Any:
        """A compiler whose grammars may name the special tokens ``named``."""
        with self._lock:
            if named not in self._compilers:
                token_bytes = list(self.vocabulary.token_bytes)
                for token_id in named:
                    # xgrammar 0.2.9 refuses tokens without bytes; these are no text, so that only their ids match.
                    token_bytes[token_id] = b"\xff"
                # As wide as the mask words: xgrammar 0.2.9 sets the bits of the last word that lie behind vocab_size.
                # Built from raw bytes: from_huggingface lets special tokens through inside JSON strings.
                info = xgrammar.TokenizerInfo(
                    token_bytes,
                    xgrammar.VocabType.RAW,
                    vocab_size=32 * self.vocabulary.num_mask_words,
                    stop_token_ids=list(self.vocabulary.stop_token_ids),
                )
                self._compilers[named] = xgrammar.GrammarCompiler(info, max_threads=2, cache_enabled=False)
            return self._compilers[named]

    def _grammar(self, grammar_spec: GrammarSpec) -> Any:
        """The grammar of ``grammar_spec``. Every kind passes through xgrammar's printed text, to be mended there."""
        return _known_errors(xgrammar.Grammar.from_ebnf, without_surrogates(self._printed(grammar_spec)))

    def _printed(self, grammar_spec: GrammarSpec) -> str:
        text, form = grammar_spec.text, grammar_spec.form or JsonForm()
        match grammar_spec.kind:
            case "json_schema":
                return without_open_escapes(_json_ebnf(read_schema(grammar_spec).schema, form))
            case "json_object":
                return without_open_escapes(_json_ebnf({"type": "object"}, form))
            case "regex":
                return regex_ebnf(parse_regex(text))
            case "choice":
                return choice_ebnf(json.loads(text))
            case "ebnf":
                return str(_parsed(xgrammar.Grammar.from_ebnf, text))
            case _:
                return self._printed_tag(text)

    def _printed_tag(self, text: str) -> str:
        tagged = read_tagged_text(text)
        if tagged is None:
            tag = portable_tag(json.loads(text))
            return without_open_escapes(str(_parsed(xgrammar.Grammar.from_structural_tag, tag)))
        form = tagged_format(tag_expression(tagged, self.vocabulary), self._printed)
        tag = json.dumps({"type": "structural_tag", "format": form})
        return str(_known_errors(xgrammar.Grammar.from_structural_tag, tag))


class _Compiled(CompiledAsAsked):
    def __init__(
        self, grammar_spec: GrammarSpec, vocabulary: Vocabulary, compiled: Any, named_token_ids: frozenset[int]
    ) -> None:
        super().__init__(grammar_spec, vocabulary, XGrammarBackend.name)
        self._compiled = compiled
        self._named_token_ids = named_token_ids

    def start(self) -> "XGrammarGrammar":
        return XGrammarGrammar(self._vocabulary, xgrammar.GrammarMatcher(self._compiled), self._named_token_ids)


class XGrammarGrammar(StoppingGrammar):
    """The state of one xgrammar matcher. It never sees a stop token, after which its fill would raise."""

    def __init__(self, vocabulary: Vocabulary, matcher: Any, named_token_ids: frozenset[int]) -> None:
        super().__init__(vocabulary, named_token_ids)
        self._bind(matcher)

    def _bind(self, matcher: Any) -> None:
        # The C++ object behind the public methods, bound once: their Python frames cost 3 % of a step (0.2.9). It is
        # private to xgrammar; the laws in tests/contract fail if it changes.
        self._matcher, self._handle = matcher, matcher._handle
        self._accept_token, self._fill = self._handle.accept_token, self._handle.fill_next_token_bitmask

    def _accept_text(self, token_ids: Sequence[int]) -> int:
        accept = self._accept_token
        try:
            if len(token_ids) == 1:
                return 1 if accept(token_ids[0], False) else 0
            for count, token_id in enumerate(token_ids):
                if not accept(token_id, False):
                    return count
        except Exception as exc:
            raise _failure(exc) from exc
        return len(token_ids)

    def _validate_text(self, token_ids: Sequence[int]) -> int:
        count = self._accept_text(token_ids)
        if count:
            self._matcher.rollback(count)
        return count

    def _rollback_text(self, num_tokens: int) -> None:
        self._matcher.rollback(num_tokens)

    def _fill_row(self, bitmask: torch.Tensor, row: int, address: int) -> None:
        try:
            if bitmask.is_contiguous():
                self._fill(bitmask, row, False)
            else:
                # xgrammar 0.2.9 takes rows for contiguous, and would write into another one.
                self._fill(bitmask[row].unsqueeze(0), 0, False)
        except Exception as exc:
            raise _failure(exc) from exc

    def _may_end(self) -> bool:
        may_end: bool = self._matcher.is_completed()
        return may_end

    def _forced_bytes(self) -> bytes:
        return self._matcher.find_jump_forward_string().encode()  # type: ignore[no-any-return]

    def _reset_text(self) -> None:
        self._matcher.reset()

    def _fork_text(self, twin: Self) -> None:
        twin._bind(self._matcher.fork())


def _json_ebnf(schema: Any, form: JsonForm) -> str:
    options: dict[str, Any]
    match form.whitespace:
        case "flexible":
            options = {"any_whitespace": True, "max_whitespace_cnt": form.max_whitespace}
        case "canonical":
            options = {"any_whitespace": False, "separators": (", ", ": ")}
        case "none":
            options = {"any_whitespace": False, "separators": (",", ":")}
    schema_text = json.dumps(schema)
    return str(_known_errors(xgrammar.Grammar.from_json_schema, schema_text, strict_mode=False, **options))


def _parsed(parse: Callable[..., Any], text: str) -> Any:
    """``parse(text)``, where a failure is the fault of the text."""
    try:
        return parse(text)
    except (RuntimeError, ValueError) as exc:  # a UnicodeEncodeError (a lone surrogate) is a ValueError
        message = _CPP_PLACE.sub("", str(exc).strip())
        raise InvalidGrammarError(f"xgrammar cannot read this: {message}", position=_position(text, message)) from exc


def _known_errors(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return call(*args, **kwargs)
    except Exception as exc:
        raise _failure(exc) from exc


def _failure(exc: Exception) -> BackendError:
    return BackendError(f"xgrammar failed: {_CPP_PLACE.sub('', str(exc).strip())}")


def _unsupported_regex(node: Node) -> list[Unsupported]:
    return too_many_repeats(*_counts(node))


def _counts(node: Node) -> tuple[int, int]:
    """The largest count in ``node``, and the largest product of counts that stand inside each other."""
    match node:
        case Chars():
            return 1, 1
        case Concat(parts) | Alternation(parts):
            counts = [_counts(part) for part in parts]
            return max((count for count, _ in counts), default=1), max((product for _, product in counts), default=1)
        case Repeat(body, minimum, maximum):
            largest, inner = _counts(body)
            count = max(minimum if maximum is None else maximum, 1)
            return max(largest, count), inner * count


_CPP_PLACE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
_PLACE = re.compile(r"at line (\d+), column (\d+)")


def _position(text: str, message: str) -> int | None:
    match = _PLACE.search(message)
    lines = text.splitlines(keepends=True)
    if match is None or int(match[1]) > len(lines):
        return None
    return min(sum(map(len, lines[: int(match[1]) - 1])) + int(match[2]) - 1, len(text))
