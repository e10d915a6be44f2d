"""From what a caller passes (a model, a prompt, a constraint) to what an engine takes."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from constrain.backend import Backend
from constrain.errors import ConstrainError, InvalidGrammarError, InvalidInputError, InvalidPromptError
from constrain.reasoning.options import Reasoning
from constrain.request import Request
from constrain.sampling.params import SamplingFields, SamplingParams
from constrain.source import FunctionSource, LogitsSource
from constrain.spec.draft import Proposer
from constrain.spec.length import DraftLength
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.vocabulary import Vocabulary

Message: TypeAlias = Mapping[str, Any]
Prompt: TypeAlias = str | Sequence[Message] | Sequence[int]
"""Text; chat messages, to which the model's chat template is applied; or token ids."""


class OneOptions(SamplingFields, total=False):
    """The keyword arguments of a call with one prompt; :func:`constrain.generate` says what they mean."""

    tokenizer: Any
    vocabulary: Vocabulary | None
    backend: str | Backend
    timeout_s: float | None
    reasoning: Reasoning | None
    processors: Sequence[Any]
    proposer: str | Proposer | None
    draft_length: int | DraftLength
    rule: str | RejectionSampler


class ManyOptions(OneOptions, total=False):
    """The keyword arguments of a call with many prompts."""

    constraints: Sequence[Any] | None
    max_batch_size: int


@dataclass(frozen=True, slots=True)
class Options:
    """The keyword arguments of a call, by who takes them."""

    params: SamplingParams
    tokenizer: Any
    vocabulary: Vocabulary | None
    backend: str | Backend
    timeout_s: float | None
    reasoning: Reasoning | None
    engine: dict[str, Any]  # of Engine, as they are
    constraints: Sequence[Any] | None
    max_batch_size: int

    @classmethod
    def read(cls, options: OneOptions | ManyOptions) -> "Options":
        """Raises ``TypeError`` for a name that nobody knows, and ``InvalidInputError`` for a wrong sampling field."""
        given: dict[str, Any] = dict(options)
        of_engine = ("processors", "proposer", "draft_length", "rule")
        engine: dict[str, Any] = {name: given.pop(name) for name in of_engine if name in given}
        return cls(
            tokenizer=given.pop("tokenizer", None),
            vocabulary=given.pop("vocabulary", None),
            backend=given.pop("backend", "auto"),
            timeout_s=given.pop("timeout_s", None),
            reasoning=given.pop("reasoning", None),
            engine=engine,
            constraints=given.pop("constraints", None),
            max_batch_size=given.pop("max_batch_size", 32),
            params=_params(given),
        )


def _params(given: dict[str, Any]) -> SamplingParams:
    unknown = sorted(set(given).difference(field.name for field in fields(SamplingParams)))
    if unknown:
        raise TypeError(f"unknown option {', '.join(unknown)}: neither one of this call nor a field of SamplingParams")
    return SamplingParams(**given)


def is_one_prompt(prompt: Any) -> bool:
    """Whether ``prompt`` is a single prompt and not a list of several."""
    if isinstance(prompt, str) or _is_array(prompt):
        return True
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise InvalidPromptError(
            f"a prompt is text, chat messages or token ids, or a list of these; got {type(prompt).__name__}"
        )
    if not prompt:
        raise InvalidPromptError("the prompt is an empty list")
    return all(isinstance(item, Integral) for item in prompt) or all(isinstance(item, Mapping) for item in prompt)


def make_request(
    prompt: Prompt,
    wanted: Any,
    options: Options,
    vocabulary: Vocabulary,
    tokenizer: Any,
) -> Request:
    """The request of one prompt; ``wanted`` is what a caller passes as a constraint."""
    from constrain.schema import as_constraint

    with _one_at_a_time:
        prompt_ids = _prompt_ids(prompt, vocabulary, tokenizer)
    reasoning = None if options.reasoning is None else _reasoning_before(wanted, options.reasoning)
    request = Request(prompt_ids=prompt_ids, params=options.params, timeout_s=options.timeout_s, reasoning=reasoning)
    if wanted is None:
        return request
    try:
        constraint = as_constraint(wanted)
    except ConstrainError:
        raise
    except Exception as exc:  # a type's own hooks may raise anything, and it is this prompt's fault alone
        raise InvalidGrammarError(f"making a constraint of {wanted!r:.80} raised {type(exc).__name__}: {exc}") from exc
    return replace(request, constraint=constraint.grammar_spec, decode=constraint.decode)


def _reasoning_before(wanted: Any, reasoning: Reasoning) -> Reasoning:
    from constrain.tools import Tools

    is_for_tools = isinstance(wanted, Tools) and isinstance(reasoning, Reasoning)
    return wanted.adapted(reasoning) if is_for_tools else reasoning


def _prompt_ids(prompt: Prompt, vocabulary: Vocabulary, tokenizer: Any) -> list[int]:
    if isinstance(prompt, str):
        try:
            return vocabulary.encode(prompt) if tokenizer is None else list(tokenizer.encode(prompt))
        except UnicodeEncodeError as exc:
            raise InvalidPromptError(
                f"the prompt holds a lone surrogate at {exc.start}, which is no character"
            ) from exc
    if _is_array(prompt):
        return prompt.tolist()  # type: ignore[union-attr,no-any-return]
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise InvalidPromptError(f"a prompt is text, chat messages or token ids; got {type(prompt).__name__}")
    if all(isinstance(item, Integral) for item in prompt):
        return list(prompt)  # type: ignore[arg-type]  # each id is checked by the engine
    if not all(isinstance(item, Mapping) for item in prompt):
        raise InvalidPromptError(f"a prompt mixes {sorted({type(item).__name__ for item in prompt})}")
    if getattr(tokenizer, "chat_template", None) is None:
        raise InvalidPromptError(
            "chat messages need a tokenizer with a chat template; pass tokenizer=, or the prompt as text or token ids"
        )
    try:
        ids = tokenizer.apply_chat_template(list(prompt), add_generation_prompt=True, return_dict=False)
    except Exception as exc:  # templates raise whatever their authors wrote
        raise InvalidPromptError(f"the chat template refused the messages: {exc}") from exc
    return list(ids)


def _is_array(prompt: Any) -> bool:
    """Whether this is one row of token ids as a numpy array or a torch tensor."""
    return hasattr(prompt, "tolist") and getattr(prompt, "ndim", None) == 1


def prepare(model: Any, tokenizer: Any, vocabulary: Vocabulary | None) -> tuple[LogitsSource, Vocabulary, Any]:
    """The source, the vocabulary and, where there is one, the tokenizer of what a caller passes as a model."""
    if vocabulary is not None and not isinstance(vocabulary, Vocabulary):
        raise InvalidInputError(
            f"vocabulary={vocabulary!r:.80}: want a Vocabulary; Vocabulary.from_tokenizer makes one"
        )
    with _one_at_a_time:
        return _prepare(model, tokenizer, vocabulary)


def _prepare(model: Any, tokenizer: Any, vocabulary: Vocabulary | None) -> tuple[LogitsSource, Vocabulary, Any]:
    if not isinstance(model, LogitsSource) and hasattr(model, "config") and hasattr(model, "forward"):
        from constrain.hf import TransformersSource, load_tokenizer

        if tokenizer is None:
            tokenizer = _tokenizers.get(model) or _tokenizers.setdefault(model, load_tokenizer(model))
        return TransformersSource(model), vocabulary or _cached_vocabulary(model, tokenizer), tokenizer
    if vocabulary is None:
        if tokenizer is None:
            raise InvalidInputError(
                f"{type(model).__name__} does not say what its tokens are: pass vocabulary= or tokenizer="
            )
        width = model.logits_width if isinstance(model, LogitsSource) else None
        vocabulary = _cached_vocabulary(model, tokenizer, width)
    if isinstance(model, LogitsSource):
        return model, vocabulary, tokenizer
    if not callable(model):
        raise InvalidInputError(
            f"cannot get logits from {type(model).__name__}: want a transformers model, a LogitsSource or a function"
        )
    function: Callable[[list[list[int]]], Any] = model
    return FunctionSource(function, logits_width=vocabulary.logits_width), vocabulary, tokenizer


# Reading a tokenizer and preparing a backend takes up to seconds, so both live as long as the model or vocabulary that
# they belong to. No value may refer to its key, or neither would ever be freed.
# One at a time: a tokenizer of transformers fails with "Already borrowed" if two threads use it at once.
_one_at_a_time = threading.RLock()
_tokenizers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_vocabularies: WeakKeyDictionary[Any, tuple[Any, Vocabulary]] = WeakKeyDictionary()


def _cached_vocabulary(model: Any, tokenizer: Any, logits_width: int | None = None) -> Vocabulary:
    known = _vocabularies.get(model)
    if known is None or known[0] is not tokenizer:
        of_model = model if hasattr(model, "get_output_embeddings") else None
        vocabulary = Vocabulary.from_tokenizer(tokenizer, model=of_model, logits_width=logits_width)
        known = _vocabularies[model] = (tokenizer, vocabulary)
    return known[1]


def cached_backend(backend: str | Backend, vocabulary: Vocabulary) -> Backend:
    """The backend of that name for ``vocabulary``, made once; a backend is itself."""
    if isinstance(backend, Backend):
        return backend
    from constrain.backends import make_backend

    if not isinstance(backend, str):
        return make_backend(backend, vocabulary)  # which refuses it
    with _one_at_a_time:
        # On the vocabulary itself, since a backend holds its vocabulary.
        by_name: dict[str, Backend] = vocabulary.__dict__.setdefault("_constrain_backends", {})
        if backend not in by_name:
            by_name[backend] = make_backend(backend, vocabulary)
        return by_name[backend]
