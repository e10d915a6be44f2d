"""What is remembered of tokens: each is tried once for a key, and going back forgets what no longer holds."""

import numpy as np

from constrain.schema.known import _MAX_KEYS, Flags, Known, OpenString, Settled


def flags(text: str) -> Flags:
    return np.array([each == "1" for each in text])


def test_only_tokens_that_are_new_are_tried_and_refusals_add_up() -> None:
    known, asked = Known[Flags](), list[str]()

    def find(fresh: Flags) -> Flags | None:
        asked.append("".join("01"[int(each)] for each in fresh))
        found = fresh & flags("0110")
        return found if found.any() else None

    everything = flags("1111")
    assert known.refused("key", flags("1000"), everything, find) is None
    assert known.refused("key", flags("1000"), everything, find) is None
    for legal, refused in (("1100", "0100"), ("0111", "0110"), ("1111", "0110")):
        found = known.refused("key", flags(legal), everything, find)
        assert found is not None and (found == flags(refused)).all()
    assert asked == ["1000", "0100", "0011"]


def test_a_bounded_number_of_keys_is_kept_the_oldest_go_first() -> None:
    known, asked = Known[Flags](), list[int]()
    one = flags("1")
    for key in [*range(_MAX_KEYS + 1), _MAX_KEYS, 0]:
        known.refused(key, one, one, lambda _, key=key: asked.append(key))
    assert asked == [*range(_MAX_KEYS + 1), 0]


def test_a_string_is_forgotten_with_its_first_token_and_its_parts_with_theirs() -> None:
    string = OpenString(3, 5)
    string.ends(7, b"", 4).untried[:] = False
    string.settled = Settled(8, b"", b"", None)
    assert string.kept(8) is string and string.settled is not None
    assert string.kept(7) is string and string.settled is None
    assert not string.ends(9, b"", 4).untried.any()
    assert string.kept(6) is string and string.ends(6, b"", 4).untried.all()
    assert string.kept(4) is None
