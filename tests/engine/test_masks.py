"""Masks filled by several threads are those of one."""

import pytest

from constrain import Engine, Request, SamplingParams, regex
from constrain.engine.masks import MaskFiller
from tests.tiny import OPEN, A, B, ScriptedSource, tiny_vocabulary

PATTERNS = ["[ab]{3}1", "b{1,4}", "aé|b2", "1{7}|a"] * 4


def tokens_with(num_helpers: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    make = MaskFiller.__init__

    def with_helpers(self: MaskFiller, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        self._num_helpers = num_helpers

    with monkeypatch.context() as patch:
        patch.setattr(MaskFiller, "__init__", with_helpers)
        with Engine(ScriptedSource({A: [B] * 3, OPEN: [A] * 9}), tiny_vocabulary(), max_batch_size=16) as engine:
            for index, pattern in enumerate(PATTERNS):
                params = SamplingParams(temperature=1.0, seed=index, max_tokens=12)
                engine.add(Request(prompt_ids=[(A, OPEN)[index % 2]], constraint=regex(pattern), params=params))
            results = engine.run()
    assert all(result.ok for result in results)
    return [result.token_ids for result in results]


def test_any_number_of_threads_fills_the_same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = tokens_with(0, monkeypatch)
    assert tokens_with(1, monkeypatch) == alone and tokens_with(3, monkeypatch) == alone
