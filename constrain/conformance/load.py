"""Reading cases, whichever form a path has."""

from collections.abc import Sequence
from pathlib import Path

from constrain.conformance.case import Case
from constrain.conformance.lines import lines_cases
from constrain.conformance.suite import is_suite, suite_cases
from constrain.errors import InvalidInputError


def load_cases(paths: Sequence[Path]) -> list[Case]:
    """The cases of each path: a checkout of the official suite, or JSON lines in a folder or a file.

    Raises ``InvalidInputError`` for a path that is neither.
    """
    cases: list[Case] = []
    for path in (path.resolve() for path in paths):
        if not path.exists():
            raise InvalidInputError(f"{path} does not exist")
        found = suite_cases(path) if is_suite(path) else lines_cases(path)
        if not found:
            raise InvalidInputError(f"{path} holds neither drafts of the official test suite nor lines of .jsonl files")
        cases += found
    return list({case.id: case for case in cases}.values())
