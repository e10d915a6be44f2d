"""Tools in a batch, in a stream, under samplers and behind rollback, on a model of random logits."""

import asyncio
import zlib
from typing import Any, Literal

import pytest
import torch

from constrain import Vocabulary, agenerate, generate, stream
from constrain.backends import make_backend
from constrain.tools import FORMATS, ToolOutput, Tools
from tests.tools.test_tools import VOCABULARIES

VOCABULARY = VOCABULARIES["special"]
PROMPT = [65]


def paint(colour: Literal["red", "blue"], coats: Literal[1, 2, 3]) -> None:
    """Paint something."""


STOP = {"name": "stop"}


def random_logits(rows: list[list[int]]) -> torch.Tensor:
    """Logits that depend on the tokens so far alone, with a liking for special tokens and line ends."""
    found = []
    for row in rows:
        generator = torch.Generator().manual_seed(zlib.crc32(repr(row).encode()))
        logits = 3 * torch.randn(VOCABULARY.logits_width, generator=generator)
        logits[256:] += 4
        found.append(logits)
    return torch.stack(found)


def constraints() -> list[Tools]:
    choices = ["auto", "required", "paint", "stop"]
    return [Tools([paint, STOP], format=name, choice=choice) for name in FORMATS for choice in choices]


def is_right(tools: Tools, value: Any) -> bool:
    calls = value.calls if isinstance(value, ToolOutput) else value
    assert isinstance(value, ToolOutput) == (tools.choice == "auto")
    assert calls or tools.choice == "auto"
    for call in calls:
        assert tools.choice in ("auto", "required", call.name)
        if call.name == "paint":
            assert call.arguments["colour"] in ("red", "blue") and call.arguments["coats"] in (1, 2, 3)
        else:
            assert call.arguments == {}
    return bool(calls)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.0}, {"temperature": 1.5, "top_k": 5}, {"top_p": 0.8}])
def test_every_output_of_a_batch_is_text_and_valid_calls(sampling: dict[str, Any]) -> None:
    asked = constraints()
    results = generate(
        random_logits,
        [[*PROMPT, n] for n in range(len(asked))],
        constraints=asked,
        vocabulary=VOCABULARY,
        seed=3,
        max_tokens=700,
        **sampling,
    )
    called = 0
    for tools, result in zip(asked, results, strict=True):
        if result.finish_reason != "length":  # free text and lists of calls have no bound
            called += is_right(tools, result.unwrap())
    assert called >= len(asked) // 2


def test_a_request_gives_the_same_calls_alone_streamed_and_awaited() -> None:
    for tools in constraints()[1::4]:
        options: dict[str, Any] = {"vocabulary": VOCABULARY, "seed": 5, "max_tokens": 700, "temperature": 0.8}
        alone = generate(random_logits, PROMPT, tools, **options)
        with stream(random_logits, PROMPT, tools, **options) as events:
            ids = [token for event in events for token in event.token_ids]
        awaited = asyncio.run(agenerate(random_logits, PROMPT, tools, **options))
        assert alone.token_ids == tuple(ids) == events.result().token_ids == awaited.token_ids
        assert alone.value == events.result().value == awaited.value
        if alone.ok:
            assert list(tools.split(ids, VOCABULARY).calls) == alone.value


@pytest.mark.parametrize("backend", ["llguidance", "xgrammar"])
def test_rollback_at_any_point_goes_back_into_and_out_of_calls(backend: str) -> None:
    for tools in constraints()[0::4]:
        compiled = make_backend(backend, VOCABULARY).compile(tools.grammar_spec)
        grammar = compiled.start()
        result = generate(random_logits, PROMPT, tools, vocabulary=VOCABULARY, backend=backend, seed=1, max_tokens=150)
        ids = list(result.token_ids)
        masks = []
        for token in ids:
            masks.append(_mask(grammar, VOCABULARY))
            assert grammar.accept([token]) == 1
        for back in range(1, len(ids) + 1, 7):
            grammar.rollback(back)
            assert torch.equal(_mask(grammar, VOCABULARY), masks[len(ids) - back])
            assert grammar.accept(ids[-back:]) == back


def _mask(grammar: Any, vocabulary: Vocabulary) -> torch.Tensor:
    mask = torch.zeros(1, vocabulary.num_mask_words, dtype=torch.int32)
    grammar.fill_bitmask(mask, 0)
    return mask
