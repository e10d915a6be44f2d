"""The rules over several steps of one request: what one step decides tells nothing about the draws of the next."""

import itertools

import pytest
import torch

from constrain.sampling.uniform import Purpose, uniforms
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.spec.windows import window_seed, window_seeds

N, V, K, LENGTH = 60_000, 3, 3, 4
TARGET = torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7], [0.3, 0.4, 0.3]], dtype=torch.float64)  # by the token before
DRAFT = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.3, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)


def drafted(last: torch.Tensor, seeds: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
    """[N, K]: what the draft model draws behind ``last``, with the seeds of this window."""
    tokens = []
    for place in range(K):
        u = uniforms(seeds.numpy().astype("uint64"), (start + place).tolist(), Purpose.DRAFT)  # type: ignore[arg-type]
        last = (DRAFT[last].cumsum(1) <= u[:, None]).sum(1).clamp(max=V - 1)
        tokens.append(last)
    return torch.stack(tokens, dim=1)


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_the_tokens_of_several_steps_have_the_distribution_of_the_target(rule: str) -> None:
    sampler = RejectionSampler(rule)  # type: ignore[arg-type]
    seeds = torch.arange(N)
    output = torch.zeros(N, LENGTH + K + 1, dtype=torch.int64)
    lengths = torch.zeros(N, dtype=torch.int64)
    last = torch.zeros(N, dtype=torch.int64)
    while (lengths < LENGTH).any():
        draft = drafted(last, window_seeds(seeds, lengths), lengths)
        behind = torch.cat([last[:, None], draft], dim=1)  # the token before each row
        verified = sampler(
            SpecDecodeMetadata.make([K] * N, draft.flatten().tolist()),
            logits=TARGET.log()[behind].flatten(0, 1),
            draft=DRAFT[behind[:, :-1]].flatten(0, 1),
            seeds=seeds,
            output_indices=lengths,
        )
        for place in range(K + 1):
            taken = (place <= verified.num_accepted) & (lengths + place < output.shape[1])
            output[taken, (lengths + place)[taken]] = verified.tokens[taken, place]
        last = verified.tokens.gather(1, verified.num_accepted[:, None]).squeeze(1)
        done = lengths >= LENGTH
        lengths = torch.where(done, lengths, lengths + verified.num_accepted + 1)
    counts = torch.bincount(output[:, :LENGTH] @ (V ** torch.arange(LENGTH)), minlength=V**LENGTH)
    statistic = 0.0
    for text in itertools.product(range(V), repeat=LENGTH):
        chance = float(torch.stack([TARGET[a, b] for a, b in itertools.pairwise((0, *text))]).prod())
        seen = float(counts[sum(token * V**place for place, token in enumerate(text))])
        statistic += (seen - N * chance) ** 2 / (N * chance)
    # Chi-squared with 80 degrees of freedom: 124.8 is exceeded once in a thousand, 150 practically never.
    assert statistic < 150, statistic


def test_seeds_of_windows_differ_and_are_the_same_on_host_and_device() -> None:
    seeds = [0, 1, 2**63, 2**64 - 1]
    made = {window_seed(seed, index) for seed in seeds for index in (0, 1, 2, 2**40)}
    assert len(made) == 16 and not made.intersection(seeds) and all(0 <= each < 2**64 for each in made)
    signed = torch.tensor([seed - 2**64 if seed >= 2**63 else seed for seed in seeds])
    for index in (0, 7, 2**40):
        found = window_seeds(signed, torch.full((4,), index))
        assert [each % 2**64 for each in found.tolist()] == [window_seed(seed, index) for seed in seeds]
