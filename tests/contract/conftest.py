"""The vocabularies that the laws are checked on."""

import pytest

from constrain.vocabulary import Vocabulary

STOPS = (0, 3)
SPECIALS = (1, 2)
HOLE = 5


def make_tiny_vocabulary() -> Vocabulary:
    """A few dozen tokens that hold every trap.

    Two stop ids, specials whose spelling would be text, a hole, two ids with the same bytes, tokens of several bytes,
    one that splits a character, one that holds the end of a value and more, and logits wider by more than a word.
    """
    tokens = [b"</s>", b"abc", b"<think>", b"<end>", b"<think>", b""]  # ids 0 to 5; 4 is ordinary text
    tokens += [bytes([byte]) for byte in b'abcdenrtuls{}[]":, <>hik/019-.\\\n']
    tokens += [b"ab", b"aab", b"bc", b'{"', b'":', b'"}', b'", "', b"true", b"null", b"12", b"  ", b"a"]
    tokens += ["é".encode()[:1], "é".encode()[1:], "é".encode(), "日".encode(), "日本".encode()[:4], "😀".encode()]
    tokens += [b"\xed", b"\xa0", b"\x80", b"\xff", b"\x01"]
    return Vocabulary(
        tokens,
        stop_token_ids=STOPS,
        special_token_ids=SPECIALS,
        logits_width=len(tokens) + 75 - len(tokens) % 7,
        special_tokens={"<|call|>": 1, "<|end|>": 2, "</s>": 0},
    )


@pytest.fixture(scope="session")
def tiny_vocabulary() -> Vocabulary:
    return make_tiny_vocabulary()
