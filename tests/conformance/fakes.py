"""A backend that does what the title of a schema says: every way in which a backend can fail, on purpose."""

import os
import signal
import time
from collections.abc import Sequence

import torch

from constrain.backend import Backend
from constrain.backends.llguidance import LLGuidanceBackend
from constrain.errors import BackendError, LimitExceededError, Unsupported, UnsupportedGrammarError
from constrain.grammar import CompiledGrammar, Grammar, RowState
from constrain.grammar_spec import GrammarSpec, json_schema
from constrain.schema import parse_schema

NAME = f"{__name__}:FakeBackend"


class FakeBackend(Backend):
    """llguidance, but for the titles below."""

    name = "fake"

    def __init__(self, vocabulary):
        super().__init__(vocabulary)
        self._inner = LLGuidanceBackend(vocabulary)

    def unsupported(self, grammar_spec: GrammarSpec) -> list[Unsupported]:
        return []

    def compile(self, grammar_spec: GrammarSpec) -> CompiledGrammar:
        schema = parse_schema(grammar_spec.text)
        title = schema.get("title", "") if isinstance(schema, dict) else ""
        match title:
            case "hang":
                time.sleep(1000)
            case "raise":
                raise RuntimeError("out of luck")
            case "break":
                raise BackendError("unknown failure")
            case "die":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "grow":
                hoard = []
                while True:
                    hoard.append(b"x" * 50_000_000)
                    time.sleep(0.01)
            case "refuse":
                raise UnsupportedGrammarError("no", unsupported=[Unsupported("no not", "/not", "not")])
            case "limit":
                raise LimitExceededError("too much")
            case "wide":
                return self._inner.compile(json_schema(True))
            case "narrow":
                return self._inner.compile(json_schema({"const": 1}))
            case "lie" | "dead" | "slow":
                return Twisted(self._inner.compile(grammar_spec), title)
        return self._inner.compile(grammar_spec)


class Twisted(CompiledGrammar):
    def __init__(self, inner, how):
        self._inner, self._how = inner, how

    grammar_spec = property(lambda self: self._inner.grammar_spec)
    vocabulary = property(lambda self: self._inner.vocabulary)
    backend_name = "fake"

    def start(self) -> Grammar:
        return TwistedGrammar(self._inner.start(), self._how)


class TwistedGrammar(Grammar):
    """``lie``: validate contradicts accept; ``dead``: nothing follows the first token; ``slow``: hangs there."""

    def __init__(self, inner, how):
        self._inner, self._how = inner, how

    num_accepted = property(lambda self: self._inner.num_accepted)
    is_terminated = property(lambda self: self._inner.is_terminated)

    @property
    def _twisted(self) -> bool:
        return self._inner.num_accepted == 1

    def accept(self, token_ids: Sequence[int]) -> int:
        return 0 if self._how == "dead" and self._twisted else self._inner.accept(token_ids)

    def validate(self, token_ids: Sequence[int]) -> int:
        if self._how == "dead" and self._twisted:
            return 0
        valid = self._inner.validate(token_ids)
        return 1 - valid if self._how == "lie" and self._twisted else valid

    def fill_bitmask(self, bitmask: torch.Tensor, row: int) -> RowState:
        if self._how == "dead" and self._twisted:
            bitmask[row] = 0
            return RowState.DEAD_END
        if self._how == "slow" and self._twisted:
            time.sleep(1000)
        return self._inner.fill_bitmask(bitmask, row)

    def rollback(self, num_tokens: int) -> None:
        self._inner.rollback(num_tokens)

    def forced_tokens(self) -> list[int]:
        return []

    def reset(self) -> None:
        self._inner.reset()

    def fork(self) -> Grammar:
        return TwistedGrammar(self._inner.fork(), self._how)
