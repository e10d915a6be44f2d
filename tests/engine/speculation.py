"""Requests of every kind on a source whose logits follow from the text alone, and proposers good and bad."""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from constrain import Engine, GenerationResult, Request, SamplingParams, choice, regex
from constrain.grammar import Grammar
from constrain.reasoning import Reasoning, ReasoningFormat
from constrain.sampling.processors import LogitsProcessor, RowView
from constrain.source import LogitsSource, SequenceView
from constrain.spec import Draft, DrawKey, Proposer
from tests.reasoning.tiny import STOPS, compiled, ids, vocabulary
from tests.sampling.requests import random_fields

V, WIDTH = vocabulary().size, vocabulary().logits_width
TEXT_IDS = ids("a", "b", "c", "1", "2", " ", "ab", "[", "]")
THINKING = ReasoningFormat(start="<b>", end="</b>", after_end="\n\n")
CONSTRAINTS = [
    None,
    choice(["[1]", "[12]", "x", "ab ab ab ab"]),
    regex(r"\[[12]{1,9}\]"),
    regex(r"aaaa(?:[abc]|\[[12]+\]){2,12}bbbb"),
    regex(r"(?:ab|ba|c c){1,9}"),
]


class TextSource(LogitsSource):
    """Logits by the prompt's first token and the last two of the text: the same text goes on in the same way, so texts
    repeat themselves. Another ``salt`` is another model, and ``near`` mixes some of another one in.
    """

    def __init__(self, salt: int = 0, *, near: float = 0.0, max_length: int | None = None) -> None:
        def table(seed: int) -> torch.Tensor:
            generator = torch.Generator().manual_seed(seed)
            logits = torch.randn(512, WIDTH, generator=generator) * 2
            logits[:, TEXT_IDS] += 2
            return logits

        self._table = table(salt) + near * table(salt + 1)
        self._max_length = max_length
        self.num_calls = 0
        self.held: set[int] = set()

    @property
    def logits_width(self) -> int:
        return WIDTH

    @property
    def max_length(self) -> int | None:
        return self._max_length

    def row(self, token_ids: Sequence[int]) -> torch.Tensor:
        before = token_ids[-2] if len(token_ids) > 1 else 0
        return self._table[self.index(token_ids[0], before, token_ids[-1])]

    def __call__(self, views: Sequence[SequenceView]) -> torch.Tensor:
        self.num_calls += 1
        found = []
        for view in views:
            assert self._max_length is None or len(view.token_ids) <= self._max_length
            self.held.add(view.slot)
            tokens = list(view.token_ids)
            for end in range(len(tokens) - view.num_logits + 1, len(tokens) + 1):
                found.append(self.index(tokens[0], tokens[end - 2] if end > 1 else 0, tokens[end - 1]))
        return self._table[found]

    def index(self, first: int, before: int, last: int) -> int:
        return (first * 131 + before * 31 + last * 7) % len(self._table)

    def release(self, slot: int) -> None:
        self.held.discard(slot)


class Halver(LogitsProcessor):
    """Halves the logits where asked; the maximum of 0 survives."""

    keeps_argmax = True
    extra_fields = frozenset({"halve"})

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        return bool((params.extra or {}).get("halve"))

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        return logits / 2


def no_repeat(output_ids: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
    """Takes 3 from the token that was written last: sees drafts as output."""
    if output_ids:
        logits[output_ids[-1]] -= 3
    return logits


def random_request(rng: random.Random, index: int, **fixed: Any) -> Request:
    """A request of any kind; the length of its prompt is its index, so that no other has its prompt."""
    fields = random_fields(rng, V) | {
        "seed": rng.getrandbits(64),
        "max_tokens": rng.choice([5, 12, 24, 24]),
        "stop": rng.choice([(), (), ("ab", "c 1"), ("2",)]),
        "stop_token_ids": rng.choice([(), (), (TEXT_IDS[5],)]),
        "ignore_eos": rng.random() < 0.2,
        "logprobs": rng.choice([None, None, 0, 3, -1]),
        "logprob_token_ids": rng.choice([(), (), (4, 20)]),
        "logprobs_mode": rng.choice(["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"]),
        "prompt_logprobs": rng.choice([None, None, None, 1]),
        "bad_words": rng.choice([(), (), ("c", "aab"), ("aa", "12")]),
        "extra": rng.choice([None, {"halve": True}, {"logits_processors": [no_repeat]}]),
    }
    constraint = rng.choice(CONSTRAINTS)
    reasoning = None
    if rng.random() < 0.3:
        reasoning = Reasoning(parser=THINKING, budget=rng.choice([None, 0, 3, 6]), required=rng.random() < 0.5)
    if constraint is not None or reasoning is not None:
        # What would end the text early is refused; what forbids much makes dead ends of most of these constraints.
        fields |= {"stop": (), "stop_token_ids": (), "ignore_eos": False, "allowed_token_ids": None}
        fields["max_tokens"] = 40
        if rng.random() < 0.7:
            fields |= {"bad_words": (), "logit_bias": {4: -2.0, 20: 1.5}}
    fields |= fixed
    fields["min_tokens"] = min(fields["min_tokens"], fields["max_tokens"])
    prompt = rng.choices(TEXT_IDS, k=3 + index)
    return Request(
        prompt_ids=prompt,
        constraint=None if constraint is None else compiled(constraint),
        decode=str,
        reasoning=reasoning,
        params=SamplingParams(**fields),
    )


def run(requests: Sequence[Request], *, source: LogitsSource | None = None, **options: Any) -> list[GenerationResult]:
    """Their results in order."""
    options = {"processors": [Halver()], "backend": "trie", "max_batch_size": len(requests)} | options
    with Engine(source or TextSource(), vocabulary(), **options) as engine:
        for request in requests:
            engine.add(request)
        results = engine.run()
        assert isinstance(source, TextSource) is False or not source.held  # type: ignore[union-attr]
    return results


def said(result: GenerationResult) -> tuple[Any, ...]:
    """All that a result says of its output, and nothing of how it came about."""
    return (
        *(result.token_ids, result.text, result.finish_reason, result.stop_reason, result.value, result.reasoning),
        *(result.content_start, result.logprobs, result.prompt_logprobs, result.min_tokens_yielded),
        *(result.num_backtracks, result.seed, type(result.error), str(result.error)),
    )


class Written(Proposer):
    """Drafts what ``write(prompt and output, length)`` says; keeps the slots that it was asked for and not told off."""

    def __init__(self, write: Callable[[Sequence[int], int], Sequence[int]]) -> None:
        self._write = write
        self.held: set[int] = set()

    def propose(
        self,
        views: Sequence[SequenceView],
        grammars: Sequence[Grammar | None],
        lengths: Sequence[int],
        keys: Sequence[DrawKey],
    ) -> list[Draft]:
        self.held.update(view.slot for view in views)
        return [Draft(tuple(self._write(view.token_ids, length))) for view, length in zip(views, lengths, strict=True)]

    def release(self, slot: int) -> None:
        self.held.discard(slot)


def knowing(outputs: Mapping[tuple[int, ...], Sequence[int]], *, wrong_every: int = 0) -> Written:
    """Drafts the output that each prompt is known to have; every so many tokens, another."""

    def write(token_ids: Sequence[int], length: int) -> list[int]:
        ids = tuple(token_ids)
        for prompt, output in outputs.items():
            if ids[: len(prompt)] == prompt and ids[len(prompt) :] == tuple(output[: len(ids) - len(prompt)]):
                start = len(ids) - len(prompt)
                draft = list(output[start : start + length])
                for place in range(len(draft)):
                    if wrong_every and (start + place) % wrong_every == wrong_every - 1:
                        draft[place] = TEXT_IDS[(start + place) % len(TEXT_IDS)]
                return draft
        return []

    return Written(write)


def bad_proposers() -> dict[str, Proposer]:
    """None of these is of any use."""
    rng = random.Random(0)
    return {
        "illegal": Written(lambda _, length: [STOPS[0] + 2] * length),
        "minus one": Written(lambda _, length: [TEXT_IDS[0], -1, TEXT_IDS[1]]),
        "past the vocabulary": Written(lambda _, length: [TEXT_IDS[0], V + 5]),
        "far past the logits": Written(lambda _, length: [2**40]),
        "stop tokens": Written(lambda _, length: [STOPS[0]] * length),
        "a stop token behind text": Written(lambda token_ids, length: [token_ids[-1], STOPS[1], token_ids[-1]]),
        "too long": Written(lambda token_ids, length: rng.choices(TEXT_IDS, k=length + 50)),
        "any": Written(lambda _, length: [rng.randrange(V) for _ in range(rng.randint(0, length))]),
        "not ids": Written(lambda _, length: ["a"] if length % 2 else [1.5]),  # type: ignore[list-item]
    }
