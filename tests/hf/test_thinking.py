"""Thinking before constraints and tools, inside transformers' own ``generate``."""

from typing import Any

import pytest
import torch

from constrain import ConstrainedLogitsProcessor, InvalidInputError, choice, make_backend
from constrain.hf import hosted_generate
from constrain.reasoning import Reasoning, ReasoningFormat, compile_reasoning
from tests.hf.models import tiny_model
from tests.reasoning.tiny import STOPS, ids, special, vocabulary

TEXTUAL = ReasoningFormat(start="<b>", end="</b>", after_end="\n\n")
REASONING = Reasoning(parser=TEXTUAL, budget=4)
# One prompt leaves thinking open, one does not, and is padded.
PROMPTS = [ids("a", "b", "<b>"), [special("<pad>"), *ids("c", "a")]]
MASK = [[1, 1, 1], [0, 1, 1]]


def run(model: Any, **options: Any) -> Any:
    torch.manual_seed(5)
    return model.generate(
        torch.tensor(PROMPTS),
        attention_mask=torch.tensor(MASK),
        max_new_tokens=40,
        pad_token_id=special("<pad>"),
        eos_token_id=list(STOPS),
        **options,
    )


@pytest.mark.parametrize(
    "mode",
    [
        {"do_sample": False},
        {"do_sample": True},
        {"num_beams": 3, "do_sample": False},
        {"do_sample": True, "num_return_sequences": 2},
    ],
)
def test_a_processor_thinks_as_each_prompt_says(mode: dict[str, Any]) -> None:
    model = tiny_model("llama")
    on_dead_end: Any = "prune" if "num_beams" in mode else "raise"
    processor = ConstrainedLogitsProcessor(
        choice(["[1]", "x"]), vocabulary(), backend="trie", reasoning=REASONING, on_dead_end=on_dead_end
    )
    output = run(model, logits_processor=[processor], stopping_criteria=[processor.prefetch], **mode)
    results = processor.results(output)
    each = mode.get("num_return_sequences", 1)
    assert len(results) == 2 * each
    for number, result in enumerate(results):
        assert result.unwrap() in ("[1]", "x") and result.reasoning is not None
        assert result.text == vocabulary().decode(result.token_ids[result.content_start :]).decode()
        is_open = number < each
        assert not is_open or "</b>" in vocabulary().decode(result.token_ids).decode()


def test_hosted_generate_thinks_as_the_processor_does() -> None:
    model, wanted = tiny_model("llama"), choice(["[1]", "x"])
    processor = ConstrainedLogitsProcessor(wanted, vocabulary(), backend="trie", reasoning=REASONING)
    sequences = run(model, logits_processor=[processor], do_sample=False)
    hosted = run(
        model,
        custom_generate=hosted_generate,
        constraint=wanted,
        vocabulary=vocabulary(),
        backend="trie",
        reasoning=REASONING,
        do_sample=False,
        return_dict_in_generate=True,
    )
    assert torch.equal(hosted.sequences, sequences)
    for ours, theirs in zip(hosted["results"], processor.results(sequences), strict=True):
        assert (ours.reasoning, ours.value, ours.content_start) == (
            theirs.reasoning,
            theirs.value,
            theirs.content_start,
        )


def test_hosted_generate_takes_compiled_constraints() -> None:
    model = tiny_model("llama")
    compiled = make_backend("trie", vocabulary()).compile(choice(["[1]", "x"]))
    made = [compile_reasoning(compiled, vocabulary(), REASONING, prompt) for prompt in PROMPTS]
    options = {"custom_generate": hosted_generate, "vocabulary": vocabulary(), "do_sample": False}
    sequences = run(model, constraints=made, **options)
    assert torch.equal(sequences, run(model, constraint=compiled, reasoning=REASONING, **options))


def test_thinking_twice_is_refused() -> None:
    compiled = make_backend("trie", vocabulary()).compile(choice(["x"]))
    made = compile_reasoning(compiled, vocabulary(), REASONING, PROMPTS[0])
    with pytest.raises(InvalidInputError, match="thinks already"):
        ConstrainedLogitsProcessor(made, vocabulary(), reasoning=REASONING)
