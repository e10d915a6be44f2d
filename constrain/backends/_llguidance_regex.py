"""Regular expressions in the dialect of Rust's ``regex``; every character is escaped, so that Lark sees no syntax."""

from constrain.errors import InvalidGrammarError
from constrain.regex import Alternation, Chars, Concat, Node, Repeat


def rust_regex(node: Node) -> str:
    """What ``node`` matches."""
    match node:
        case Chars(ranges):
            return "[" + "".join(f"{_rust_char(low)}-{_rust_char(high)}" for low, high in ranges) + "]"
        case Concat(parts):
            return "".join(map(rust_regex, parts))
        case Alternation(options):
            return "(?:" + "|".join(map(rust_regex, options)) + ")"
        case Repeat(body, minimum, maximum):
            return f"(?:{rust_regex(body)}){{{minimum},{'' if maximum is None else maximum}}}"


def rust_literal(text: str) -> str:
    """Exactly ``text``."""
    return "".join(_rust_char(ord(char)) for char in text)


def _rust_char(code_point: int) -> str:
    if 0xD800 <= code_point <= 0xDFFF:
        raise InvalidGrammarError(f"the lone surrogate U+{code_point:04X} is no character and cannot be generated")
    return f"\\x{{{code_point:x}}}"
