"""Our engine inside transformers' ``generate``."""

from collections.abc import Sequence
from typing import Any

import torch
from transformers.generation import (
    EosTokenCriteria,
    GenerateDecoderOnlyOutput,
    LogitsProcessorList,
    MaxLengthCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from constrain.backend import Backend
from constrain.engine import Engine
from constrain.errors import InvalidInputError
from constrain.grammar import CompiledGrammar
from constrain.hf.source import TransformersSource
from constrain.hf.tokenizer import load_tokenizer
from constrain.hf.wanted import reasoning_before
from constrain.reasoning.options import Reasoning
from constrain.request import Request
from constrain.result import GenerationResult
from constrain.sampling.params import SamplingParams
from constrain.vocabulary import Vocabulary

_OURS = (TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper, MaxLengthCriteria, EosTokenCriteria)
"""What the engine does itself."""


def hosted_generate(
    model: Any,
    input_ids: torch.Tensor,  # [R, P], padded on the left
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: Any,
    constraint: Any = None,
    constraints: Sequence[Any] | None = None,
    vocabulary: Vocabulary | None = None,
    backend: str | Backend = "auto",
    reasoning: Reasoning | None = None,
    **model_kwargs: Any,  # attention_mask among them: named here, generate would take it away before using it
) -> torch.Tensor | GenerateDecoderOnlyOutput:
    """Generate by :class:`~constrain.Engine` where ``model.generate`` would by itself: pass it as ``custom_generate``.

        model.generate(**inputs, custom_generate=hosted_generate, constraint=User, vocabulary=vocabulary)

    ``constraint`` or ``constraints`` (one for each prompt) and ``reasoning`` are what ``generate()`` takes; without
    ``vocabulary`` the tokenizer beside the model's checkpoint is read, at every call. Length, temperature, top-k, top-p
    and ``num_return_sequences`` are the generation config's, seeds come from torch's generator. ``InvalidInputError``
    for what the engine does not do: beams, drafts, penalties and other processors or stopping criteria, streamed or
    embedded prompts. A sequence that fails (a dead end) raises its error. Gives what ``generate`` gives; with
    ``return_dict_in_generate`` an object that has the results, too, as ``results``.
    """
    _refuse(logits_processor, stopping_criteria, generation_config, input_ids)
    vocabulary = vocabulary or Vocabulary.from_tokenizer(load_tokenizer(model), model=model)
    wanted = _one_each([constraint] if constraints is None else constraints, len(input_ids), constraints is None)
    prompts = _without_padding(input_ids, model_kwargs.get("attention_mask"))
    seeds = torch.randint(2**62, (len(prompts),)).tolist()
    with Engine(TransformersSource(model), vocabulary, backend=backend, max_batch_size=len(prompts)) as engine:
        for prompt, each, seed in zip(prompts, wanted, seeds, strict=True):
            engine.add(_request(prompt, each, reasoning, _params(generation_config, input_ids.shape[1], seed)))
        results = engine.run()
    for result in results:
        if result.error is not None:
            raise result.error
    sequences = _sequences(input_ids, results, generation_config)
    if not generation_config.return_dict_in_generate:
        return sequences
    output = GenerateDecoderOnlyOutput(sequences=sequences)
    output["results"] = results
    return output


def _refuse(
    processors: LogitsProcessorList, criteria: StoppingCriteriaList, config: Any, input_ids: torch.Tensor
) -> None:
    foreign = sorted({type(each).__name__ for each in (*processors, *criteria) if not isinstance(each, _OURS)})
    if foreign:
        raise InvalidInputError(f"the engine does not do {', '.join(foreign)}; use ConstrainedLogitsProcessor")
    if config.num_beams > 1 or config.prompt_lookup_num_tokens is not None:
        raise InvalidInputError("the engine does neither beams nor prompt lookup; use ConstrainedLogitsProcessor")
    if input_ids.shape[1] == 0:
        raise InvalidInputError("inputs_embeds cannot be hosted: the engine needs token ids")


def _one_each(wanted: Sequence[Any], num_rows: int, is_shared: bool) -> list[Any]:
    if is_shared:
        return list(wanted) * num_rows
    if not wanted or num_rows % len(wanted):
        raise InvalidInputError(f"{len(wanted)} constraints for {num_rows} rows: want one for each prompt")
    return [each for each in wanted for _ in range(num_rows // len(wanted))]


def _without_padding(input_ids: torch.Tensor, attention_mask: torch.Tensor | None) -> list[list[int]]:
    if attention_mask is None:
        rows: list[list[int]] = input_ids.tolist()
        return rows
    return [row[mask.bool()].tolist() for row, mask in zip(input_ids.cpu(), attention_mask.cpu(), strict=True)]


def _params(config: Any, prompt_length: int, seed: int) -> SamplingParams:
    max_tokens = config.max_length - prompt_length
    if not config.do_sample:
        return SamplingParams(temperature=0.0, max_tokens=max_tokens, seed=seed)
    return SamplingParams(
        temperature=1.0 if config.temperature is None else config.temperature,
        top_k=config.top_k or 0,
        top_p=1.0 if config.top_p is None else config.top_p,
        max_tokens=max_tokens,
        seed=seed,
    )


def _request(prompt: list[int], wanted: Any, reasoning: Reasoning | None, params: SamplingParams) -> Request:
    from constrain.schema import as_constraint

    thinking = reasoning_before(wanted, reasoning)
    if isinstance(wanted, CompiledGrammar):
        return Request(prompt_ids=prompt, constraint=wanted, reasoning=thinking, params=params)
    constraint = as_constraint(wanted)
    return Request(
        prompt_ids=prompt,
        constraint=constraint.grammar_spec,
        decode=constraint.decode,
        reasoning=thinking,
        params=params,
    )


def _sequences(input_ids: torch.Tensor, results: list[GenerationResult], config: Any) -> torch.Tensor:
    padding = config._pad_token_tensor
    longest = max(result.num_output_tokens for result in results)
    output = input_ids.new_full((len(results), longest), 0 if padding is None else int(padding))
    for row, result in enumerate(results):
        output[row, : result.num_output_tokens] = torch.tensor(result.token_ids, dtype=input_ids.dtype)
    return torch.cat([input_ids, output], dim=1)
