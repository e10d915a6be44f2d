"""Philox against the known answers of its authors, and the keying."""

import numpy as np
import torch

from constrain.sampling.uniform import Purpose, gumbel_noise, philox4x32, uniforms, uniforms_on_device


def philox(counter: list[int], key: list[int]) -> list[str]:
    words = philox4x32(
        tuple(np.array([c], dtype=np.uint64) for c in counter),  # type: ignore[arg-type]
        tuple(np.array([k], dtype=np.uint64) for k in key),  # type: ignore[arg-type]
    )
    return [f"{int(word[0]):08x}" for word in words]


def test_known_answers_of_philox4x32_10() -> None:
    # The kat_vectors file of Random123.
    assert philox([0] * 4, [0] * 2) == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0]
    assert philox(*pi) == ["d16cfe09", "94fdcceb", "5001e420", "24126ea1"]


def test_a_number_depends_on_its_own_row_only() -> None:
    seeds, indices = [3, 2**64 - 1, 3, 0], [0, 5, 1, 2**33]
    together = uniforms(seeds, indices, Purpose.DRAW).tolist()
    alone = [uniforms([s], [i], Purpose.DRAW).item() for s, i in zip(seeds, indices, strict=True)]
    assert together == alone
    assert len(set(together)) == 4


def test_purposes_share_no_numbers() -> None:
    numbers = [uniforms([1] * 1000, range(1000), purpose).tolist() for purpose in Purpose]
    assert len({x for column in numbers for x in column}) == 4000


def test_numbers_are_uniform_in_the_half_open_interval() -> None:
    numbers = uniforms([9] * 100_000, range(100_000), Purpose.DRAW)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert abs(numbers.mean().item() - 0.5) < 0.005 and abs(numbers.var().item() - 1 / 12) < 0.002


def test_tensors_hold_the_same_numbers_bit_for_bit() -> None:
    seeds = [0, 1, 2**63 - 1, 2**63, 2**64 - 1, *range(7, 40)]
    indices = [0, 2**32 + 5, 3, 2**31, 2**40, *range(33)]
    signed = torch.tensor([seed - 2**64 if seed >= 2**63 else seed for seed in seeds])
    for purpose in Purpose:
        many = uniforms(seeds, indices, purpose)
        assert torch.equal(many, uniforms_on_device(signed, torch.tensor(indices), purpose))
        few = torch.cat([uniforms([seed], [index], purpose) for seed, index in zip(seeds, indices, strict=True)])
        assert torch.equal(many, few)


def test_noise_belongs_to_the_token_and_has_the_gumbel_distribution() -> None:
    seeds, indices = torch.tensor([3, 3, 4]), torch.tensor([8, 9, 8])
    tokens = torch.arange(50_000).expand(3, -1)
    noise = gumbel_noise(seeds, indices, tokens, Purpose.DRAW)
    picked = gumbel_noise(seeds[:1], indices[:1], torch.tensor([[49_999, 7, 123]]), Purpose.DRAW)
    assert torch.equal(picked[0], noise[0, [49_999, 7, 123]])
    assert not torch.isclose(noise[0], noise[1]).any(dim=0).all()
    ranks = torch.exp(-torch.exp(-noise.double())).sort(dim=1).values  # uniform, if the noise is Gumbel
    distance = (ranks - torch.linspace(0, 1, 50_000, dtype=torch.float64)).abs().amax(dim=1)
    assert bool((distance < 1.95 / 50_000**0.5).all())  # Kolmogorov-Smirnov: exceeded once in 1,000; fixed seeds
