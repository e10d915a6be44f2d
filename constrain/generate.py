"""One call from a prompt to a validated value."""

from collections.abc import Callable, Sequence
from typing import Any, Unpack, overload

from constrain.backend import Backend
from constrain.engine import Engine
from constrain.errors import ConstrainError, InvalidInputError
from constrain.inputs import ManyOptions, Message, Prompt, cached_backend, is_one_prompt, make_request, prepare
from constrain.result import GenerationResult
from constrain.sampling.params import SamplingFields, SamplingParams
from constrain.spec.draft import Proposer
from constrain.spec.length import DraftLength
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.vocabulary import Vocabulary


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
    proposer: str | Proposer | None = None,
    draft_length: int | DraftLength = 5,
    rule: str | RejectionSampler = "draw",
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
    proposer: str | Proposer | None = None,
    draft_length: int | DraftLength = 5,
    rule: str | RejectionSampler = "draw",
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
    proposer: str | Proposer | None = None,
    draft_length: int | DraftLength = 5,
    rule: str | RejectionSampler = "draw",
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
    proposer, draft_length, rule:
        Speculative decoding, as :class:`~constrain.Engine` takes it: ``proposer="forced+ngram"`` drafts what the
        constraint forces and what stood in the text before, and saves forward passes. The tokens are the same.
    **sampling:
        The fields of :class:`~constrain.sampling.SamplingParams`: ``temperature``, ``max_tokens``, ...

    With ``n`` over 1 the result is a list, for one prompt too: the n outputs of each prompt stand together.

    Raises what is wrong with the call itself. What is wrong with a single prompt or constraint is raised for one
    prompt, and for several stands in that prompt's result.
    """
    return generate_until(
        lambda: False,
        model,
        prompt,
        constraint,
        constraints=constraints,
        tokenizer=tokenizer,
        vocabulary=vocabulary,
        backend=backend,
        max_batch_size=max_batch_size,
        timeout_s=timeout_s,
        proposer=proposer,
        draft_length=draft_length,
        rule=rule,
        **sampling,
    )


def generate_until(
    should_stop: Callable[[], bool], model: Any, prompt: Any, constraint: Any, **options: Unpack[ManyOptions]
) -> GenerationResult | list[GenerationResult]:
    """``generate``, cancelling what is unfinished at the first step before which ``should_stop()``."""
    given: dict[str, Any] = dict(options)
    constraints: Sequence[Any] | None = given.pop("constraints", None)
    tokenizer, vocabulary = given.pop("tokenizer", None), given.pop("vocabulary", None)
    backend, max_batch_size = given.pop("backend", "auto"), given.pop("max_batch_size", 32)
    timeout_s: float | None = given.pop("timeout_s", None)
    proposer, draft_length = given.pop("proposer", None), given.pop("draft_length", 5)
    rule: str | RejectionSampler = given.pop("rule", "draw")
    is_one = is_one_prompt(prompt)
    prompts: list[Prompt] = [prompt] if is_one else list(prompt)
    constraints = None if constraints is None else list(constraints)
    if constraints is not None and (is_one or constraint is not None or len(constraints) != len(prompts)):
        raise InvalidInputError(
            f"constraints= goes with a list of prompts of its length, and not with constraint=; got {len(constraints)} "
            f"for {'one prompt' if is_one else f'{len(prompts)} prompts'}"
        )
    params = SamplingParams(**given)
    source, vocabulary, tokenizer = prepare(model, tokenizer, vocabulary)
    asked = [constraint] * len(prompts) if constraints is None else list(constraints)
    num_results = len(prompts) * params.n
    results: list[GenerationResult | None] = [None] * num_results
    with Engine(
        source,
        vocabulary,
        backend=cached_backend(backend, vocabulary),
        max_batch_size=max(1, min(max_batch_size, num_results)),
        proposer=proposer,
        draft_length=draft_length,
        rule=rule,
    ) as engine:
        place_of: dict[int, int] = {}
        for index, (each, wanted) in enumerate(zip(prompts, asked, strict=True)):
            places = range(index * params.n, (index + 1) * params.n)
            try:
                samples = make_request(each, wanted, params, timeout_s, vocabulary, tokenizer).samples()
                place_of.update(zip(map(engine.add, samples), places, strict=True))
            except ConstrainError as exc:
                if is_one:
                    raise
                results[places.start : places.stop] = [_refused(index, exc)] * params.n
        while engine.has_work:
            if should_stop():
                for request_id in place_of:
                    engine.cancel(request_id)
            for result in engine.step():
                place = place_of[result.request_id]
                results[place] = result.with_request_id(place // params.n)
    done = [result for result in results if result is not None]
    assert len(done) == num_results, (len(done), num_results)
    return raise_if_refused(done[0]) if is_one and params.n == 1 else done


def _refused(index: int, error: ConstrainError) -> GenerationResult:
    return GenerationResult(
        request_id=index, finish_reason="error", text="", token_ids=(), num_prompt_tokens=0, error=error
    )


def raise_if_refused(result: GenerationResult) -> GenerationResult:
    """A lone prompt whose constraint could not be compiled: raised, since nothing was generated."""
    if isinstance(result.error, InvalidInputError) and not result.token_ids:
        raise result.error
    return result
