"""``constrain check``: how each keyword of a JSON schema is enforced."""

import argparse
import json
from typing import Any

from constrain.commands.common import VERDICTS, add_command, line_of, read_text
from constrain.errors import InvalidGrammarError, InvalidInputError

_EXAMPLES = """\
examples:
  constrain check order.schema.json
  constrain check order.schema.json --json | jq '.keywords[] | select(.enforcement == "unsupported")'
  constrain check a.json --backend llguidance --document https://example.com/b.json=b.json
  cat a.json | constrain check -
"""


def add_parser(subparsers: Any) -> None:
    """Describe the command."""
    parser = add_command(subparsers, "check", "say how each keyword of a JSON schema is enforced", _EXAMPLES, VERDICTS)
    parser.add_argument("file", metavar="FILE", help="a JSON schema; - reads standard input")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--backend", default="auto", help="the backend that has to enforce it (default: auto)")
    parser.add_argument(
        "--unsupported",
        choices=("error", "ignore"),
        default="error",
        help="ignore: drop what is not enforced, on your word; the report says so (default: error)",
    )
    parser.add_argument("--assert-formats", action="store_true", help="let format decide, whatever the draft says")
    parser.add_argument(
        "--document",
        action="append",
        default=[],
        metavar="URI=FILE",
        help="a schema that references may lead to; may be given several times",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the report; 0 where every keyword is enforced."""
    from constrain.inspect import inspect_schema

    text = read_text(arguments.file)
    documents = dict(_document(item) for item in arguments.document)
    try:
        report = inspect_schema(
            text,
            backend=arguments.backend,
            documents=documents,
            assert_formats=arguments.assert_formats or None,
            unsupported=arguments.unsupported,
        )
    except InvalidGrammarError as exc:
        raise InvalidInputError(f"{arguments.file}{line_of(exc.position, text)}: {exc}") from exc
    print(json.dumps(report.to_json(), indent=2, ensure_ascii=False) if arguments.json else report.to_text())
    return 1 if report.unsupported else 0


def _document(item: str) -> tuple[str, str]:
    from constrain.schema.json_text import parse_json_text

    uri, equals, name = item.rpartition("=")
    if not equals or not uri:
        raise InvalidInputError(f"--document {item}: want URI=FILE")
    text = read_text(name)
    try:
        parse_json_text(text)
    except InvalidGrammarError as exc:
        raise InvalidInputError(f"{name}{line_of(exc.position, text)}: {exc}") from exc
    return uri, text
