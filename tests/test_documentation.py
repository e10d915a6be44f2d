"""What README.md and the pages of docs/ show runs, on a tiny random model; docs/sampling.md has a test of its own."""

import ast
import asyncio
import inspect
import re
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from pydantic import BaseModel
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import constrain.hf
from constrain import Engine, SamplingParams, TransformersSource, Vocabulary, generate, make_backend, regex
from constrain.sampling import Rows, Sampler
from constrain.source import SequenceView
from constrain.spec import (
    DraftModelProposer,
    DrawKey,
    GuardedProposer,
    NgramProposer,
    RejectionSampler,
    SpecDecodeMetadata,
    fill_draft_bitmask,
)
from constrain.token_readers import BYTE_LEVEL

ROOT = Path(__file__).parents[1]
SPECIAL = ["<stop>", "<think>", "</think>"]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


class Person(Enum):
    """Soon written, also by a model that writes at random."""

    ANN = "Ann"
    BO = "Bo"


class Search(BaseModel):
    query: Literal["now", "then"]


def get_weather(city: Literal["Rome", "Oslo"], unit: Literal["C", "F"] = "C") -> str:
    """The weather in a city."""
    raise AssertionError("tools are never called")


def blocks_of(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def run(block: str, names: dict[str, Any]) -> None:
    """Run a block as it stands, on the CPU; `await` may stand outside of a function."""
    code = compile(block.replace('"cuda"', '"cpu"'), "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, names))  # type: ignore[arg-type]
    else:
        exec(code, names)


@pytest.fixture(scope="module")
def model_and_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Knows ASCII, and the markers of thinking; from a folder, in which the tokenizer is found again."""
    folder = tmp_path_factory.mktemp("model")
    pieces = {piece: byte for piece, byte in BYTE_LEVEL.items() if byte < 128}
    pieces |= {token: 128 + index for index, token in enumerate(SPECIAL)}
    tokenizer = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<stop>", pad_token="<stop>", extra_special_tokens=SPECIAL[1:]
    )
    wrapped.chat_template = TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=131,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=2048,
        eos_token_id=128,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    wrapped.save_pretrained(folder)
    return LlamaForCausalLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


@pytest.fixture
def names(model_and_tokenizer: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What pages take for granted."""
    model, tokenizer = model_and_tokenizer
    soon_over = partial(generate, logit_bias={128: 6.0})  # a random model may call tools without end
    monkeypatch.setattr(constrain, "generate", soon_over)
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
    return {
        "__name__": "page",
        "re": re,
        "Literal": Literal,
        "model": model,
        "tokenizer": tokenizer,
        "vocabulary": vocabulary,
        "prompt": "A user: ",
        "prompts": ["One: ", "Two: ", "Three: "],
        "messages": [{"role": "user", "content": "Who? "}],
        "User": Person,
        "Search": Search,
        "get_weather": get_weather,
        "generate": soon_over,
        "Engine": Engine,
    }


def test_the_readme_runs_from_top_to_bottom(
    names: dict[str, Any], model_and_tokenizer: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Websocket:
        sent = ""

        async def send(self, text: str) -> None:
            self.sent += text

    monkeypatch.setattr(constrain.hf, "load_packaged_model", lambda: model_and_tokenizer)
    tokenizer = model_and_tokenizer[1]
    first, *rest = blocks_of("README.md")
    run(first, names)
    assert names["result"].backend is not None
    # The class that is shown has a name of any length, which a random model does not end.
    names |= {
        "Employee": Person,
        "result": generate(model_and_tokenizer[0], "A user: ", Person),
        "websocket": Websocket(),
        "inputs": {**tokenizer("A user: ", return_tensors="pt"), "max_new_tokens": 60},
        "token_bytes": [b"", b"", b"", *(bytes([code]) for code in b"yesno,."), *[b""] * 121],
        "my_logits": lambda batch: torch.zeros(len(batch), 131),
        "logits": torch.zeros(1, 131),
        "token_id": ord('"'),
        "prompt_ids": [1, 2],
        "output_ids": [],
    }
    for block in rest:
        run(block, names)
    assert all(isinstance(user, Person) for user in [names["employee"], *names["users"], names["result"].value])
    assert names["websocket"].sent
    assert len(names["output_ids"]) == 1


def test_the_page_on_reasoning_runs(names: dict[str, Any]) -> None:
    vocabulary = names["vocabulary"]
    names["compiled"] = make_backend("trie", vocabulary).compile(regex("yes|no"))
    names["prompt_ids"] = vocabulary.encode("Is it? ")
    names["output_ids"] = [129, *vocabulary.encode("hm"), 130, *vocabulary.encode("yes"), 128]
    [block] = blocks_of("docs/reasoning.md")
    run(block, names)
    assert names["grammar"].accept(names["output_ids"]) == len(names["output_ids"])
    assert (names["split"].reasoning, names["split"].text, names["split"].end_index) == ("hm", "yes", 4)
    piece, rest = names["pieces"].feed(names["output_ids"]), names["pieces"].finish()
    assert (piece.reasoning + rest.reasoning, piece.text + rest.text) == ("hm", "yes")


def test_the_page_on_tools_runs(names: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    calling, tagged = blocks_of("docs/tools.md")
    run(calling.replace('{"name": "stop"}', '{"name": "stop", "parameters": {"maxProperties": 0}}'), names)
    assert capsys.readouterr().out.split()[0] in ("get_weather", "Search", "stop")
    run(tagged, names)
    grammar = make_backend("auto", names["vocabulary"]).compile(names["spec"]).start()
    for text, fits in (("on <date>2024-03-18</date>, <code>x</code>.", True), ("a < b", False)):
        ids = [*names["vocabulary"].encode(text), 128]
        assert (grammar.validate(ids) == len(ids)) == fits


def test_the_page_on_speculation_runs(names: dict[str, Any]) -> None:
    model, vocabulary = names["model"], names["vocabulary"]
    by_name, one_step = blocks_of("docs/speculative.md")
    source = TransformersSource(model)
    names |= {"source": source, "small": TransformersSource(model), "DraftModelProposer": DraftModelProposer}
    run(by_name, names)
    prompt, params = vocabulary.encode("no or yes: no or y"), SamplingParams(temperature=0.0)
    sampler = Sampler(vocabulary.size, num_slots=1)
    checked = sampler.resolve(params, stop_token_ids=vocabulary.stop_token_ids, tokenize=vocabulary.encode)
    sampler.add(0, params, seed=1, prompt_ids=prompt, output_ids=[], restrictions=checked)
    names |= {
        "guarded": GuardedProposer(NgramProposer(), vocabulary),
        "view": SequenceView(0, prompt),
        "grammar": make_backend("trie", vocabulary).compile(regex("es: n|no")).start(),
        "sampler": sampler,
        "params": params,
        "seed": 1,
        "num_output": 0,
        "bitmask": torch.zeros(9, vocabulary.num_mask_words, dtype=torch.int32),
        **{each.__name__: each for each in (DrawKey, Rows, RejectionSampler, SpecDecodeMetadata)},
        **{each.__name__: each for each in (fill_draft_bitmask, replace)},
    }
    run(one_step, names)
    assert names["draft"].token_ids == tuple(vocabulary.encode("es: n")), "what followed the y before"
    tokens = names["verified"].tokens[0, : int(names["verified"].num_accepted[0]) + 1].tolist()
    assert names["grammar"].validate(tokens) == len(tokens) >= 1
