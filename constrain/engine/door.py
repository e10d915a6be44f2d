"""What comes into an engine, checked."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from numbers import Integral

from constrain.backend import Backend
from constrain.compiler import GrammarCompiler
from constrain.errors import InvalidInputError, InvalidPromptError, VocabularyError
from constrain.grammar import CompiledGrammar
from constrain.grammar_spec import GrammarSpec
from constrain.reasoning.compiled import CompiledReasoning, compile_reasoning
from constrain.request import Request
from constrain.sampling.params import check_with_constraint
from constrain.source import LogitsSource
from constrain.spec.by_name import make_proposer
from constrain.spec.draft import Proposer
from constrain.spec.length import ConstantLength, DraftLength
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.vocabulary import Vocabulary


def check_engine(source: object, vocabulary: object, max_batch_size: object, max_backtracks: object) -> None:
    """``InvalidInputError`` for parts of an engine that are of the wrong kind or do not go together."""
    if not isinstance(source, LogitsSource):
        raise InvalidInputError(f"{type(source).__name__} is no LogitsSource; FunctionSource makes one of a function")
    if not isinstance(vocabulary, Vocabulary):
        raise InvalidInputError(f"{type(vocabulary).__name__} is no Vocabulary; Vocabulary.from_tokenizer makes one")
    batch_size = checked_count("max_batch_size", max_batch_size, 1)
    checked_count("max_backtracks", max_backtracks, 0)
    if source.max_rows is not None and batch_size > source.max_rows:
        raise InvalidInputError(f"max_batch_size={batch_size}: the source takes at most {source.max_rows} rows")
    if source.logits_width is not None and source.logits_width != vocabulary.logits_width:
        raise VocabularyError(
            f"the source gives {source.logits_width} logits and the vocabulary expects {vocabulary.logits_width}; "
            "build the vocabulary with logits_width= or model="
        )


def checked_count(name: str, value: object, least: int) -> int:
    """An option that counts something; ``InvalidInputError`` names it."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise InvalidInputError(f"{name}={value!r}: want an integer from {least} on")
    return int(value)


def check_params(request: Request, vocabulary: Vocabulary) -> None:
    """``InvalidInputError`` for parameters that do not go with the rest of the request."""
    params = request.params
    if params.n != 1:
        raise InvalidInputError(f"n={params.n}: a Request is one output; Request.samples() gives one for each of n")
    if request.reasoning is not None:
        check_reasoning(request, vocabulary)
    if request.constraint is None:
        return
    check_with_constraint(params)
    inside = sorted(set(params.stop_token_ids).difference(vocabulary.stop_token_ids))
    if inside:
        raise InvalidInputError(
            f"stop_token_ids={inside} could end the text before its constraint is met: leave them out, or make the "
            "vocabulary with them as stop_token_ids="
        )


def check_reasoning(request: Request, vocabulary: Vocabulary) -> None:
    """What is wrong with the thinking that a request asks for, before any work."""
    assert request.reasoning is not None
    if isinstance(request.constraint, CompiledReasoning):
        raise InvalidInputError("the constraint thinks already (compile_reasoning made it): leave reasoning= out")
    if request.params.ignore_eos:
        raise InvalidInputError("ignore_eos=True contradicts reasoning, whose content ends at a stop token")
    if request.constraint is None or not request.reasoning.in_reasoning:
        compile_reasoning(None, vocabulary, request.reasoning, request.prompt_ids)


def checked_prompt(prompt_ids: Sequence[int], width: int, limit: int | None) -> list[int]:
    """The prompt as integers; ``InvalidPromptError`` for one that is empty, too long, or holds what is no id."""
    is_row = isinstance(prompt_ids, Collection) and getattr(prompt_ids, "ndim", 1) == 1
    if not is_row or isinstance(prompt_ids, bytes | bytearray | Mapping):
        raise InvalidPromptError(f"prompt_ids is a {type(prompt_ids).__name__}; want a sequence of token ids")
    if not len(prompt_ids):
        raise InvalidPromptError("the prompt is empty; give at least one token (the model's BOS, for example)")
    for position, token_id in enumerate(prompt_ids):
        if not isinstance(token_id, Integral) or isinstance(token_id, bool) or not 0 <= token_id < width:
            raise InvalidPromptError(f"prompt token {token_id!r} at position {position}: want an id in [0, {width})")
    if limit is not None and len(prompt_ids) >= limit:
        raise InvalidPromptError(
            f"the prompt has {len(prompt_ids)} tokens and the context {limit}: shorten it by at least "
            f"{len(prompt_ids) - limit + 1}"
        )
    return [int(token_id) for token_id in prompt_ids]


def start_compiling(
    constraint: object, compiler: GrammarCompiler, vocabulary: Vocabulary
) -> Future[CompiledGrammar] | None:
    """The compiled grammar to come, for whatever stands in a request."""
    if constraint is None:
        return None
    if isinstance(constraint, GrammarSpec):
        return compiler.submit(constraint)
    if not isinstance(constraint, CompiledGrammar):
        raise InvalidInputError(
            f"the constraint of a Request is a GrammarSpec or a CompiledGrammar, not {type(constraint).__name__}; "
            "as_grammar_spec() makes one of types, schemas, patterns and choices"
        )
    theirs = constraint.vocabulary
    if theirs is not vocabulary and theirs.fingerprint != vocabulary.fingerprint:
        raise VocabularyError("the compiled grammar is for another vocabulary than the engine's; compile it anew")
    done: Future[CompiledGrammar] = Future()
    done.set_result(constraint)
    return done


def as_backend(backend: str | Backend, vocabulary: Vocabulary) -> Backend:
    """The backend of that name; ``VocabularyError`` for one of another vocabulary."""
    if isinstance(backend, Backend):
        if backend.vocabulary is not vocabulary and backend.vocabulary.fingerprint != vocabulary.fingerprint:
            raise VocabularyError(f"backend {backend.name!r} was made for another vocabulary than this one")
        return backend
    from constrain.backends import make_backend

    return make_backend(backend, vocabulary)


def as_proposer(proposer: str | Proposer | None, vocabulary: Vocabulary) -> Proposer | None:
    """The proposer of that name; ``InvalidInputError`` for anything else."""
    if proposer is None or isinstance(proposer, Proposer):
        return proposer
    return make_proposer(proposer, vocabulary)


def as_draft_length(draft_length: int | DraftLength) -> DraftLength:
    """The rule that a number stands for; ``InvalidInputError`` for what is neither."""
    if isinstance(draft_length, DraftLength):
        return draft_length
    return ConstantLength(checked_count("draft_length", draft_length, 0))


def as_rule(rule: str | RejectionSampler, length: DraftLength) -> RejectionSampler:
    """The rule of that name; ``InvalidInputError`` for one that is unknown, or has no rates for such drafts."""
    if rule == "synthetic":
        raise InvalidInputError(
            "rule='synthetic' needs rates: pass constrain.spec.RejectionSampler('synthetic', synthetic_rates=[...])"
        )
    made = rule if isinstance(rule, RejectionSampler) else RejectionSampler(rule)  # type: ignore[arg-type]  # it checks
    if made.max_drafts is not None and made.max_drafts < length.max_length:
        raise InvalidInputError(
            f"draft_length={length.max_length} asks for more draft tokens than the {made.max_drafts} synthetic rates; "
            "give a rate for each"
        )
    return made
