"""Forced tokens against the canonical tokens of every text that can still be written."""

import random

import pytest

from constrain.backends import make_backend
from constrain.grammar_spec import choice
from constrain.vocabulary import Vocabulary

TOKENS = [b"", *(bytes([byte]) for byte in b'abcd": ,'), b"ab", b"abc", b"bc", b": ", b': "', b'",', b"cd", b"bcda"]
VOCABULARY = Vocabulary(TOKENS, stop_token_ids=[0])
BACKENDS = ["xgrammar", "llguidance", "trie"]


def ids(*tokens: bytes) -> list[int]:
    return [TOKENS.index(token) for token in tokens]


@pytest.mark.parametrize("backend", BACKENDS)
def test_forced_tokens_stop_where_the_next_text_could_merge(backend: str) -> None:
    compile_choice = make_backend(backend, VOCABULARY).compile
    assert compile_choice(choice(["dab", "dac"])).start().forced_tokens() == ids(b"d")  # "ab" may come
    assert compile_choice(choice(["dad", "daa"])).start().forced_tokens() == ids(b"d", b"a")  # nothing takes in the a
    assert compile_choice(choice(["dabc", "dab"])).start().forced_tokens() == ids(b"d")  # "ab" may end or become "abc"
    assert compile_choice(choice(['a: "b', "a: d"])).start().forced_tokens() == ids(b"a")
    assert compile_choice(choice(["dabc"])).start().forced_tokens() == ids(b"d", b"abc")  # nothing but the end follows


@pytest.mark.parametrize("backend", BACKENDS)
def test_forced_tokens_begin_the_canonical_tokens_of_every_text_to_come(backend: str) -> None:
    rng = random.Random(11)
    backend_of_tiny = make_backend(backend, VOCABULARY)
    num_forced = 0
    for _ in range(60):
        stem = "".join(rng.choices('abcd": ,', k=rng.randint(0, 5)))
        texts = sorted({stem + "".join(rng.choices('abcd": ,', k=rng.randint(0, 4))) for _ in range(3)} - {""})
        grammar = backend_of_tiny.compile(choice(texts)).start()
        written = b""
        for _ in range(4):
            forced = grammar.forced_tokens()
            num_forced += len(forced)
            ahead = [text.encode()[len(written) :] for text in texts if text.encode().startswith(written)]
            for rest in ahead:
                assert VOCABULARY.encode(rest.decode())[: len(forced)] == forced, (texts, written, forced)
            legal = [token for token in range(1, len(TOKENS)) if grammar.validate([token]) == 1]
            if not legal:
                break
            token = rng.choice(legal)
            assert grammar.accept([token]) == 1
            written += TOKENS[token]
    assert num_forced > 60
