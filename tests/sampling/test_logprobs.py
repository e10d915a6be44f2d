"""Results of a row, as the caller sees them."""

import torch

from constrain.sampling.logprobs import TokenLogprobs, to_host
from constrain.sampling.ops.logprobs import row_logprobs


def test_each_row_shows_what_its_request_wants() -> None:
    logits = torch.tensor([[0.5, 2.0, 2.0, -1.0], [float("-inf"), 0.25, 1.0, 0.75]])
    tokens = torch.tensor([2, 0])
    extra = torch.tensor([[3, 0], [1, -1]])
    result = row_logprobs(logits, tokens, top_n=3, extra_ids=extra, as_logits=True)
    shown = to_host(result, tokens, top_counts=[1, -1], given_ids=[[3, 0], [1]])
    assert shown == [
        TokenLogprobs(2, 2.0, 2, ((1, 2.0, 1),), ((3, -1.0), (0, 0.5))),
        TokenLogprobs(0, float("-inf"), 4, ((2, 1.0, 1), (3, 0.75, 2), (1, 0.25, 3)), ((1, 0.25),)),
    ]
    assert shown[1].top[0].token_id == 2 and isinstance(shown[0].token_id, int)


def test_without_wishes_everything_there_is_is_shown() -> None:
    logits = torch.zeros(3, 5)
    tokens = torch.tensor([0, 1, 2])
    shown = to_host(row_logprobs(logits, tokens, top_n=2), tokens)
    assert [(each.token_id, each.rank, [token for token, _, _ in each.top]) for each in shown] == [
        (0, 5, [0, 1]), (1, 5, [0, 1]), (2, 5, [0, 1]),
    ]  # fmt: skip
    assert all(abs(each.logprob + torch.tensor(5.0).log().item()) < 1e-6 for each in shown)
    assert to_host(row_logprobs(logits[:0], tokens[:0]), tokens[:0]) == []
