"""The self-test finds wrong mappings, and nothing wrong in right ones."""

from collections.abc import Callable
from typing import Any

import pytest

from constrain import Vocabulary, VocabularyError
from tests.test_vocabulary import sentencepiece_tokenizer


def byte_level_tokenizer(normalizer: Any = None) -> Any:
    """A real byte-level BPE: 256 bytes, a few merges, a special token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = pre_tokenizers.ByteLevel.alphabet()
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ð", "¸")]
    pieces = [*sorted(letters), *(left + right for left, right in merges)]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<eos>", special=True, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")


Tokens = list[bytes]


def swap_two(tokens: Tokens) -> None:
    the, space_the = tokens.index(b"the"), tokens.index(b" the")
    tokens[the], tokens[space_the] = tokens[space_the], tokens[the]


def swap_two_that_no_text_has(tokens: Tokens) -> None:
    # "^" and "`" are in no text of the corpus.
    one, other = tokens.index(b"^"), tokens.index(b"\\")
    tokens[one], tokens[other] = tokens[other], tokens[one]


def lose_one(tokens: Tokens) -> None:
    tokens[tokens.index(b"the")] = b""


def lose_a_part_of_a_character(tokens: Tokens) -> None:
    tokens[tokens.index(b"\xe2")] = b""


def swap_parts_of_characters(tokens: Tokens) -> None:
    one, other = tokens.index(b"\x9f"), tokens.index(b"\x98")
    tokens[one], tokens[other] = tokens[other], tokens[one]


def spell_spaces_as_they_are_shown(tokens: Tokens) -> None:
    for i, token in enumerate(tokens):
        tokens[i] = token.replace(b" ", "Ġ".encode())


def shift_by_one(tokens: Tokens) -> None:
    tokens.insert(0, tokens.pop())


def forget_the_last(tokens: Tokens) -> None:
    del tokens[-2]


CORRUPTIONS: list[tuple[Callable[[Tokens], None], str]] = [
    (swap_two, r"token \d+ adds b'.*the'"),
    (swap_two_that_no_text_has, r"token \d+"),
    (lose_one, r"token \d+ adds b''"),
    (lose_a_part_of_a_character, r"token \d+ adds b''"),
    (swap_parts_of_characters, r"token \d+ adds b'\\x9[f8]'"),
    (spell_spaces_as_they_are_shown, r"token \d+ adds b'\\xc4\\xa0"),
    (shift_by_one, "token"),
    (forget_the_last, "261 ids, this vocabulary 260|special tokens"),
]


@pytest.mark.parametrize(("corrupt", "message"), CORRUPTIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_wrong_mapping_is_found_and_the_token_named(corrupt: Callable[[Tokens], None], message: str) -> None:
    tokenizer = byte_level_tokenizer()
    right = Vocabulary.from_tokenizer(tokenizer)
    tokens = list(right.token_bytes)
    corrupt(tokens)
    wrong = Vocabulary(tokens, stop_token_ids=[len(tokens) - 1])
    right.check(tokenizer)
    with pytest.raises(VocabularyError, match=message):
        wrong.check(tokenizer)


def test_a_special_token_taken_for_text_is_found() -> None:
    tokenizer = sentencepiece_tokenizer()
    right = Vocabulary.from_tokenizer(tokenizer)
    tokens = [b"<unk>", b"<s>", b"</s>", *right.token_bytes[3:]]
    with pytest.raises(VocabularyError, match=r"special tokens \[0, 1\] are text"):
        Vocabulary(tokens, stop_token_ids=[2]).check(tokenizer)


def test_a_text_token_taken_for_special_is_found() -> None:
    tokenizer = byte_level_tokenizer()
    right = Vocabulary.from_tokenizer(tokenizer)
    the = right.token_bytes.index(b"the")
    wrong = Vocabulary(right.token_bytes, stop_token_ids=[260], special_token_ids=[the])
    with pytest.raises(VocabularyError, match=f"token {the} adds b''"):
        wrong.check(tokenizer)


def test_a_right_mapping_passes_whatever_the_tokenizer_does_to_texts() -> None:
    from tokenizers import normalizers

    for tokenizer in (sentencepiece_tokenizer(), byte_level_tokenizer(normalizers.NFKC())):
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        vocabulary.check(tokenizer)
        vocabulary.check(tokenizer, ["ｆｕｌｌ ﬁ", " a", "", "é e\u0301"])


def test_more_texts_can_be_given() -> None:
    tokenizer = byte_level_tokenizer()
    tokens = list(Vocabulary.from_tokenizer(tokenizer).token_bytes)
    one, other = tokens.index(b"\xf5"), tokens.index(b"\xc0")  # never in UTF-8: no text can show it
    tokens[one], tokens[other] = tokens[other], tokens[one]
    Vocabulary(tokens, stop_token_ids=[260]).check(tokenizer, [])


def test_encode_gives_back_the_text_even_where_the_tokenizer_changes_it() -> None:
    from tokenizers import normalizers

    vocabulary = Vocabulary.from_tokenizer(byte_level_tokenizer(normalizers.NFC()))
    for text in ("the the", "e\u0301", "\u212b and \u1f71", ""):
        assert vocabulary.decode(vocabulary.encode(text)) == text.encode()
    assert len(vocabulary.encode(" the")) == 1


@pytest.mark.model
def test_the_packaged_tokenizer_passes(smollm2: tuple[Any, Any]) -> None:
    model, tokenizer = smollm2
    Vocabulary.from_tokenizer(tokenizer, model=model).check(tokenizer)
