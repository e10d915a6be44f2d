"""One call for every rule; the rules themselves are tested in ``ops``."""

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.spec.metadata import SpecDecodeMetadata
from constrain.spec.ops import block, compare, rejection
from constrain.spec.rejection_sampler import RejectionSampler
from constrain.spec.synthetic import conditional_rates, rates_of_length
from constrain.spec.windows import window_seeds
from tests.spec.ops.oracle import make_case

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_verify_by_drawing_takes_the_drawn_tokens_up_to_the_first_that_differs() -> None:
    metadata = SpecDecodeMetadata.make([3, 0, 2, 1], [5, 6, 7, 8, 9, 4])
    drawn = torch.tensor([5, 6, 1, 2, 3, 8, 9, 11, 0, 4])
    verified = RejectionSampler()(metadata, drawn=drawn)
    assert verified.tokens.tolist() == [[5, 6, 1, -1], [3, -1, -1, -1], [8, 9, 11, -1], [0, -1, -1, -1]]
    assert verified.num_accepted.tolist() == [2, 0, 2, 0]
    assert RejectionSampler()(SpecDecodeMetadata.make([0], []), drawn=torch.tensor([7])).tokens.tolist() == [[7]]


def test_the_output_of_verify_by_drawing_does_not_depend_on_the_draft() -> None:
    generator = torch.Generator().manual_seed(1)
    script = torch.randint(0, 3, (40,), generator=generator)  # what the target draws at each output index
    for _ in range(20):
        output: list[int] = []
        while len(output) < 30:
            count = int(torch.randint(0, 5, (1,), generator=generator))
            draft = torch.randint(0, 3, (count,), generator=generator).tolist()
            drawn = script[len(output) : len(output) + count + 1]
            verified = RejectionSampler()(SpecDecodeMetadata.make([count], draft), drawn=drawn)
            # Behind a wrong draft token the rows would be those of another text; none of them is taken.
            output += [token for token in verified.tokens[0].tolist() if token >= 0]
        assert output[:30] == script[:30].tolist()


def test_the_compare_kernel_is_its_torch_twin() -> None:
    pytest.importorskip("triton")
    generator = torch.Generator().manual_seed(3)
    for _ in range(20):
        counts = torch.randint(0, 5, (5,), generator=generator).tolist()
        drafts = torch.randint(0, 2, (sum(counts),), generator=generator).tolist()
        metadata = SpecDecodeMetadata.make(counts, drafts, device=DEVICE)
        drawn = torch.randint(0, 2, (metadata.num_rows,), generator=generator).to(DEVICE)
        ours, twin = compare._verify_triton(drawn, metadata), compare._verify_torch(drawn, metadata)
        assert torch.equal(ours[0], twin[0]) and torch.equal(ours[1], twin[1])


def test_greedy_requests_are_verified_by_drawing_whatever_the_rule() -> None:
    case = make_case([3, 2, 4], 33, "probabilities", 2)
    drawn = case.logits.argmax(dim=1)
    greedy = torch.tensor([False, True, False])
    by_drawing = RejectionSampler()(case.metadata, drawn=drawn)
    for rule, module in (("rejection", rejection), ("block", block)):
        seeds = case.seeds if rule == "rejection" else window_seeds(case.seeds, case.output_indices)
        plain, _ = module._verify_torch(
            case.logits, case.draft, case.metadata, seeds, case.output_indices, case.draft_is_logits
        )
        sampler = RejectionSampler(rule)  # type: ignore[arg-type]
        assert sampler.needs_distributions
        verified = sampler(
            case.metadata,
            drawn=drawn,
            logits=case.logits,
            draft=case.draft,
            seeds=case.seeds,
            output_indices=case.output_indices,
            greedy=greedy,
        )
        assert verified.tokens.tolist() == [plain[0].tolist(), by_drawing.tokens[1].tolist(), plain[2].tolist()]


def test_synthetic_rates_are_met_and_refused_tokens_are_the_targets_own() -> None:
    n, rates = 20_000, [0.9, 0.6, 0.0]
    metadata = SpecDecodeMetadata.make([3] * n, [1] * 3 * n)
    drawn = torch.full((metadata.num_rows,), 2)
    sampler = RejectionSampler("synthetic", synthetic_rates=rates)
    verified = sampler(metadata, drawn=drawn, seeds=torch.arange(n), output_indices=torch.zeros(n).long())
    for place, rate in enumerate(rates):
        assert (verified.num_accepted > place).double().mean().item() == pytest.approx(rate, abs=0.015)
    last = verified.tokens.gather(1, verified.num_accepted[:, None])
    assert (last == 2).all() and set(verified.tokens.unique().tolist()) == {-1, 1, 2}


def test_rates_are_made_of_a_mean_length_and_become_conditional() -> None:
    assert rates_of_length(3.25, 5) == [1.0, 1.0, 0.25, 0.0, 0.0]
    assert rates_of_length(1, 2) == [0.0, 0.0] and rates_of_length(3, 2) == [1.0, 1.0]
    assert conditional_rates([0.8, 0.4, 0.0, 0.0]) == [0.8, 0.5, 0.0, 0.0]
    for wrong in ([0.5, 0.6], [1.1], [-0.1]):
        with pytest.raises(InvalidInputError):
            conditional_rates(wrong)
    for length in (0.5, 3.5):
        with pytest.raises(InvalidInputError):
            rates_of_length(length, 2)


def test_what_a_rule_lacks_is_named() -> None:
    metadata = SpecDecodeMetadata.make([1], [0])
    with pytest.raises(InvalidInputError, match="needs drawn="):
        RejectionSampler()(metadata)
    with pytest.raises(InvalidInputError, match="needs seeds="):
        RejectionSampler("rejection")(metadata, logits=torch.zeros(2, 4))
    with pytest.raises(InvalidInputError, match="rule='best'"):
        RejectionSampler("best")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError):
        RejectionSampler("synthetic")
    with pytest.raises(InvalidInputError, match=r"want int64 \[2\]"):
        RejectionSampler()(metadata, drawn=torch.zeros(3).long())
