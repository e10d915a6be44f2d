"""Thinking inside the engine and inside transformers' generate, neither of which knows of it."""

from typing import Any

import pytest
import torch

from constrain import ConstrainedLogitsProcessor, Engine, FunctionSource, Request, SamplingParams, choice, regex
from constrain.reasoning import CompiledReasoning, Reasoning, ReasoningFormat, compile_reasoning
from tests.hf.models import tiny_model
from tests.reasoning.tiny import STOPS, compiled, ids, special, vocabulary

TEXTUAL = ReasoningFormat(start="<b>", end="</b>", after_end="\n\n")
SAMPLERS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 1.0},
    {"temperature": 1.5, "top_k": 4},
    {"temperature": 0.8, "top_p": 0.7},
]


def constraints() -> list[tuple[list[int], CompiledReasoning]]:
    """Prompts, and what their outputs are held to."""
    made = []
    for prompt, content, options in (
        (ids("a", "<b>"), choice(["[1]", "x"]), Reasoning(parser=TEXTUAL, budget=5, budget_phrase="xx")),
        (ids("b", "a"), choice(["[1]", "x"]), Reasoning(parser=TEXTUAL, budget=3, required=True)),
        (ids("c", "a"), regex("\\[[12]{1,4}]"), Reasoning(parser=ReasoningFormat(start="[T", end="]]"), budget=4)),
        ([special("<user>"), special("<think>")], None, Reasoning(parser="think", budget=7)),
        (ids("a", "c"), None, Reasoning(parser="think", budget=0, required=True)),
    ):
        grammar = None if content is None else compiled(content)
        made.append((prompt, compile_reasoning(grammar, vocabulary(), options, prompt)))
    return made


def some_logits(rows: list[list[int]]) -> torch.Tensor:
    """Logits that depend on the whole row, and on nothing else."""
    return torch.stack(
        [torch.randn(97, generator=torch.Generator().manual_seed(hash(tuple(row)) % 2**31)) * 2 for row in rows]
    )


def run(requests: list[Request]) -> list[tuple[int, ...]]:
    source = FunctionSource(some_logits, logits_width=97)
    with Engine(source, vocabulary(), max_batch_size=len(requests)) as engine:
        for request in requests:
            engine.add(request)
        results = engine.run()
    assert all(result.error is None for result in results), results
    return [result.token_ids for result in results]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_batch_thinks_within_its_budgets_and_each_request_as_it_does_alone(sampler: dict[str, Any]) -> None:
    made = constraints()
    requests = [
        Request(
            prompt_ids=prompt,
            constraint=grammar,
            decode=str,
            params=SamplingParams(seed=seed, max_tokens=40, **sampler),
        )
        for seed in range(4)
        for prompt, grammar in made
    ]
    outputs = run(requests)
    for index, output in enumerate(outputs):
        grammar = made[index % len(made)][1]
        assert grammar.start().accept(output) == len(output)
        assert run([requests[index]]) == [output]
        split = grammar.split(output)
        if output[-1] in STOPS and index % len(made) < 2:
            assert split.text in ("[1]", "x") and split.end_index is not None
    assert any(output[-1] in STOPS for output in outputs)


MODES: list[dict[str, Any]] = [
    {"do_sample": False},
    {"do_sample": True, "temperature": 1.3},
    {"num_beams": 3, "do_sample": False},
    {"do_sample": False, "prompt_lookup_num_tokens": 3},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("number", range(5))
def test_the_logits_processor_holds_generate_to_thinking_and_content(mode: dict[str, Any], number: int) -> None:
    model, (prompt, made) = tiny_model("llama"), constraints()[number]
    processor = ConstrainedLogitsProcessor(made, on_dead_end="prune" if "num_beams" in mode else "raise")
    torch.manual_seed(number)
    output = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=30,
        pad_token_id=special("<pad>"),
        eos_token_id=list(STOPS),
        logits_processor=[processor],
        stopping_criteria=[processor.prefetch],
        **mode,
    )
    tokens = output[0, len(prompt) :].tolist()
    while tokens[-1] == special("<pad>"):
        tokens.pop()
    grammar = made.start()
    assert grammar.accept(tokens) == len(tokens)
    assert grammar.is_terminated == (tokens[-1] in STOPS)
    for budget, start in ((5, 0), (3, 3), (4, 2), (7, 0), (0, 1))[number : number + 1]:
        end_index = made.split(tokens).end_index
        assert end_index is not None and end_index <= start + budget + 6
