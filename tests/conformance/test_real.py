"""The real collections, where a machine has them: minutes long."""

import pytest

from constrain.conformance.case import Settings
from constrain.conformance.load import load_cases
from constrain.conformance.results import FAILURES
from constrain.conformance.run import run_cases
from constrain.conformance.table import failures_text, text_tables

from ..schema.data import BENCH, SUITE, needs_bench, needs_suite

pytestmark = pytest.mark.slow


@needs_suite
def test_nothing_invalid_is_accepted_in_the_official_suite():
    assert_no_failure(run_cases(load_cases([SUITE]), settings(), jobs=2))


@needs_bench
def test_nothing_invalid_is_accepted_in_the_schema_collection():
    assert_no_failure(run_cases(load_cases([BENCH]), settings(), jobs=2))


def settings() -> Settings:
    remotes = SUITE / "remotes"
    return Settings(num_walks=3, remotes=str(remotes) if remotes.is_dir() else None)


def assert_no_failure(results):
    print(text_tables(results))
    assert not any(result.verdict in FAILURES for result in results), failures_text(results)
    assert all(result.keywords or result.message for result in results if result.verdict == "refused")
