"""Stop strings are found where a search of the whole output, byte by byte, finds them."""

import random

import pytest

from constrain.engine.stop_strings import StopStrings


def searched(tokens: list[bytes], texts: list[str], num_ignored: int) -> tuple[int, str, int] | None:
    """(tokens up to the end, stop string, bytes before it), from a look at every place of the text."""
    for count in range(num_ignored + 1, len(tokens) + 1):
        written, before = b"".join(tokens[:count]), len(b"".join(tokens[: count - 1]))
        matches = [
            (at, -len(text.encode()), text)
            for text in texts
            for at in range(len(written))
            if written.startswith(text.encode(), at) and at + len(text.encode()) > before
        ]
        if matches:
            at, _, text = min(matches)
            return count, text, at
    return None


@pytest.mark.parametrize("seed", range(200))
def test_the_first_stop_string_that_counts_is_found_also_behind_tokens_taken_back(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [b"", b"a", b"b", b"ab", b"\xc3", b"\xa9", b"\xc3\xa9a", b"ba\xc3", b"bb"]
    texts = list(dict.fromkeys("".join(rng.choices("abé", k=rng.randint(1, 4))) for _ in range(rng.randint(1, 3))))
    tokens, num_ignored = rng.choices(pieces, k=14), rng.choice([0, 0, 3, 6])
    stops = StopStrings(texts)
    astray = rng.choices(pieces, k=rng.randint(0, 5))
    for token in tokens[:num_ignored] + astray:
        stops.feed(token, counts=False)
    stops.cut(len(b"".join(tokens[:num_ignored])))
    found = None
    for count, token in enumerate(tokens[num_ignored:], start=num_ignored + 1):
        if found is None and (match := stops.feed(token)) is not None:
            found = (count, *match)
    assert found == searched(tokens, texts, num_ignored)
