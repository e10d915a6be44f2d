"""The checkers that asserted formats have: those of ``jsonschema``, asked at the closing quote."""

from collections.abc import Callable

from constrain.errors import Unsupported, UnsupportedGrammarError
from constrain.schema.dialects import Dialect
from constrain.schema.exact_jsonschema import exact_class
from constrain.schema.graph import SchemaNode
from constrain.schema.json_text import join_pointer

FormatChecker = Callable[[str], bool]


def format_checker(name: str, node: SchemaNode) -> FormatChecker:
    """Whether a text has the format ``name``; raises ``UnsupportedGrammarError`` where nothing here checks it."""
    checker = exact_class(node.dialect).FORMAT_CHECKER
    if name not in checker.checkers:
        place = join_pointer(node.pointer, "format")
        reason = f"the format {name!r} cannot be asserted: {_known(node.dialect)} have a checker"
        unsupported = Unsupported(reason, place, "format")
        raise UnsupportedGrammarError(str(unsupported), unsupported=[unsupported])
    return lambda text: bool(checker.conforms(text, name))


def _known(dialect: Dialect) -> str:
    return ", ".join(sorted(exact_class(dialect).FORMAT_CHECKER.checkers))
