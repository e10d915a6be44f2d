"""Cases as JSON lines, the form of schemabench."""

import json
from pathlib import Path
from typing import Any

from constrain.conformance.case import Case, Instance
from constrain.errors import InvalidInputError


def lines_cases(path: Path) -> list[Case]:
    """The cases of JSON lines: ``{"name": …, "schema": …, "tests": [{"data": …, "valid": …}]}``; formats count."""
    files = sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]
    family = path.name if path.is_dir() else path.stem
    return [
        _case(line, f"{file.stem}#{number}", family, file, number)
        for file in files
        for number, line in enumerate(_lines(file), start=1)
        if line.strip()
    ]


def read_json(file: Path) -> Any:
    """The content of ``file``. Raises ``InvalidInputError`` with the place."""
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"cannot read {file}: {exc}") from exc


def _lines(file: Path) -> list[str]:
    try:
        # Not splitlines(), which also splits at U+2028 inside a string.
        return file.read_text("utf-8").split("\n")
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"cannot read {file}: {exc}") from exc


def _case(line: str, case_id: str, family: str, file: Path, number: int) -> Case:
    try:
        entry = json.loads(line)
        tests = entry["tests"]
        instances = tuple(Instance(test["data"], test["valid"], test.get("description", "")) for test in tests)
        return Case(
            id=case_id,
            family=family,
            collection=file.stem,
            group=file.stem,
            name=entry.get("name", case_id),
            schema=entry["schema"],
            instances=instances,
            assert_formats=True,
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        wanted = '{"name": …, "schema": …, "tests": [{"data": …, "valid": …}]}'
        raise InvalidInputError(f"{file}, line {number}: not a case, {exc!r}; each line is {wanted}") from exc
