"""What the first byte of a JSON value says about it."""

OBJECT, ARRAY, STRING, POSITIVE, NEGATIVE, TRUE, FALSE, NULL = range(8)
"""Numbers are ``NEGATIVE`` if they begin with ``-`` (so is ``-0``), else ``POSITIVE``."""
NUM_KINDS = 8
EVERY_KIND = (1 << NUM_KINDS) - 1
NUMBERS = (POSITIVE, NEGATIVE)
LITERAL_VALUES: dict[int, object] = {TRUE: (bool, True), FALSE: (bool, False), NULL: None}
"""As ``constrain.schema.exact.hashable`` has them."""

KIND_OF_BYTE: dict[int, int] = {
    ord("{"): OBJECT,
    ord("["): ARRAY,
    ord('"'): STRING,
    ord("t"): TRUE,
    ord("f"): FALSE,
    ord("n"): NULL,
    ord("-"): NEGATIVE,
    **dict.fromkeys(b"0123456789", POSITIVE),
}
KINDS_OF_TYPE: dict[str, int] = {
    "object": 1 << OBJECT,
    "array": 1 << ARRAY,
    "string": 1 << STRING,
    "number": 1 << POSITIVE | 1 << NEGATIVE,
    "integer": 1 << POSITIVE | 1 << NEGATIVE,
    "boolean": 1 << TRUE | 1 << FALSE,
    "null": 1 << NULL,
}
