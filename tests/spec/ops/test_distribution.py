"""What each rule gives has the distribution that it promises, counted over a million verified tokens."""

from dataclasses import dataclass

import pytest
import torch

from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms_on_device
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops import padded
from constrain.spec.ops.block import verify_by_block
from constrain.spec.ops.compare import verify_by_drawing
from constrain.spec.ops.rejection import verify_by_rejection
from constrain.spec.synthetic import conditional_rates, verify_synthetically

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, INDEX = 5, 9
RULES = ["draw", "gumbel", "certain-draw", "rejection", "certain-rejection", "block", "certain-block"]
N = 800_000  # requests of two drafts: more than a million tokens by every rule


@pytest.mark.parametrize("kind", RULES)
def test_a_million_verified_tokens_have_the_joint_distribution_of_the_target(kind: str) -> None:
    assert follow_the_target(kind, N) > 1_000_000


def test_synthetic_verification_has_the_rates_and_tokens_asked_for() -> None:
    generator = torch.Generator(DEVICE).manual_seed(5)
    rates = [0.7, 0.4, 0.1]
    p = torch.tensor([0.4, 0.3, 0.2, 0.1], device=DEVICE)
    drawn = torch.multinomial(p, 4 * N, replacement=True, generator=generator)
    metadata = SpecDecodeMetadata.make([3] * N, [9] * 3 * N, device=DEVICE)
    conditional = torch.tensor(conditional_rates(rates), dtype=torch.float64, device=DEVICE)
    seeds = torch.arange(N, device=DEVICE)
    tokens, num_accepted = verify_synthetically(conditional, drawn, metadata, seeds, torch.full_like(seeds, INDEX))
    assert int((num_accepted + 1).sum()) > 2 * N
    places = torch.arange(4, device=DEVICE)
    assert torch.equal(tokens == 9, places < num_accepted[:, None])
    assert torch.equal(tokens < 0, places > num_accepted[:, None])
    lengths = torch.tensor([1.0, *rates], device=DEVICE) - torch.tensor([*rates, 0.0], device=DEVICE)
    last = tokens.gather(1, num_accepted[:, None])[:, 0]
    check_counts(num_accepted * 4 + last, (lengths[:, None] * p).flatten().double())


def follow_the_target(kind: str, n: int) -> int:
    """Two draft tokens and one more, each row's distribution depending on the token before it; what a step leaves out
    is drawn from the target, as later steps would. How many tokens were verified."""
    generator = torch.Generator(DEVICE).manual_seed(17)
    target = models_of_places(torch.Generator().manual_seed(17))
    step = make_step(kind, n, target, generator)
    tokens, num_accepted = verified(kind.removeprefix("certain-"), step)
    full = tokens.clone()
    for place in range(1, 3):
        more = torch.multinomial(torch.softmax(target[place], dim=1)[full[:, place - 1]], 1, generator=generator)
        full[:, place] = torch.where(full[:, place] < 0, more[:, 0], full[:, place])
    p = [torch.softmax(each.double(), dim=1) for each in target]
    exact = (p[0][0][:, None, None] * p[1][:, :, None] * p[2][None, :, :]).flatten()
    check_counts((full * torch.tensor([WIDTH * WIDTH, WIDTH, 1], device=DEVICE)).sum(dim=1), exact)
    if kind == "gumbel":
        assert num_accepted.double().mean() > 1.0, "a shared noise makes most drafts agree"
    return int((num_accepted + 1).sum())


def models_of_places(generator: torch.Generator) -> list[torch.Tensor]:
    """The target's logits [token before, token] at each place; one token is forbidden at the second."""
    target = [torch.randn(WIDTH, WIDTH, generator=generator) for _ in range(3)]
    target[1][:, 2] = float("-inf")
    return [each.to(DEVICE) for each in target]


@dataclass
class Step:
    logits: torch.Tensor  # [3 n, WIDTH]
    draft: torch.Tensor | None  # [2 n, WIDTH]
    noise: torch.Tensor | None  # [n, 3, WIDTH]
    metadata: SpecDecodeMetadata
    seeds: torch.Tensor  # [n]
    output_indices: torch.Tensor  # [n]


def make_step(kind: str, n: int, target: list[torch.Tensor], generator: torch.Generator) -> Step:
    """``n`` requests with two tokens each of a draft model that is near the target."""
    device = torch.device(DEVICE)
    models = [
        torch.softmax(each + 0.7 * torch.randn(WIDTH, WIDTH, generator=generator, device=device), dim=1)
        for each in target
    ]
    if kind.startswith("certain"):
        models = [torch.nn.functional.one_hot(each.argmax(dim=1), WIDTH).float() for each in models]
    seeds, indices, noise = torch.arange(n, device=device), torch.full((n,), INDEX, device=device), None
    if kind == "gumbel":
        ids = torch.arange(WIDTH, device=device).expand(n, -1)
        noise = torch.stack([gumbel_noise(seeds, indices + place, ids, Purpose.DRAW) for place in range(3)], dim=1)
        first = (models[0][0].log() + noise[:, 0]).argmax(dim=1)
        second = (models[1][first].log() + noise[:, 1]).argmax(dim=1)
    else:
        first = torch.multinomial(models[0][:1].expand(n, -1), 1, generator=generator)[:, 0]
        second = torch.multinomial(models[1][first], 1, generator=generator)[:, 0]
    drafts = torch.stack([first, second], dim=1)
    before = torch.cat([torch.zeros(n, 1, dtype=torch.int64, device=device), drafts], dim=1)
    logits = torch.stack([target[place][before[:, place]] for place in range(3)], dim=1).reshape(3 * n, WIDTH)
    draft = torch.stack([models[place][before[:, place]] for place in range(2)], dim=1).reshape(2 * n, WIDTH)
    metadata = SpecDecodeMetadata.make([2] * n, drafts.flatten().cpu().numpy(), device=device)
    return Step(logits, None if kind.startswith("certain") else draft, noise, metadata, seeds, indices)


def verified(rule: str, step: Step) -> tuple[torch.Tensor, torch.Tensor]:
    if rule == "gumbel":
        assert step.noise is not None
        drawn = (step.logits.view_as(step.noise) + step.noise).argmax(dim=2).flatten()
        return verify_by_drawing(drawn, step.metadata)
    if rule == "draw":
        places = step.output_indices[:, None] + torch.arange(3, device=DEVICE)
        u = uniforms_on_device(step.seeds[:, None].expand_as(places), places, Purpose.DRAW).flatten()
        return verify_by_drawing(padded.draw_from_weights(step.logits.double().exp(), u), step.metadata)
    verify = verify_by_rejection if rule == "rejection" else verify_by_block
    return verify(step.logits, step.draft, step.metadata, step.seeds, step.output_indices)


def check_counts(cells: torch.Tensor, exact: torch.Tensor) -> None:
    """Fails where the counts of ``cells`` are not those of probabilities ``exact``, by chi-square."""
    counts = torch.bincount(cells, minlength=len(exact))
    assert len(counts) == len(exact) and not counts[exact == 0].any()
    expected = len(cells) * exact[exact > 0]
    chi_square = float(((counts[exact > 0] - expected) ** 2 / expected).sum())
    degrees = len(expected) - 1
    # Exceeded once in 10,000 times (Wilson and Hilferty).
    critical = degrees * (1 - 2 / (9 * degrees) + 3.72 * (2 / (9 * degrees)) ** 0.5) ** 3
    assert chi_square < critical, (chi_square, degrees)
