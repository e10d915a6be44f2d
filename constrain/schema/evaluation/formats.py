"""What asserted formats ask, at the closing quote."""

from collections.abc import Callable

from constrain.errors import Unsupported, UnsupportedGrammarError
from constrain.schema.formats import FORMATS, checker_of
from constrain.schema.graph import SchemaNode
from constrain.schema.json_text import join_pointer

FormatChecker = Callable[[str], bool]


def format_checker(name: str, node: SchemaNode) -> FormatChecker | None:
    """Whether a text has the format ``name``; None for one that no draft defines, which says nothing.

    Raises ``UnsupportedGrammarError`` where nothing here checks it.
    """
    checker = checker_of(name)
    if checker is None and name in FORMATS:
        place = join_pointer(node.pointer, "format")
        unsupported = Unsupported(f"nothing here can check the format {name!r}", place, "format")
        raise UnsupportedGrammarError(str(unsupported), unsupported=[unsupported])
    return checker
