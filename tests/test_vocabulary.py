"""Token bytes, ids that are no text, and widths."""

from typing import Any

import pytest

from constrain import Vocabulary, VocabularyError
from tests.tiny import AB, EOS, ONE, PAD, A, B, tiny_vocabulary

TEXTS = [
    "plain text",
    "héllo — wörld",
    "你好，世界",
    "👨‍👩‍👧 emoji",
    "\x00\x01\x7f\t\r\n",
    '{"a": [1, 2.5e-3, "\\u0041"]}',
    "  two  spaces",
]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"token_bytes": [], "stop_token_ids": [0]}, "empty"),
        ({"token_bytes": [b"a"], "stop_token_ids": []}, "stop"),
        ({"token_bytes": [b"a"], "stop_token_ids": [1]}, r"\[1\]"),
        ({"token_bytes": ["a"], "stop_token_ids": [0]}, "encode"),
        ({"token_bytes": [b"a"], "stop_token_ids": 0}, "collections"),
        ({"token_bytes": [b"a"], "stop_token_ids": [0], "special_token_ids": [-1]}, r"\[-1\]"),
        ({"token_bytes": [b"a", b"b"], "stop_token_ids": [0], "logits_width": 1}, "another model"),
    ],
)
def test_contradictions_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(**arguments)


def test_stop_and_special_tokens_are_no_text() -> None:
    vocabulary = Vocabulary([b"<pad>", b"</s>", b"a"], stop_token_ids=[1], special_token_ids=[0])
    assert vocabulary.token_bytes == (b"", b"", b"a")
    assert vocabulary.special_token_ids == {0, 1}
    assert vocabulary.decode([2, 0, 1, 2, 99]) == b"aa"


def test_mask_words_cover_the_logits_and_not_only_the_tokens() -> None:
    assert (tiny_vocabulary().size, tiny_vocabulary().num_mask_words) == (12, 2)
    assert tiny_vocabulary(logits_width=None).num_mask_words == 1


def test_without_a_tokenizer_encode_is_the_greedy_longest_match() -> None:
    assert tiny_vocabulary().encode("abab1a") == [AB, AB, ONE, A]
    with pytest.raises(VocabularyError, match="0x78 at offset 1"):
        tiny_vocabulary().encode("ax")


def test_the_fingerprint_tells_vocabularies_apart() -> None:
    same, wider = tiny_vocabulary(), tiny_vocabulary(logits_width=64)
    moved = Vocabulary([b"a", b"b", b""], stop_token_ids=[2])
    swapped = Vocabulary([b"b", b"a", b""], stop_token_ids=[2])
    joined = Vocabulary([b"ab", b"", b""], stop_token_ids=[2])
    assert same.fingerprint == tiny_vocabulary().fingerprint
    assert len({v.fingerprint for v in (same, wider, moved, swapped, joined)}) == 5
    assert (PAD, EOS, B) == (0, 1, 3)


@pytest.mark.model
@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_bpe_round_trips_through_bytes(smollm2_vocabulary: Vocabulary, text: str) -> None:
    assert smollm2_vocabulary.decode(smollm2_vocabulary.encode(text)) == text.encode()


@pytest.mark.model
def test_smollm2_has_all_its_special_tokens(smollm2: tuple[Any, Any]) -> None:
    model, tokenizer = smollm2
    vocabulary = Vocabulary.from_tokenizer(tokenizer, model=model)
    assert vocabulary.logits_width == model.config.vocab_size == vocabulary.size == 49152
    assert vocabulary.stop_token_ids == (2,)
    assert vocabulary.special_token_ids == set(range(17))


def sentencepiece_tokenizer() -> Any:
    """A real ``tokenizers`` BPE with byte fallback, as Llama 2 and Mistral have it."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "▁a", "é", "▁▁", "<0x41"]
    vocab = {piece: i for i, piece in enumerate(pieces)}
    bpe = models.BPE(vocab, [("▁", "a"), ("▁", "▁")], unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(piece, special=True) for piece in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([AddedToken("<tool>", special=False, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>", bos_token="<s>", unk_token="<unk>")


@pytest.mark.parametrize("text", TEXTS)
def test_sentencepiece_with_byte_fallback_round_trips_through_bytes(text: str) -> None:
    vocabulary = Vocabulary.from_tokenizer(sentencepiece_tokenizer(), logits_width=320)
    assert vocabulary.decode(vocabulary.encode(text)) == text.encode()


def test_sentencepiece_pieces_become_their_bytes() -> None:
    vocabulary = Vocabulary.from_tokenizer(sentencepiece_tokenizer(), logits_width=320)
    assert vocabulary.stop_token_ids == (2,) and vocabulary.special_token_ids == {0, 1, 2}
    assert vocabulary.token_bytes[3:259] == tuple(bytes([byte]) for byte in range(256))
    assert vocabulary.token_bytes[259:] == (b" ", b"a", b" a", "é".encode(), b"  ", b"<0x41", b"<tool>")
    assert (vocabulary.size, vocabulary.num_mask_words) == (266, 10)


def test_marked_ids_are_special_and_a_narrow_model_is_refused() -> None:
    tokenizer = sentencepiece_tokenizer()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, special_token_ids=[265], stop_token_ids=[2, 1])
    assert 265 in vocabulary.special_token_ids and vocabulary.stop_token_ids == (1, 2)
    with pytest.raises(VocabularyError, match="266 tokens and the model only 200"):
        Vocabulary.from_tokenizer(tokenizer, logits_width=200)


def test_ranks_and_special_tokens_make_a_vocabulary_with_holes() -> None:
    vocabulary = Vocabulary.from_ranks({b"a": 1, b"b": 0, b"ab": 4}, {"<eos>": 6}, stop_token_ids=[6], logits_width=9)
    assert vocabulary.token_bytes == (b"b", b"a", b"", b"", b"ab", b"", b"") and vocabulary.special_token_ids == {6}
    assert vocabulary.encode("aab") == [1, 4] and vocabulary.logits_width == 9
    for special in ({"<eos>": 1}, {"<eos>": -1}):
        with pytest.raises(VocabularyError, match="share ids"):
            Vocabulary.from_ranks({b"a": 1}, special, stop_token_ids=[1])


def test_what_is_no_tokenizer_is_refused() -> None:
    with pytest.raises(VocabularyError, match="cannot read the tokens of object"):
        Vocabulary.from_tokenizer(object())


def test_a_tokenizer_of_another_kind_is_refused() -> None:
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    wordpiece = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    wordpiece.decoder = decoders.WordPiece()
    with pytest.raises(VocabularyError, match="WordPiece"):
        Vocabulary.from_tokenizer(PreTrainedTokenizerFast(tokenizer_object=wordpiece, eos_token="[UNK]"))


def test_named_special_tokens_are_special_and_keep_their_names() -> None:
    vocabulary = Vocabulary([b"</s>", b"<think>", b"a"], stop_token_ids=[0], special_tokens={"<think>": 1})
    assert vocabulary.special_tokens == {"<think>": 1}
    assert vocabulary.special_token_ids == {0, 1} and vocabulary.token_bytes[1] == b""
    ranked = Vocabulary.from_ranks({b"a": 0}, {"</s>": 1, "<pad>": 2}, stop_token_ids=[1])
    assert ranked.special_tokens == {"</s>": 1, "<pad>": 2} and ranked.special_token_ids == {1, 2}


def test_the_names_of_special_tokens_come_from_the_tokenizer(smollm2: tuple[Any, Any]) -> None:
    vocabulary = Vocabulary.from_tokenizer(smollm2[1])
    assert vocabulary.special_tokens["<|im_start|>"] == 1 and vocabulary.special_tokens["<|im_end|>"] == 2
    assert set(vocabulary.special_tokens.values()) == vocabulary.special_token_ids
