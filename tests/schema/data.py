"""The official test suite and the schema collection, where a machine has them."""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from constrain.schema import DIALECTS, Dialect, Documents

_SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
SUITE = Path(os.environ.get("CONSTRAIN_SCHEMA_TEST_SUITE") or _SHARED / "json-schema-test-suite")
BENCH = Path(os.environ.get("CONSTRAIN_SCHEMABENCH") or _SHARED / "schemabench")

needs_suite = pytest.mark.skipif(
    not (SUITE / "tests").is_dir(), reason="no JSON-Schema-Test-Suite; set CONSTRAIN_SCHEMA_TEST_SUITE to a checkout"
)
needs_bench = pytest.mark.skipif(
    not any(BENCH.glob("*.jsonl")), reason="no schema collection; set CONSTRAIN_SCHEMABENCH to its folder"
)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def suite_cases(dialect: Dialect, *, optional: bool) -> list[tuple[str, dict[str, Any]]]:
    """``(file#index, case)``; a case has a schema and tests."""
    folder = SUITE / "tests" / dialect.name
    files = sorted(folder.glob("optional/**/*.json" if optional else "*.json"))
    return [
        (f"{file.relative_to(folder)}#{index}", case)
        for file in files
        for index, case in enumerate(json.loads(file.read_text()))
    ]


@cache
def suite_documents() -> Documents:
    remotes = SUITE / "remotes"
    files = sorted(remotes.rglob("*.json"))
    return Documents({f"http://localhost:1234/{file.relative_to(remotes)}": file.read_text() for file in files})


def bench_cases() -> list[dict[str, Any]]:
    return [json.loads(line) for file in sorted(BENCH.glob("*.jsonl")) for line in file.read_text().splitlines()]
