"""One call from a prompt to a validated value."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, Unpack, overload
from weakref import WeakKeyDictionary

from constrain.backend import Backend
from constrain.engine import Engine
from constrain.errors import ConstrainError, InvalidInputError, InvalidPromptError
from constrain.request import Request
from constrain.result import GenerationResult
from constrain.sampling.params import SamplingFields, SamplingParams
from constrain.source import FunctionSource, LogitsSource
from constrain.vocabulary import Vocabulary

Message: TypeAlias = Mapping[str, Any]
Prompt: TypeAlias = str | Sequence[Message] | Sequence[int]
"""Text; chat messages, to which the model's chat template is applied; or token ids."""


@overload
def generate(
    model: Any,
    prompt: str | Sequence[Message] | Sequence[int],
    constraint: Any = None,
    *,
    tokenizer: Any = None,
    vocabulary: Vocabulary | None = None,
    backend: str | Backend = "auto",
    timeout_s: float | None = None,
    **sampling: Unpack[SamplingFields],
) -> GenerationResult: ...


@overload
def generate(
    model: Any,
    prompt: Sequence[Prompt],
    constraint: Any = None,
    *,
    constraints: Sequence[Any] | None = None,
    tokenizer: Any = None,
    vocabulary: Vocabulary | None = None,
    backend: str | Backend = "auto",
    max_batch_size: int = 32,
    timeout_s: float | None = None,
    **sampling: Unpack[SamplingFields],
) -> list[GenerationResult]: ...


def generate(
    model: Any,
    prompt: Any,
    constraint: Any = None,
    *,
    constraints: Sequence[Any] | None = None,
    tokenizer: Any = None,
    vocabulary: Vocabulary | None = None,
    backend: str | Backend = "auto",
    max_batch_size: int = 32,
    timeout_s: float | None = None,
    **sampling: Unpack[SamplingFields],
) -> GenerationResult | list[GenerationResult]:
    """Generate under a constraint: one result for one prompt, a list in the same order for several.

    Parameters
    ----------
    model:
        A transformers model; a :class:`~constrain.source.LogitsSource`; or a function from B lists of token ids to
        logits [B, V]. The latter two need ``vocabulary``.
    prompt:
        Text, chat messages (the chat template is applied), or token ids; or a list of these.
    constraint:
        Anything that :func:`constrain.as_grammar_spec` takes, for every prompt; None for free text.
    constraints:
        One constraint for each prompt of a list, instead of ``constraint``; None among them is free text.
    tokenizer:
        Of the transformers model; loaded from where the model came from if not given.
    timeout_s:
        Seconds for each request, after which it ends with ``finish_reason="deadline"``.
    **sampling:
        The fields of :class:`~constrain.sampling.SamplingParams`: ``temperature``, ``max_tokens``, ...

    Raises what is wrong with the call itself. What is wrong with a single prompt or constraint is raised for one
    prompt, and for several stands in that prompt's result.
    """
    is_one = _is_one_prompt(prompt)
    prompts: list[Prompt] = [prompt] if is_one else list(prompt)
    if constraints is not None and (is_one or constraint is not None or len(constraints) != len(prompts)):
        raise InvalidInputError(
            f"constraints= goes with a list of prompts of its length, and not with constraint=; got {len(constraints)} "
            f"for {'one prompt' if is_one else f'{len(prompts)} prompts'}"
        )
    params = SamplingParams(**sampling)
    source, vocabulary, tokenizer = _prepare(model, tokenizer, vocabulary)
    asked = [constraint] * len(prompts) if constraints is None else list(constraints)
    results: list[GenerationResult | None] = [None] * len(prompts)
    with Engine(
        source,
        vocabulary,
        backend=_cached_backend(backend, vocabulary),
        max_batch_size=max(1, min(max_batch_size, len(prompts))),
    ) as engine:
        index_of: dict[int, int] = {}
        for index, (each, wanted) in enumerate(zip(prompts, asked, strict=True)):
            try:
                request = _request(each, wanted, params, timeout_s, vocabulary, tokenizer)
                index_of[engine.add(request)] = index
            except ConstrainError as exc:
                if is_one:
                    raise
                results[index] = _refused(index, exc)
        for result in engine.run():
            index = index_of[result.request_id]
            results[index] = result.with_request_id(index)
    done = [result for result in results if result is not None]
    assert len(done) == len(prompts), (len(done), len(prompts))
    return _raise_if_refused(done[0]) if is_one else done


def _is_one_prompt(prompt: Any) -> bool:
    if isinstance(prompt, str):
        return True
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise InvalidPromptError(
            f"a prompt is text, chat messages or token ids, or a list of these; got {type(prompt).__name__}"
        )
    if not prompt:
        raise InvalidPromptError("the prompt is an empty list")
    return all(isinstance(item, int) for item in prompt) or all(isinstance(item, Mapping) for item in prompt)


def _request(
    prompt: Prompt,
    wanted: Any,
    params: SamplingParams,
    timeout_s: float | None,
    vocabulary: Vocabulary,
    tokenizer: Any,
) -> Request:
    from constrain.schema import as_constraint

    prompt_ids = _prompt_ids(prompt, vocabulary, tokenizer)
    if wanted is None:
        return Request(prompt_ids=prompt_ids, params=params, timeout_s=timeout_s)
    constraint = as_constraint(wanted)
    return Request(
        prompt_ids=prompt_ids,
        constraint=constraint.grammar_spec,
        decode=constraint.decode,
        params=params,
        timeout_s=timeout_s,
    )


def _prompt_ids(prompt: Prompt, vocabulary: Vocabulary, tokenizer: Any) -> list[int]:
    if isinstance(prompt, str):
        return vocabulary.encode(prompt) if tokenizer is None else list(tokenizer.encode(prompt))
    if all(isinstance(item, int) for item in prompt):
        return [int(item) for item in prompt if isinstance(item, int)]
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


def _prepare(model: Any, tokenizer: Any, vocabulary: Vocabulary | None) -> tuple[LogitsSource, Vocabulary, Any]:
    if not isinstance(model, LogitsSource) and hasattr(model, "config") and hasattr(model, "forward"):
        from constrain.hf import TransformersSource, load_tokenizer

        tokenizer = load_tokenizer(model) if tokenizer is None else tokenizer
        return TransformersSource(model), vocabulary or _cached_vocabulary(model, tokenizer), tokenizer
    if vocabulary is None:
        if tokenizer is None:
            raise InvalidInputError(
                f"{type(model).__name__} does not say what its tokens are: pass vocabulary= or tokenizer="
            )
        width = model.logits_width if isinstance(model, LogitsSource) else None
        vocabulary = Vocabulary.from_tokenizer(tokenizer, logits_width=width)
    if isinstance(model, LogitsSource):
        return model, vocabulary, tokenizer
    if not callable(model):
        raise InvalidInputError(
            f"cannot get logits from {type(model).__name__}: want a transformers model, a LogitsSource or a function"
        )
    function: Callable[[list[list[int]]], Any] = model
    return FunctionSource(function, logits_width=vocabulary.logits_width), vocabulary, tokenizer


# Reading a tokenizer and preparing a backend takes up to seconds, so both live as long as the model they belong to.
_vocabularies: WeakKeyDictionary[Any, tuple[Any, Vocabulary]] = WeakKeyDictionary()
_backends: WeakKeyDictionary[Vocabulary, dict[str, Backend]] = WeakKeyDictionary()


def _cached_vocabulary(model: Any, tokenizer: Any) -> Vocabulary:
    known = _vocabularies.get(model)
    if known is None or known[0] is not tokenizer:
        known = _vocabularies[model] = (tokenizer, Vocabulary.from_tokenizer(tokenizer, model=model))
    return known[1]


def _cached_backend(backend: str | Backend, vocabulary: Vocabulary) -> Backend:
    if isinstance(backend, Backend):
        return backend
    from constrain.backends import make_backend

    by_name = _backends.setdefault(vocabulary, {})
    if backend not in by_name:
        by_name[backend] = make_backend(backend, vocabulary)
    return by_name[backend]


def _refused(index: int, error: ConstrainError) -> GenerationResult:
    return GenerationResult(
        request_id=index, finish_reason="error", text="", token_ids=(), num_prompt_tokens=0, error=error
    )


def _raise_if_refused(result: GenerationResult) -> GenerationResult:
    """A lone prompt whose constraint could not be compiled: raised, since nothing was generated."""
    if isinstance(result.error, InvalidInputError) and not result.token_ids:
        raise result.error
    return result
