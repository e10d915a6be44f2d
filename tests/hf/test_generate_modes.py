"""The processor inside every mode of ``generate``: finished texts against ``re`` and ``jsonschema``, beams against a
search of everything."""

import json
import re
from typing import Any

import jsonschema
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, StoppingCriteria

from constrain import ConstrainedLogitsProcessor, DeadEndError, GenerationResult, InvalidInputError, Vocabulary
from tests.tiny import AB, CLOSE, EOS, OPEN, PAD, SPACE, A, B, tiny_vocabulary

SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["ok", "n"],
    "additionalProperties": False,
}
PATTERN = re.compile(r"[A-Z][a-z]{2,6}( [0-9]{2})?")
PROMPTS = ["Answer in JSON: is water wet, and how wet?", "JSON:"]
VOCABULARY = tiny_vocabulary(40)


def tiny_model(seed: int = 0, layers: int = 2) -> Any:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.4, eos_token_id=EOS, bos_token_id=None,
        pad_token_id=PAD,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config).eval()


def generate(
    model: Any, masker: ConstrainedLogitsProcessor, ids: torch.Tensor, *, early: bool = False, **options: Any
) -> torch.Tensor:
    torch.manual_seed(7)
    criteria = [masker.prefetch] if early else []
    mask = options.pop("attention_mask", torch.ones_like(ids))
    settings = {"do_sample": False, "max_new_tokens": 24, "pad_token_id": model.config.pad_token_id or 0} | options
    sequences: torch.Tensor = model.generate(
        ids, attention_mask=mask, logits_processor=[masker], stopping_criteria=criteria, **settings
    )
    return sequences


def assert_valid(result: GenerationResult, wanted: Any) -> None:
    """A finished text is valid under what was asked, by somebody else's judgement; a cut one says so."""
    if result.finish_reason == "length":
        assert result.error is None and result.value is None
    elif isinstance(wanted, dict):
        assert result.ok, result
        jsonschema.validate(json.loads(result.text), wanted)
        assert result.value == json.loads(result.text)
    elif wanted is not None:
        assert result.ok and wanted.fullmatch(result.text), result


MODES: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampling": {"do_sample": True},
    "hot sampling, several each": {"do_sample": True, "temperature": 2.0, "top_k": 0, "num_return_sequences": 2},
    "beams": {"num_beams": 2, "num_return_sequences": 2},
    "beam sampling": {"num_beams": 2, "do_sample": True},
    "static cache": {"cache_implementation": "static", "disable_compile": True},
    "no cache": {"use_cache": False, "max_new_tokens": 8},
}


@pytest.mark.model
@pytest.mark.parametrize("mode", sorted(MODES))
def test_every_finished_text_is_valid(mode: str, smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary) -> None:
    model, tokenizer = smollm2
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.pad_token or tokenizer.eos_token
    wanted: list[Any] = [SCHEMA, PATTERN]
    masker = ConstrainedLogitsProcessor(constraints=wanted, vocabulary=smollm2_vocabulary)
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    assert (batch.attention_mask == 0).any(), "left padding is part of the test"
    outputs = [
        generate(
            model, masker, batch.input_ids, attention_mask=batch.attention_mask,
            pad_token_id=tokenizer.pad_token_id, early=early, **MODES[mode],
        )
        for early in (False, True)
    ]  # fmt: skip
    assert torch.equal(*outputs), "the prefetch changed an output"
    results = masker.results(outputs[0])
    for index, result in enumerate(results):
        assert_valid(result, wanted[index * 2 // len(results)])
    assert mode == "no cache" or any(result.ok for result in results)


@pytest.mark.model
def test_one_processor_serves_batches_of_other_sizes_and_free_rows(
    smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary
) -> None:
    model, tokenizer = smollm2
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.pad_token or tokenizer.eos_token
    masker = ConstrainedLogitsProcessor(PATTERN, smollm2_vocabulary)
    batches = [["A city:"], ["A city:"], ["A name:", "A city of the south:", "X"], ["A city: Rome"], ["A city"]]
    for prompts in batches:
        batch = tokenizer(prompts, return_tensors="pt", padding=True)
        options = {"attention_mask": batch.attention_mask, "max_new_tokens": 16, "early": len(prompts) > 1}
        results = masker.results(generate(model, masker, batch.input_ids, **options))
        assert len(results) == len(prompts)
        for result in results:
            assert_valid(result, PATTERN)
    free = ConstrainedLogitsProcessor(constraints=[None, PATTERN], vocabulary=smollm2_vocabulary)
    batch = tokenizer(PROMPTS, return_tensors="pt", padding=True)
    held = generate(model, free, batch.input_ids, attention_mask=batch.attention_mask, max_new_tokens=8)
    plain = model.generate(**batch, max_new_tokens=8, do_sample=False, pad_token_id=2)
    assert held[0].tolist() == plain[0].tolist(), "a free row is what it is without the processor"
    assert_valid(free.results(held)[1], PATTERN)


@pytest.mark.model
def test_drafts_give_what_greedy_search_gives(smollm2: tuple[Any, Any], smollm2_vocabulary: Vocabulary) -> None:
    model, tokenizer = smollm2
    ids = tokenizer('{"ok": true, "n": 42} is JSON. {"ok": true, "n": 42} again:', return_tensors="pt").input_ids
    masker = ConstrainedLogitsProcessor(SCHEMA, smollm2_vocabulary)
    greedy = generate(model, masker, ids)
    assert_valid(masker.results(greedy)[0], SCHEMA)
    for early in (False, True):
        for drafting in ({"prompt_lookup_num_tokens": 4}, {"assistant_model": model}):
            assert torch.equal(generate(model, masker, ids, early=early, **drafting), greedy)


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_drafts_that_are_often_refused_give_what_greedy_search_gives(seed: int, early: bool) -> None:
    model, assistant = tiny_model(seed), tiny_model(seed + 10, layers=1)
    masker = ConstrainedLogitsProcessor(re.compile("(a|b|ab|[12]{2}){8,9}"), VOCABULARY)
    ids = torch.tensor([[OPEN, A, B, A, B, AB, A, A, CLOSE]])
    greedy = generate(model, masker, ids)
    assert masker.results(greedy)[0].finish_reason == "stop"
    for drafting in ({"prompt_lookup_num_tokens": 3}, {"assistant_model": assistant}):
        assert torch.equal(generate(model, masker, ids, early=early, **drafting), greedy)
        sampled = generate(model, masker, ids, early=early, do_sample=True, **drafting)
        assert_valid(masker.results(sampled)[0], re.compile("(a|b|ab|[12]{2}){8,9}"))


def legal_sequences(pattern: str, longest: int) -> list[list[int]]:
    """Every token sequence of a finished text, by trying them all."""
    found, open_ends = [], [[]]
    while open_ends:
        sequence: list[int] = open_ends.pop()
        text = b"".join(VOCABULARY.token_bytes[i] for i in sequence).decode()
        if re.fullmatch(pattern, text):
            found.append([*sequence, EOS])
        if len(sequence) < longest:
            open_ends += [[*sequence, token_id] for token_id in (A, B, AB, SPACE)]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_enough_beams_find_the_best_legal_sequences(seed: int) -> None:
    model = tiny_model(seed)
    pattern = "a?b?(ab| b){1,2}"
    prompts = [[PAD, OPEN, A], [CLOSE, B, OPEN]]
    masker = ConstrainedLogitsProcessor(re.compile(pattern), VOCABULARY)
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    found = generate(
        model, masker, torch.tensor(prompts), attention_mask=mask, num_beams=40, num_return_sequences=3,
        length_penalty=0.0, max_new_tokens=8, early=seed == 0,
    )  # fmt: skip
    for index, prompt in enumerate(prompts):
        scored = []
        start = int(mask[index].argmax())
        for output in legal_sequences(pattern, longest=6):
            with torch.no_grad():
                logits = model(torch.tensor([prompt[start:] + output])).logits[0, len(prompt) - start - 1 : -1]
            logprobs = torch.log_softmax(logits, dim=-1)
            scored.append((float(logprobs[range(len(output)), output].sum()), output))
        best = [output for _, output in sorted(scored, reverse=True)[:3]]
        rows = found[3 * index : 3 * index + 3, len(prompt) :].tolist()
        assert [row[: len(output)] for row, output in zip(rows, best, strict=True)] == best


def test_beams_that_run_out_of_legal_sequences_return_what_there_is() -> None:
    model = tiny_model(1)
    masker = ConstrainedLogitsProcessor(re.compile("ab|a"), VOCABULARY)
    ids = torch.tensor([[OPEN, A], [CLOSE, B]])
    for sampling in (False, True):
        output = generate(model, masker, ids, num_beams=6, num_return_sequences=3, do_sample=sampling, max_new_tokens=6)
        results = masker.results(output)
        assert all(results[index].ok for index in (0, 3))
        assert {result.text for result in results if result.ok} <= {"a", "ab"}


def test_several_stop_tokens_and_logits_wider_than_the_vocabulary() -> None:
    model = tiny_model(2)
    vocabulary = Vocabulary(
        VOCABULARY.token_bytes, stop_token_ids=[EOS, CLOSE], special_token_ids=[PAD], logits_width=40
    )
    masker = ConstrainedLogitsProcessor(re.compile("[ab]{1,4}"), vocabulary)
    ids = torch.tensor([[OPEN, A], [SPACE, B], [A, A], [B, B]])
    sequences = generate(model, masker, ids, do_sample=True, eos_token_id=[EOS, CLOSE], temperature=3.0)
    results = masker.results(sequences)
    for result in results:
        assert_valid(result, re.compile("[ab]{1,4}"))
        assert result.ok
    assert {result.token_ids[-1] for result in results} == {EOS, CLOSE}


def test_raw_logits_stay_raw() -> None:
    model = tiny_model(0)
    masker = ConstrainedLogitsProcessor(re.compile("[ab]{3}"), VOCABULARY)
    output: Any = generate(
        model, masker, torch.tensor([[OPEN]]), output_logits=True, output_scores=True, return_dict_in_generate=True
    )
    assert all(not logits.isinf().any() for logits in output.logits)
    assert all(scores.isinf().any() for scores in output.scores)
    assert masker.results(output)[0].ok


class StopAtLength(StoppingCriteria):  # type: ignore[misc]
    """Ends row 0 at a length, as a stop string would; ``generate`` then pads it."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, input_ids: torch.Tensor, scores: object, **kwargs: object) -> torch.Tensor:
        done = torch.zeros(len(input_ids), dtype=torch.bool)
        done[0] = input_ids.shape[1] >= self.length
        return done


def test_a_row_that_another_criterion_ends_is_padded_in_peace() -> None:
    model = tiny_model(0)
    masker = ConstrainedLogitsProcessor(re.compile("[ab]{6,7}"), VOCABULARY)
    ids = torch.tensor([[OPEN, A], [CLOSE, B]])
    sequences = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=12, pad_token_id=PAD,
        logits_processor=[masker], stopping_criteria=[StopAtLength(4), masker.prefetch],
    )  # fmt: skip
    cut, whole = masker.results(sequences)
    assert cut.finish_reason == "length" and len(cut.token_ids) == 2 and whole.ok


def test_a_dead_end_ends_the_run_with_its_row_or_the_row_with_a_stop() -> None:
    model = tiny_model(0)
    ids = torch.tensor([[OPEN, A]])
    with pytest.raises(DeadEndError, match="row 0"):
        generate(model, ConstrainedLogitsProcessor(re.compile("ac"), VOCABULARY), ids)
    stopping = ConstrainedLogitsProcessor(re.compile("ac"), VOCABULARY, on_dead_end="stop")
    for early in (False, True):
        [result] = stopping.results(generate(model, stopping, ids, early=early))
        assert result.finish_reason == "dead_end" and result.text == "a"
    pruning = ConstrainedLogitsProcessor(re.compile("ac|bb"), VOCABULARY, on_dead_end="prune")
    [result] = pruning.results(generate(model, pruning, ids, num_beams=3, max_new_tokens=6))
    assert result.value == "bb"


def test_embeddings_instead_of_a_prompt() -> None:
    model = tiny_model(0)
    masker = ConstrainedLogitsProcessor(re.compile("[ab]{3}"), VOCABULARY)
    ids = torch.tensor([[OPEN, A, B]])
    embeddings = model.get_input_embeddings()(ids)
    for _ in range(2):
        sequences = model.generate(
            inputs_embeds=embeddings, max_new_tokens=8, do_sample=False, pad_token_id=PAD, logits_processor=[masker]
        )
        [result] = masker.results(sequences)
        assert result.ok and result.text == masker.results(generate(model, masker, ids))[0].text
        masker.results(generate(model, masker, ids))


def test_continuous_batching_is_refused_where_it_would_drop_the_constraint() -> None:
    model = tiny_model(0)
    masker = ConstrainedLogitsProcessor(re.compile("[ab]{3}"), VOCABULARY)
    with pytest.raises(NotImplementedError, match="continuous batching"):
        generate(model, masker, torch.tensor([[OPEN]]), early=True, cache_implementation="paged")
    with pytest.raises(InvalidInputError, match="continuous batching"):
        masker(torch.tensor([OPEN, A]), torch.zeros(1, 2, 40))
