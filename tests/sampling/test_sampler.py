"""One token and one status a row, whatever stands beside it."""

import torch

from constrain.sampling.params import SamplingParams
from constrain.sampling.sampler import RowStatus, sample

GREEDY = SamplingParams(temperature=0)


def statuses(logits: torch.Tensor, params: SamplingParams) -> list[int]:
    n = len(logits)
    return sample(logits, [params] * n, [1] * n, [0] * n)[1].tolist()


def test_greedy_takes_the_lowest_id_of_a_tie() -> None:
    logits = torch.zeros(3, 1000)
    logits[1, [70, 900]] = 2.0
    logits[2, 999] = 0.1
    assert sample(logits, [GREEDY] * 3, [0] * 3, [0] * 3)[0].tolist() == [0, 70, 999]


def test_the_status_says_what_is_wrong_with_a_row() -> None:
    for params in (GREEDY, SamplingParams(), SamplingParams(top_k=2), SamplingParams(top_p=0.5)):
        logits = torch.randn(5, 700)
        logits[1] = float("-inf")
        logits[2, 600] = float("nan")
        logits[3, 5] = float("inf")
        logits[4, :-1] = float("-inf")
        expected = [RowStatus.OK, RowStatus.EMPTY, RowStatus.NOT_FINITE, RowStatus.NOT_FINITE, RowStatus.OK]
        assert statuses(logits, params) == expected


def test_a_row_does_not_depend_on_its_batch() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(64, 3000, generator=generator) * 3
    params = [
        SamplingParams(temperature=(row % 4) * 0.5, top_k=[0, 5, 50][row % 3], top_p=[1.0, 0.9][row % 2])
        for row in range(64)
    ]
    seeds, indices = list(range(64)), [row * 3 for row in range(64)]
    together = sample(logits.clone(), params, seeds, indices)[0].tolist()
    for size in (1, 8):
        for start in range(0, 64, size):
            part = slice(start, start + size)
            alone = sample(logits[part].clone(), params[part], seeds[part], indices[part])[0].tolist()
            assert alone == together[part]


def test_huge_logits_and_temperatures_do_not_overflow() -> None:
    lowest = torch.finfo(torch.float32).min
    logits = torch.full((1, 97), float("-inf"))
    logits[0, [33, 34]] = lowest  # what some models give to all that they forbid
    for temperature in (1e-5, 0.7, 1e30):
        tokens, status = sample(logits.clone(), [SamplingParams(temperature=temperature)], [1], [0])
        assert (tokens.item() in (33, 34), status.item()) == (True, RowStatus.OK)
    logits = torch.zeros(1, 97)
    logits[0, [5, 7]] = 1e35
    drawn = {sample(logits.clone(), [SamplingParams(temperature=1e-4)], [1], [i])[0].item() for i in range(40)}
    assert drawn == {5, 7}


def test_masked_tokens_are_never_drawn() -> None:
    logits = torch.full((500, 600), float("-inf"))
    logits[:, [3, 555]] = torch.tensor([1.0, 1.5])
    tokens = sample(logits, [SamplingParams(temperature=3.0)] * 500, [4] * 500, range(500))[0]
    assert set(tokens.tolist()) == {3, 555}
