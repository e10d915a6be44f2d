"""The command line: ``constrain generate`` and ``constrain mask``."""

import argparse
import sys
from collections.abc import Sequence

from constrain.commands import generate, mask
from constrain.commands.common import EXIT_CODES


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
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
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    generate.add_parser(commands)
    mask.add_parser(commands)
    return parser
