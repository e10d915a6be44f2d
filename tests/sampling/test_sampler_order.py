"""Every row comes out as one row alone does in float64, in the one order of processing, drafts or not."""

import random
from collections.abc import Sequence

import pytest
import torch

from constrain.sampling.params import SamplingParams
from constrain.sampling.processors import LogitsProcessor, RowView
from constrain.sampling.sampler import RowStatus, Sampler
from tests.sampling.order_oracle import MINUS_INFINITY, Wanted, distribution, is_drawn, legal_ids, uniform_of
from tests.sampling.requests import STOPS, Running, drawn, masks, random_fields, rows_of, spelled, start

WIDE = 90  # logits are wider than the vocabulary


class Mover(LogitsProcessor):
    """Takes 3 from the token that was written last, and lifts token 5, also where it is forbidden."""

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        return slot % 2 == 0

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        for values, row in zip(logits, rows, strict=True):
            written = row.written_ids
            assert len(row.draft_ids) == row.offset
            if written:
                values[written[-1]] -= 3
            values[5] = 4
        return logits


class Keeper(LogitsProcessor):
    """Halves every logit, which the maximum of 0 survives, and returns another tensor."""

    keeps_argmax = True

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        return slot % 3 == 0

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        assert not any(row.params.is_greedy for row in rows)
        return logits / 2


def mover(values: list[float], output: list[int]) -> list[float]:
    """What ``Mover`` does."""
    changed = list(values)
    if output:
        changed[output[-1]] -= 3
    changed[5] = 4.0
    return changed


def random_batch(rng: random.Random, vocab_size: int, *, drafts: bool) -> list[Running]:
    ids = list(range(vocab_size))
    requests = []
    for slot in rng.sample(range(8), 6):
        # A small alphabet, so that words repeat: stops, letters of the bad words, and others.
        few = [2, 3, 5, *spelled("abc"), *spelled(" a"), *rng.sample(ids, 4)]
        requests.append(
            Running(
                slot,
                SamplingParams(**random_fields(rng, vocab_size)),
                seed=rng.getrandbits(64),
                prompt=rng.choices(few, k=rng.randint(1, 6)),
                output=rng.choices(few, k=rng.randint(0, 6)),
                drafts=rng.choices(few, k=rng.randint(0, 4)) if drafts else [],
                grammar=rng.choice([None, None, set(rng.sample(ids, 20)), {2, 3}]),
            )
        )
    return requests


def as_wanted(request: Running, *, custom: bool) -> Wanted:
    params = request.params
    bad: list[tuple[int, ...]] = []
    for word in params.bad_words:
        bad += [tuple(spelled(word)), tuple(spelled(" " + word))]
    return Wanted(
        *(params.temperature, params.top_k, params.top_p, params.min_p),
        *(params.repetition_penalty, params.presence_penalty, params.frequency_penalty),
        min_tokens=params.min_tokens,
        ends=(*STOPS, *params.stop_token_ids),
        bias=dict(params.logit_bias) if params.logit_bias else None,
        allowed=tuple(params.allowed_token_ids) if params.allowed_token_ids is not None else None,
        bad=tuple(bad),
        mover=mover if custom and request.slot % 2 == 0 else None,
        keeper=(lambda values, _: [value / 2 for value in values]) if custom and request.slot % 3 == 0 else None,
    )


@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_every_row_agrees_with_one_row_alone_in_float64(seed: int, custom: bool) -> None:
    rng = random.Random(seed)
    vocab_size = rng.choice([64, 77, 90])
    sampler = Sampler(vocab_size, 8, processors=[Keeper(), Mover()] if custom else [])
    requests = random_batch(rng, vocab_size, drafts=True)
    start(sampler, requests)
    rows = rows_of(requests)
    # Eighths, so that there are ties.
    logits = (torch.randn(len(rows), WIDE, generator=torch.Generator().manual_seed(seed)) * 16).round() / 8
    before = logits.clone()
    bitmask, yielded = masks(sampler, requests, WIDE)
    sampled = sampler.sample(logits, rows, bitmask)
    processed = sampler.process(logits, rows, bitmask)
    assert torch.equal(logits, before) and not sampled.errors
    row = 0
    for request in requests:
        for offset in range(len(request.drafts) + 1):
            output = request.output + request.drafts[:offset]
            wanted = as_wanted(request, custom=custom)
            grammar = request.grammar if request.grammar is not None else set(range(vocab_size))
            legal, has_yielded = legal_ids(wanted, grammar, output)
            assert yielded[row] == has_yielded
            if not legal:
                assert sampled.status[row] == RowStatus.EMPTY
            else:
                values = logits[row, :vocab_size].tolist()
                _, expected = distribution(wanted, values, legal, request.prompt, output)
                assert sampled.status[row] == RowStatus.OK
                token = int(sampled.tokens[row])
                assert expected[token] > MINUS_INFINITY
                if request.params.draw == "inverse" and not request.params.is_greedy:
                    assert is_drawn(token, expected, uniform_of(request.seed, len(output))), (request, offset)
                shares = torch.softmax(torch.tensor(expected, dtype=torch.float64), 0)
                torch.testing.assert_close(
                    torch.softmax(processed[row].double(), 0), shares, atol=1e-6, rtol=0, msg=str((request, offset))
                )
            row += 1


@pytest.mark.parametrize("seed", range(6))
def test_a_row_behind_drafts_is_the_row_of_a_request_that_committed_them_bit_for_bit(seed: int) -> None:
    rng = random.Random(100 + seed)
    sampler = Sampler(90, 8, processors=[Keeper(), Mover()] if seed % 2 else [])
    requests = random_batch(rng, 90, drafts=True)
    start(sampler, requests)
    rows = rows_of(requests)
    logits = torch.randn(len(rows), WIDE, generator=torch.Generator().manual_seed(seed)) * 2
    bitmask, yielded = masks(sampler, requests, WIDE)
    together, processed = sampler.sample(logits, rows, bitmask), sampler.process(logits, rows, bitmask)
    row = 0
    for request in requests:
        drafts, request.drafts = request.drafts, []
        for offset in range(len(drafts) + 1):
            if offset:
                request.output.append(drafts[offset - 1])
                sampler.commit([request.slot], [[drafts[offset - 1]]])
            alone = rows_of([request])
            mask, has_yielded = masks(sampler, [request], WIDE)
            one = logits[row : row + 1]
            assert torch.equal(mask[0], bitmask[row]) and has_yielded == [yielded[row]]
            assert torch.equal(sampler.process(one, alone, mask)[0], processed[row])
            sampled = sampler.sample(one, alone, mask)
            assert sampled.status[0] == together.status[row]
            assert sampled.tokens[0] == together.tokens[row] or together.status[row] != RowStatus.OK
            row += 1


def test_committing_and_rewinding_leaves_the_same_draws() -> None:
    sampler = Sampler(90, 2)
    request = Running(1, SamplingParams(frequency_penalty=1.5, repetition_penalty=1.3, seed=3), output=[5, 6])
    start(sampler, [request])
    logits = torch.randn(1, 90, generator=torch.Generator().manual_seed(0))
    before = sampler.process(logits, rows_of([request]))
    sampler.commit([1], [[7, 5, 7]])
    assert not torch.equal(sampler.process(logits, rows_of([request])), before)
    sampler.rewind(1, [7, 5, 7])
    assert torch.equal(sampler.process(logits, rows_of([request])), before)


@pytest.mark.parametrize("custom", [False, True])
def test_a_request_does_not_depend_on_its_batch_or_its_slot(custom: bool) -> None:
    rng = random.Random(9)
    made = [Keeper(), Mover()] if custom else []
    requests = random_batch(rng, 90, drafts=True)
    sampler = Sampler(90, 8, processors=made)
    start(sampler, requests)
    logits = torch.randn(len(rows_of(requests)), WIDE, generator=torch.Generator().manual_seed(1)) * 2
    together = drawn(sampler, requests, logits)
    row = 0
    for request in requests:
        alone = Sampler(90, 50, processors=made)
        request.slot += 42  # another slot of the same remainders by 2 and 3
        start(alone, [request])
        count = len(request.drafts) + 1
        sampled = drawn(alone, [request], logits[row : row + count])
        assert torch.equal(sampled.status, together.status[row : row + count])
        ok = sampled.status == RowStatus.OK
        assert torch.equal(sampled.tokens[ok], together.tokens[row : row + count][ok])
        row += count
