"""Rejection and block verification: kernels, torch twins and a float64 oracle; the strict edges."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops import block, rejection
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


@pytest.mark.parametrize("name", ["_verify_torch", "_verify_triton"])
@pytest.mark.parametrize("rule", RULES)
def test_a_request_gets_the_same_alone_and_in_any_batch(rule: str, name: str) -> None:
    counts = [3, 0, 2, 5]
    case = make_case(counts, 1100, "probabilities", 1)
    assert case.draft is not None
    verify = getattr(RULES[rule], name)
    tokens, num_accepted = run(verify, case.to(DEVICE))
    for request, count in enumerate(counts):
        first = sum(counts[:request])
        alone = Case(
            case.logits[first + request : first + request + count + 1],
            case.draft[first : first + count],
            False,
            SpecDecodeMetadata.make([count], case.metadata.draft_token_ids[first : first + count].tolist()),
            case.seeds[request : request + 1],
            case.output_indices[request : request + 1],
        )
        one, accepted = run(verify, alone.to(DEVICE))
        assert one[0].tolist() == tokens[request, : count + 1].tolist() and accepted[0] == num_accepted[request]


@pytest.mark.parametrize("rule", RULES)
def test_the_kernels_leave_their_counters_as_they_found_them(rule: str) -> None:
    counters = torch.zeros(100, dtype=torch.int32, device=DEVICE)
    for kind in KINDS:
        case = make_case([3, 0, 2], 600, kind, 4).to(DEVICE)
        arguments = (case.logits, case.draft, case.metadata, case.seeds, case.output_indices, case.draft_is_logits)
        once = RULES[rule]._verify_triton(*arguments, counters)
        again = RULES[rule]._verify_triton(*arguments, counters)
        assert not counters.any() and torch.equal(once[0], again[0]) and torch.equal(once[1], again[1])


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


def test_block_verification_accepts_at_least_as_much_as_the_textbook_rule() -> None:
    cases = [make_case([4] * 200, 33, "probabilities", seed, closeness=1.0) for seed in range(3)]
    by_rule = {name: sum(int(run(rule._verify_torch, c)[1].sum()) for c in cases) for name, rule in RULES.items()}
    assert by_rule["block"] > by_rule["rejection"] > 400
