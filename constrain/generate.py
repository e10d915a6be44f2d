"""One call from a prompt to a validated value."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack, overload

from constrain.engine import Engine
from constrain.engine.door import checked_count
from constrain.errors import ConstrainError, InvalidInputError
from constrain.inputs import (
    ManyOptions,
    Message,
    OneOptions,
    Options,
    Prompt,
    cached_backend,
    is_one_prompt,
    make_request,
    prepare,
)
from constrain.result import GenerationResult


@overload
def generate(
    model: Any,
    prompt: str | Sequence[Message] | Sequence[int],
    constraint: Any = None,
    **options: Unpack[OneOptions],
) -> GenerationResult: ...


@overload
def generate(
    model: Any, prompt: Sequence[Prompt], constraint: Any = None, **options: Unpack[ManyOptions]
) -> list[GenerationResult]: ...


def generate(
    model: Any, prompt: Any, constraint: Any = None, **options: Unpack[ManyOptions]
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
    vocabulary, backend, max_batch_size, processors, proposer, draft_length, rule:
        As :class:`constrain.Engine` takes them. ``proposer="grammar+ngram"`` drafts what the constraint forces and what
        stood in the text before, and saves forward passes; it changes no output.
    timeout_s:
        Seconds for each request, after which it ends with ``finish_reason="deadline"``.
    reasoning:
        ``Reasoning(...)`` for a model that thinks before it answers; the constraint then holds behind the thinking.
    **options:
        Besides these, the fields of :class:`~constrain.sampling.SamplingParams`: ``temperature``, ``max_tokens``, ...

    With ``n`` over 1 the result is a list, for one prompt too: the n outputs of each prompt stand together.

    Raises what is wrong with the call itself. What is wrong with a single prompt or constraint is raised for one
    prompt, and for several stands in that prompt's result.
    """
    return generate_until(lambda: False, model, prompt, constraint, **options)


def generate_until(
    should_stop: Callable[[], bool], model: Any, prompt: Any, constraint: Any, **options: Unpack[ManyOptions]
) -> GenerationResult | list[GenerationResult]:
    """``generate``, cancelling what is unfinished at the first step before which ``should_stop()``."""
    read = Options.read(options)
    params = read.params
    is_one = is_one_prompt(prompt)
    prompts: list[Prompt] = [prompt] if is_one else list(prompt)
    constraints = _each(read.constraints)
    if constraints is not None and (is_one or constraint is not None or len(constraints) != len(prompts)):
        raise InvalidInputError(
            f"constraints= goes with a list of prompts of its length, and not with constraint=; got {len(constraints)} "
            f"for {'one prompt' if is_one else f'{len(prompts)} prompts'}"
        )
    source, vocabulary, tokenizer = prepare(model, read.tokenizer, read.vocabulary)
    asked = [constraint] * len(prompts) if constraints is None else list(constraints)
    num_results = len(prompts) * params.n
    max_batch_size = checked_count("max_batch_size", read.max_batch_size, 1)
    results: list[GenerationResult | None] = [None] * num_results
    with Engine(
        source,
        vocabulary,
        backend=cached_backend(read.backend, vocabulary),
        max_batch_size=min(max_batch_size, num_results),
        **read.engine,
    ) as engine:
        place_of: dict[int, int] = {}
        for index, (each, wanted) in enumerate(zip(prompts, asked, strict=True)):
            places = range(index * params.n, (index + 1) * params.n)
            try:
                samples = make_request(each, wanted, read, vocabulary, tokenizer).samples()
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


def _each(constraints: Any) -> list[Any] | None:
    # A schema is iterable, too, but one constraint for all.
    if constraints is None:
        return None
    if not isinstance(constraints, Iterable) or isinstance(constraints, str | bytes | Mapping):
        raise InvalidInputError(f"constraints={constraints!r:.80}: want a list, one for each prompt")
    return list(constraints)


def _refused(index: int, error: ConstrainError) -> GenerationResult:
    return GenerationResult(
        request_id=index, finish_reason="error", text="", token_ids=(), num_prompt_tokens=0, error=error
    )


def raise_if_refused(result: GenerationResult) -> GenerationResult:
    """A lone prompt whose constraint could not be compiled: raised, since nothing was generated."""
    if isinstance(result.error, InvalidInputError) and not result.token_ids:
        raise result.error
    return result
