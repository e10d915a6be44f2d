"""Rejection and block verification: kernels, torch twins and a float64 oracle; the strict edges; exact frequencies."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.uniform import Purpose, gumbel_noise, uniforms_on_device
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops import block, padded, rejection
from constrain.spec.ops.compare import verify_by_drawing
from tests.spec.ops.oracle import Case, check, make_case

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # on the CPU, kernels are interpreted
RULES: dict[str, ModuleType] = {"rejection": rejection, "block": block}
KINDS = ["certain", "probabilities", "logits"]

Verify = Callable[..., tuple[torch.Tensor, torch.Tensor]]


def run(verify: Verify, case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    return verify(case.logits, case.draft, case.metadata, case.seeds, case.output_indices, case.draft_is_logits)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [33, 111, 32001])
def test_kernels_and_twins_equal_the_float64_oracle(rule: str, kind: str, width: int) -> None:
    pytest.importorskip("triton")
    compared = 0
    for seed in range(1 if width > 1000 else 3):
        counts = [[3, 0, 2, 1, 7], [0, 0], [5, 4]][seed]
        case = make_case(counts, width, kind, seed, closeness=[0.3, 0.5, 2.0][seed]).to(DEVICE)
        for verify in (RULES[rule]._verify_torch, RULES[rule]._verify_triton):
            tokens, num_accepted = run(verify, case)
            assert tokens.shape == (len(counts), max(counts) + 1) and tokens.dtype == torch.int64
            compared += check(case, tokens, num_accepted, rule)
    assert compared > 5


@pytest.mark.parametrize("rule", RULES)
def test_a_request_gets_the_same_alone_and_in_any_batch(rule: str) -> None:
    case = make_case([3, 0, 2, 5], 111, "probabilities", 1)
    assert case.draft is not None
    verify = RULES[rule]._verify_torch
    tokens, num_accepted = run(verify, case)
    for request, count in enumerate([3, 0, 2, 5]):
        first = sum([3, 0, 2, 5][:request])
        alone = Case(
            case.logits[first + request : first + request + count + 1],
            case.draft[first : first + count],
            False,
            SpecDecodeMetadata.make([count], case.metadata.draft_token_ids[first : first + count].tolist()),
            case.seeds[request : request + 1],
            case.output_indices[request : request + 1],
        )
        one, accepted = run(verify, alone)
        assert one[0].tolist() == tokens[request, : count + 1].tolist() and accepted[0] == num_accepted[request]


def test_rows_behind_a_refusal_are_not_looked_at() -> None:
    case = make_case([4, 4], 111, "probabilities", 3)
    assert case.draft is not None
    case.logits[0, case.metadata.draft_token_ids[0]] = float("-inf")
    tokens, num_accepted = run(rejection._verify_torch, case)
    assert num_accepted[0] == 0
    case.logits[2:5] = float("nan")
    for verify in (rejection._verify_torch, rejection._verify_triton):
        again, accepted = run(verify, case.to(DEVICE))
        assert again.tolist() == tokens.tolist() and accepted.tolist() == num_accepted.tolist()


@pytest.mark.parametrize("verify", [rejection._verify_torch, rejection._verify_triton])
def test_p_zero_and_q_zero_are_refused_and_p_equal_to_q_is_accepted(verify: Verify) -> None:
    batch = 40 if verify is rejection._verify_torch else 16
    logits = torch.tensor([[0.0, 0.0, float("-inf"), 0.0], [0.0] * 4]).repeat(batch, 1)
    cases = {  # the draft token, its distribution, and what follows
        "p = 0": (2, [0.0, 0.0, 1.0, 0.0], 0, {0, 1, 3}),
        "q = 0": (0, [0.0, 0.5, 0.5, 0.0], 0, {0, 3}),
        "p = q": (1, [1 / 3, 1 / 3, 0.0, 1 / 3], 1, {0, 1, 2, 3}),
        "p > q": (1, [0.5, 0.25, 0.0, 0.25], 1, {0, 1, 2, 3}),
    }
    for name, (token, q, accepted, support) in cases.items():
        case = Case(
            logits,
            torch.tensor([q]).repeat(batch, 1),
            False,
            SpecDecodeMetadata.make([1] * batch, [token] * batch),
            torch.arange(batch),
            torch.zeros(batch, dtype=torch.int64),
        ).to(DEVICE)
        tokens, num_accepted = run(verify, case)
        assert set(num_accepted.tolist()) == {accepted}, name
        assert set(tokens[:, accepted].tolist()) == support, name


@pytest.mark.parametrize(
    ("u", "p", "q", "accepted"),
    [
        (0.0, 0.0, 0.5, False),  # u = 0 does not save a token that the target forbids
        (0.0, 0.5, 0.0, False),  # nor one that cannot have been drawn
        (0.0, 0.5, 1.0, True),
        (0.5, 0.5, 1.0, False),  # strictly below p / q
        (0.5 - 2.0**-53, 0.5, 1.0, True),
        (1 - 2.0**-53, 0.5, 0.5, True),
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_the_edges_are_strict(
    monkeypatch: pytest.MonkeyPatch, rule: str, u: float, p: float, q: float, accepted: bool
) -> None:
    monkeypatch.setattr(
        RULES[rule], "uniforms_on_device", lambda seeds, *_: torch.full(seeds.shape, u, dtype=torch.float64)
    )
    logits = torch.tensor([[p, 1 - p], [0.5, 0.5]]).log()
    zero = torch.zeros(1, dtype=torch.int64)
    case = Case(logits, torch.tensor([[q, 1 - q]]), False, SpecDecodeMetadata.make([1], [0]), zero, zero)
    assert bool(run(RULES[rule]._verify_torch, case)[1]) is accepted


@pytest.mark.parametrize("rule", RULES)
def test_the_kernels_recover_where_rounding_leaves_no_residual(rule: str) -> None:
    # The draft gives every token at least what the target gives it, as float32 rounding can make it seem.
    logits = torch.full((2, 600), float("-inf"))
    logits[:, [5, 590]] = 0.0
    draft = torch.full((1, 600), 1.0)
    case = Case(logits, draft, False, SpecDecodeMetadata.make([1], [5]), torch.zeros(1).long(), torch.zeros(1).long())
    seen = set()
    for seed in range(6):
        case.seeds[0] = seed
        for verify in (RULES[rule]._verify_torch, RULES[rule]._verify_triton):
            tokens, num_accepted = run(verify, case.to(DEVICE))
            if num_accepted == 0:
                seen.add(int(tokens[0, 0]))
    assert seen == {5, 590}


def test_rows_without_a_token_give_none() -> None:
    logits = torch.full((2, 70), float("-inf"))
    metadata = SpecDecodeMetadata.make([1], [3])
    zero = torch.zeros(1, dtype=torch.int64)
    for rule in RULES.values():
        for verify in (rule._verify_torch, rule._verify_triton):
            case = Case(logits, None, False, metadata, zero, zero).to(DEVICE)
            tokens, num_accepted = run(verify, case)
            assert num_accepted.tolist() == [0] and tokens.tolist() == [[-1, -1]]


@pytest.mark.parametrize("broken", ["logits", "draft", "seeds"])
def test_shapes_that_do_not_fit_are_refused(broken: str) -> None:
    case = make_case([2, 1], 33, "probabilities", 0)
    assert case.draft is not None
    arguments: dict[str, Any] = {"logits": case.logits, "draft": case.draft, "seeds": case.seeds}
    arguments[broken] = arguments[broken][1:]
    for verify in (rejection.verify_by_rejection, block.verify_by_block):
        with pytest.raises(InvalidInputError):
            verify(
                arguments["logits"], arguments["draft"], case.metadata, arguments["seeds"], case.output_indices
            )  # fmt: skip


def critical(degrees: int, z: float = 3.72) -> float:
    """What chi-square exceeds once in 10,000 times (Wilson and Hilferty)."""
    return degrees * (1 - 2 / (9 * degrees) + z * (2 / (9 * degrees)) ** 0.5) ** 3


@pytest.mark.parametrize(
    "kind", ["draw", "gumbel", "certain-draw", "rejection", "certain-rejection", "block", "certain-block"]
)
def test_a_million_verified_tokens_have_the_joint_distribution_of_the_target(kind: str) -> None:
    """Two draft tokens and one more, each row's distribution depending on the token before it; what a step leaves out
    is drawn from the target, as later steps would."""
    n, width, rule = 450_000, 5, kind.removeprefix("certain-")
    generator = torch.Generator().manual_seed(17)
    target = [torch.randn(width, width, generator=generator) for _ in range(3)]  # [token before, token]
    target[1][:, 2] = float("-inf")
    models = [torch.softmax(each + 0.7 * torch.randn(width, width, generator=generator), dim=1) for each in target]
    if kind.startswith("certain"):
        models = [torch.nn.functional.one_hot(each.argmax(dim=1), width).float() for each in models]
    first = torch.multinomial(models[0][:1].expand(n, -1), 1, generator=generator)
    second = torch.multinomial(models[1][first[:, 0]], 1, generator=generator)
    drafts = torch.cat([first, second], dim=1)
    if rule == "gumbel":
        ids = torch.arange(width).expand(n, -1)
        noise = torch.stack(
            [gumbel_noise(torch.arange(n), torch.full((n,), 9 + place), ids, Purpose.DRAW) for place in range(3)], dim=1
        )
        first = (models[0][0].log() + noise[:, 0]).argmax(dim=1)
        drafts = torch.stack([first, (models[1][first].log() + noise[:, 1]).argmax(dim=1)], dim=1)
    before = torch.cat([torch.zeros(n, 1, dtype=torch.int64), drafts], dim=1)
    logits = torch.stack([target[place][before[:, place]] for place in range(3)], dim=1).reshape(3 * n, width)
    q = torch.stack([models[place][before[:, place]] for place in range(2)], dim=1).reshape(2 * n, width)
    metadata = SpecDecodeMetadata.make(np.full(n, 2), drafts.flatten().numpy())
    seeds, indices = torch.arange(n), torch.full((n,), 9)
    if rule == "gumbel":
        drawn = (logits.view(n, 3, width) + noise).argmax(dim=2).flatten()
        tokens, num_accepted = verify_by_drawing(drawn, metadata)
        assert num_accepted.double().mean() > 1.0, "a shared noise makes most drafts agree"
    elif rule == "draw":
        places = indices[:, None] + torch.arange(3)
        u = uniforms_on_device(seeds[:, None].expand(n, 3), places, Purpose.DRAW).flatten()
        tokens, num_accepted = verify_by_drawing(padded.draw_from_weights(logits.double().exp(), u), metadata)
    else:
        draft = None if kind.startswith("certain") else q
        tokens, num_accepted = run(RULES[rule]._verify_torch, Case(logits, draft, False, metadata, seeds, indices))
    assert (num_accepted + 1).sum() > (1_000_000 if rule in RULES and not kind.startswith("certain") else 500_000)
    full = tokens.clone()
    for place in range(1, 3):
        more = torch.multinomial(torch.softmax(target[place], dim=1)[full[:, place - 1]], 1, generator=generator)
        full[:, place] = torch.where(full[:, place] < 0, more[:, 0], full[:, place])
    p = [torch.softmax(each.double(), dim=1) for each in target]
    exact = (p[0][0][:, None, None] * p[1][:, :, None] * p[2][None, :, :]).flatten()
    counts = torch.bincount((full * torch.tensor([width * width, width, 1])).sum(dim=1), minlength=width**3)
    assert not counts[exact == 0].any()
    cells = exact > 0
    chi_square = float(((counts[cells] - n * exact[cells]) ** 2 / (n * exact[cells])).sum())
    assert chi_square < critical(int(cells.sum()) - 1), chi_square


def test_block_verification_accepts_at_least_as_much_as_the_textbook_rule() -> None:
    cases = [make_case([4] * 200, 33, "probabilities", seed, closeness=1.0) for seed in range(3)]
    by_rule = {name: sum(int(run(rule._verify_torch, c)[1].sum()) for c in cases) for name, rule in RULES.items()}
    assert by_rule["block"] > by_rule["rejection"] > 400
