"""The same answers on a GPU: masks that travel, draws, the engine on a model."""

import random
import re
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from constrain import (
    ConstrainedLogitsProcessor,
    Engine,
    Request,
    SamplingParams,
    TokenBitmask,
    TransformersSource,
    Vocabulary,
    choice,
    regex,
)
from constrain.sampling.ops.bitmask import apply_bitmask_
from tests.hf.models import CONFIGS, scenario, tiny_model
from tests.sampling.requests import sample

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_masking_on_the_gpu_is_masking_on_the_cpu() -> None:
    for width in (33, 32001, 128256):
        bitmask = torch.randint(-(2**31), 2**31, (5, (width + 31) // 32)).to(torch.int32)
        logits = torch.randn(5, width)
        on_gpu = apply_bitmask_(logits.cuda(), bitmask.cuda())
        assert torch.equal(on_gpu.cpu(), apply_bitmask_(logits, bitmask))


def test_draws_on_the_gpu_are_draws_on_the_cpu_off_the_boundaries() -> None:
    logits = torch.randn(64, 32001, generator=torch.Generator().manual_seed(1)) * 3
    params = [
        SamplingParams(temperature=(i % 3) * 0.7, top_k=[0, 7][i % 2], top_p=[1.0, 0.8][i % 5 % 2]) for i in range(64)
    ]
    cpu = sample(logits.clone(), params, range(64), range(64))
    gpu = sample(logits.cuda(), params, range(64), range(64))
    assert torch.equal(cpu[1], gpu[1].cpu())
    assert (cpu[0] == gpu[0].cpu()).sum() >= 63  # a draw within rounding of a boundary may differ


def test_an_uploaded_mask_is_never_the_next_one() -> None:
    vocabulary = Vocabulary([b"x"] * 128000, stop_token_ids=[0])
    masks = TokenBitmask(64, vocabulary, "cuda")
    uploaded = []
    for step in range(50):
        masks.next_buffer().fill_(step)
        uploaded.append(masks.upload(64).clone())
    assert [int(rows.min()) for rows in uploaded] == [int(rows.max()) for rows in uploaded] == list(range(50))


def test_the_engine_gives_on_the_gpu_what_it_gives_on_the_cpu() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3,
    )  # fmt: skip
    model: Any = AutoModelForCausalLM.from_config(config).eval()
    vocabulary = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0], logits_width=320)
    rng = random.Random(3)
    constraints = [None, regex("[a-z]{3,8}"), choice(["yes", "no", "maybe"])]
    requests = [
        Request(
            prompt_ids=[rng.randrange(1, 257) for _ in range(rng.randrange(1, 30))],
            constraint=constraints[i % 3],
            params=SamplingParams(temperature=0.0, max_tokens=10),
        )
        for i in range(9)
    ]
    outputs = []
    for device in ("cpu", "cuda"):
        with Engine(TransformersSource(model.to(device)), vocabulary, backend="auto", max_batch_size=4) as engine:
            for request in requests:
                engine.add(request)
            outputs.append(engine.run())
    for on_cpu, on_gpu in zip(*outputs, strict=True):
        assert on_gpu.error is None, on_gpu
        assert on_cpu.token_ids == on_gpu.token_ids


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_the_cache_changes_no_logits_on_the_gpu(name: str) -> None:
    model = tiny_model(name).cuda()
    for seed in range(10):
        scenario(model, random.Random(seed), steps=8, atol=1e-3)


def test_a_model_in_half_precision_passes_the_trial_on_the_gpu() -> None:
    for name in sorted(CONFIGS):
        TransformersSource(tiny_model(name).to("cuda", torch.bfloat16))


def test_the_processor_gives_on_the_gpu_what_it_gives_on_the_cpu() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model: Any = AutoModelForCausalLM.from_config(config).eval()
    vocabulary = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0], logits_width=320)
    wanted = [re.compile("[a-z]{3,8}"), None, ["yes", "no", "maybe"]]
    masker = ConstrainedLogitsProcessor(constraints=wanted, vocabulary=vocabulary)
    ids = torch.tensor([[5, 9, 200, 31], [1, 2, 3, 4], [77, 76, 75, 74]])
    for mode in ({}, {"num_beams": 3}, {"cache_implementation": "static", "disable_compile": True}):
        outputs = []
        for device in ("cpu", "cuda"):
            for criteria in ([], [masker.prefetch]):
                outputs.append(
                    model.to(device).generate(
                        ids.to(device), attention_mask=torch.ones_like(ids, device=device), do_sample=False,
                        max_new_tokens=10, logits_processor=[masker], stopping_criteria=criteria, **mode,
                    ).cpu()
                )  # fmt: skip
                results = masker.results(outputs[-1])
                assert results[0].ok and re.fullmatch("[a-z]{3,8}", results[0].text)
                assert results[2].value in ("yes", "no", "maybe")
        assert all(torch.equal(output, outputs[0]) for output in outputs), mode


def test_drafts_on_the_gpu_give_what_greedy_search_gives() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    model: Any = AutoModelForCausalLM.from_config(config).eval().cuda()
    vocabulary = Vocabulary([b"", *(bytes([byte]) for byte in range(256))], stop_token_ids=[0], logits_width=320)
    masker = ConstrainedLogitsProcessor(re.compile("(ab|ba|[0-9]){12}"), vocabulary)
    ids = torch.tensor([[98, 99, 98, 99, 98]], device="cuda")
    outputs = [
        model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=30,
            logits_processor=[masker], stopping_criteria=[masker.prefetch], **drafting,
        )
        for drafting in ({}, {"prompt_lookup_num_tokens": 3}, {"assistant_model": model})
    ]  # fmt: skip
    assert masker.results(outputs[0])[0].ok
    assert all(torch.equal(output, outputs[0]) for output in outputs)
