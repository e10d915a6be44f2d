"""The command line: ``constrain generate``, ``mask``, ``check`` and ``conformance``."""

import argparse
import sys
from collections.abc import Sequence

from constrain.commands import check, conformance, generate, mask
from constrain.commands.common import VERDICTS
from constrain.errors import ConstrainError


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
        epilog=VERDICTS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (generate, mask, check, conformance):
        command.add_parser(commands)
    return parser
