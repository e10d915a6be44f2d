"""A self-test: a vocabulary against the tokenizer that it was made from."""

import itertools
from collections.abc import Sequence, Set

from constrain.errors import VocabularyError
from constrain.token_readers import TokenReader

TEXTS = (
    "The quick brown fox jumps over the lazy dog, (the) 1,234.50 times; isn't it?",
    "Two  spaces,   three.\n\tTabs\r\n\r\nand lines.\n",
    '{"name": "Zoë \\"Z\\" O\'Neil", "ids": [1, -2.5e-10, null, true], "nested": {"a": {}, "b": []}}',
    "def f(x: int) -> str:\n    return f'{x!r:>10}'  # naïve café über façade\n",
    "Ελληνικά, русский язык, עברית, العربية, हिन्दी, ไทย, Việt Nam",
    "你好，世界。日本語のテキスト、かなとカナ。한국어 텍스트입니다. 𠮷野家 龘靐齉",
    "😀👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️‍🔥 ✈️",
    "".join(map(chr, range(32))) + "\x7f\x80\x9f\u00a0\u200b\u2028\ufeff\U0010ffff",
    "<0x41> <0x0A> ▁ ▁▁a Ġ Ċ âĢ",
    "ﷺ Ǆ ½ ™ ℌ Ａ",
)
"""Words, JSON, code, scripts, joined emoji, control characters, what looks like a spelling, compatibility forms."""


def check_vocabulary(
    token_bytes: Sequence[bytes], specials: Set[int], reader: TokenReader, texts: Sequence[str]
) -> None:
    """Raise ``VocabularyError`` unless the bytes say what the tokenizer says.

    Two ways: the ids of each text must give its bytes, wherever tokens cut a character; and each token that is whole
    characters must be what the tokenizer decodes it to.
    """
    theirs = reader.special_token_ids()
    if theirs - specials:
        raise VocabularyError(f"special tokens {sorted(theirs - specials)[:9]} are text in this vocabulary")
    pieces = reader.token_bytes()
    if len(pieces) > len(token_bytes):
        raise VocabularyError(f"the tokenizer has {len(pieces)} ids, this vocabulary {len(token_bytes)}")
    for text in texts:
        ids = reader.encode(text)
        if theirs.isdisjoint(ids):  # else it has no token for a character
            _check_text([token_bytes[i] for i in ids], ids, _as_written(reader, ids, text), text)
    in_use = [i for i, token in enumerate(token_bytes) if i not in specials and (token or any(pieces[i : i + 1]))]
    _check_tokens(token_bytes, in_use, reader)


def _as_written(reader: TokenReader, ids: Sequence[int], text: str) -> bytes:
    """The bytes that ``ids`` must give: of ``text``, or of what the tokenizer made of it (NFC, for example)."""
    decoded = reader.decode(ids)
    is_changed = decoded.lstrip(" ") != text.lstrip(" ") and "\ufffd" not in decoded
    return (decoded if is_changed else text).encode()


def _check_text(tokens: Sequence[bytes], ids: Sequence[int], wanted: bytes, text: str) -> None:
    # SentencePiece may put a space in front of a text, and drops it when decoding.
    written, wanted = b"".join(tokens), wanted.lstrip(b" ")
    shift = len(written) - len(written.lstrip(b" "))
    if b"" not in tokens and written[shift:] == wanted:
        return
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(written[shift:], wanted, strict=False))
    place = shift + sum(1 for _ in same)
    end = 0
    for token_id, token in zip(ids, tokens, strict=True):  # noqa: B007  # the first wrong one is named below
        end += len(token)
        if not token or end > place:
            break
    raise VocabularyError(
        f"token {token_id} adds {token!r} in this vocabulary, and the tokenizer needs other bytes there: "
        f"{wanted[max(0, place - shift - 8) : place - shift + 8]!r} in {text!r}"
    )


def _check_tokens(token_bytes: Sequence[bytes], token_ids: Sequence[int], reader: TokenReader) -> None:
    # Beside another token, since SentencePiece drops the space of the first one.
    anchor = reader.encode("a")[-1]
    before = reader.decode([anchor])
    for token_id in token_ids:
        try:
            text = token_bytes[token_id].decode()
        except UnicodeDecodeError:
            continue  # a part of a character shows in the texts
        decoded = reader.decode([anchor, token_id])
        if decoded != before + text:
            theirs = decoded.removeprefix(before)
            raise VocabularyError(f"token {token_id} is {text!r} in this vocabulary and {theirs!r} for the tokenizer")
