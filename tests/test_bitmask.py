"""Mask memory."""

import pytest
import torch

from constrain import InvalidInputError, TokenBitmask, Vocabulary
from constrain.bitmask import fill_free_row


def vocabulary(size: int, width: int) -> Vocabulary:
    return Vocabulary([b"x"] * size, stop_token_ids=[0], logits_width=width)


@pytest.mark.parametrize(("size", "width"), [(1, 1), (31, 32), (32, 32), (33, 64), (40, 200), (64, 65)])
def test_a_free_row_sets_the_vocabulary_and_nothing_past_it(size: int, width: int) -> None:
    mask = torch.full((3, (width + 31) // 32), 0x5A5A5A5A, dtype=torch.int32)
    fill_free_row(mask, 1, vocabulary(size, width))
    bits = [mask[1, i // 32].item() >> (i % 32) & 1 for i in range(mask.shape[1] * 32)]
    assert bits == [1] * size + [0] * (len(bits) - size)
    assert (mask[[0, 2]] == 0x5A5A5A5A).all()


def test_on_the_cpu_upload_is_the_buffer_itself() -> None:
    bitmask = TokenBitmask(4, vocabulary(40, 40))
    host = bitmask.next_buffer()
    host[:2] = 7
    assert host.shape == (4, 2) and host.dtype == torch.int32
    assert bitmask.upload(2).tolist() == [[7, 7], [7, 7]]
    with pytest.raises(InvalidInputError):
        bitmask.upload(5)
    with pytest.raises(InvalidInputError):
        TokenBitmask(0, vocabulary(40, 40))
