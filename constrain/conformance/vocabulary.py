"""The vocabularies that a run can use."""

from constrain.errors import InvalidInputError
from constrain.vocabulary import Vocabulary

STOP, PAD = 256, 257

_STRUCTURE = [
    '{"', '": ', '":', ", ", '", "', '","', '": "', '"}', '"]', '["', "[]", "{}", "}}", "]}", "}]", "},", "],", "}, {",
    '"},{"', '": {', '": {"', '": [', '": ["', '""', '":"', "[[", "]]", ": ", " {", ' "', "\n", "\n  ", "  ", "    ",
    "\\\"", "\\\\", "\\u", "\\u00", "\\n", '\\"', "true", "false", "null", "true}", "null,", "tru", "als", '"$ref',
    "-1", "-0", ".0", ".5", "0.", "1.0", "1e", "e+", "E-", "00", "0x", "10", "12", "99", "100", "2020", "--", "::",
    "http", "://", "www.", ".com", "@", "/", "//", "a/b", "foo", "bar", "baz", "foo\"", "\"foo\"", "quux", "name",
    "type", "id", "key", "value", "the", "ing", "er", "on", "an", "in", "st", "tion", "ab", "abc", "aa", "aaa", "xx",
    "Z\"", "é", "ß", "ü", "日", "本", "😀", "☃", "\u2028", "\u00a0", " the", " a",
]  # fmt: skip


def builtin_vocabulary() -> Vocabulary:
    """Every byte, and a hundred longer tokens across JSON's boundaries, words and UTF-8; needs no model.

    Small, so that a run over thousands of schemas takes minutes; tokens such as ``": {"`` and ``"},{"`` and halves of
    characters are there, since that is where masks go wrong. The logits are wider than the vocabulary, as usual.
    """
    longer = [token.encode() for token in dict.fromkeys(_STRUCTURE) if len(token.encode()) > 1]
    tokens = [*(bytes([byte]) for byte in range(256)), b"", b"", *longer, b"\xf0\x9f", b"\xe2\x80"]
    return Vocabulary(tokens, stop_token_ids=[STOP], special_token_ids=[PAD], logits_width=len(tokens) + 40)


def load_vocabulary(name: str) -> Vocabulary:
    """``"builtin"``, ``"packaged"`` (that of SmolLM2, from the package of the demo), or the folder of a tokenizer."""
    if name == "builtin":
        return builtin_vocabulary()
    from constrain.hf.tokenizer import load_packaged_tokenizer, load_tokenizer_from

    tokenizer = load_packaged_tokenizer() if name == "packaged" else load_tokenizer_from(name)
    return Vocabulary.from_tokenizer(tokenizer)


def describe_vocabulary(name: str) -> str:
    """What a report says about the vocabulary."""
    if name == "builtin":
        return f"the built-in vocabulary of {builtin_vocabulary().size} tokens"
    if not name:
        raise InvalidInputError("the vocabulary has no name")
    return "the vocabulary of SmolLM2" if name == "packaged" else "the vocabulary of a tokenizer"
