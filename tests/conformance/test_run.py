"""Every verdict, and that nothing that a backend does stops a run."""

import io
import json
import time

import pytest

from constrain.conformance.case import Settings
from constrain.conformance.progress import Progress
from constrain.conformance.results import CaseResult
from constrain.conformance.run import run_cases
from constrain.errors import InvalidInputError

from .conftest import make_case
from .fakes import NAME

SETTINGS = Settings(backend=NAME, case_seconds=2.5, memory_mb=700)


@pytest.fixture(scope="module")
def results():
    """One run over every way to fail, with two workers."""
    titles = [
        "fine",
        "hang",
        "raise",
        "break",
        "die",
        "grow",
        "refuse",
        "limit",
        "wide",
        "narrow",
        "lie",
        "slow",
        "end",
    ]
    started = time.monotonic()
    cases = [make_case(title) for title in titles]
    found = run_cases(cases, SETTINGS, jobs=2)
    assert [result.name for result in found] == titles
    assert time.monotonic() - started < 60
    return {result.name: result for result in found}


@pytest.mark.parametrize(
    ("title", "verdict", "error"),
    [
        ("fine", "exact", ""),
        ("hang", "timeout", "timeout"),
        ("raise", "crash", "RuntimeError"),
        ("break", "crash", "BackendError"),
        ("die", "crash", "crash"),
        ("grow", "memory", "memory"),
        ("refuse", "refused", "UnsupportedGrammarError"),
        ("limit", "limit", "LimitExceededError"),
        ("wide", "false_accept", ""),
        ("narrow", "false_reject", ""),
        ("lie", "disagreement", ""),
        ("slow", "timeout", "timeout"),
        ("end", "exact", ""),
    ],
)
def test_verdicts(results, title, verdict, error):
    assert (results[title].verdict, results[title].error) == (verdict, error)


def test_results_say_what_happened(results):
    assert "while compiling" in results["hang"].message and "while judging" in results["slow"].message
    assert "signal 11" in results["die"].message
    assert results["refuse"].keywords == ("not",)
    assert results["fine"].backend == "llguidance"
    wrong = [item for item in results["narrow"].instances if item.verdict != "exact"]
    assert [(item.text, item.accepted, item.at) for item in wrong] == [("23", False, 0)]
    wide = [item for item in results["wide"].instances if item.verdict != "exact"]
    assert [(item.text, item.verdict) for item in wide] == [('"x"', "false_accept")]
    assert "validate" in results["lie"].instances[0].disagreement


def test_a_false_accept_stays_one_if_the_walks_hang():
    settings = Settings(backend=NAME, case_seconds=1.5, num_walks=10**6)
    (result,) = run_cases([make_case("wide", {"title": "wide", "type": "string"}, valid=(), invalid=(1,))], settings)
    assert result.verdict == "false_accept" and (result.walks.invalid or result.message)


def test_walks_find_what_the_instances_do_not():
    settings = Settings(backend=NAME, num_walks=10)
    cases = [
        make_case("wide", valid=(), invalid=()),
        make_case("dead", {"title": "dead", "enum": ["abcd"]}, valid=(), invalid=()),
        make_case("lie", valid=(), invalid=()),
        make_case("fine", valid=(), invalid=()),
    ]
    wide, dead, lie, fine = run_cases(cases, settings)
    assert wide.verdict == "false_accept" and all(error for _, error in wide.walks.invalid)
    assert dead.verdict == "exact" and dead.walks.dead_ends == 10
    assert lie.verdict == "disagreement" and lie.walks.disagreements
    assert fine.verdict == "exact" and fine.walks.finished + fine.walks.capped == 10


def test_a_schema_that_cannot_be_read_is_refused_with_its_keyword():
    (result,) = run_cases([make_case("fine", {"$schema": "http://example.com/unknown"})], Settings(backend=NAME))
    assert (result.verdict, result.error, result.keywords) == ("refused", "InvalidSchemaError", ("$schema",))


def test_an_invalid_instance_is_judged_in_both_orders():
    schema = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "type": "object"}
    case = make_case("fine", schema, valid=({"b": "x", "a": 1},), invalid=({"b": "x", "a": "y"},))
    (result,) = run_cases([case], Settings(backend=NAME))
    assert result.verdict == "exact" and [item.text[:4] for item in result.instances] == ['{"a"', '{"a"']
    (result,) = run_cases([case], Settings(backend=NAME, instance_order="as-is"))
    assert result.verdict == "false_reject"


def test_a_run_goes_on_where_it_was_interrupted(tmp_path):
    out = tmp_path / "deep" / "results.jsonl"
    cases = [make_case("fine"), make_case("wide"), make_case("refuse")]
    settings = Settings(backend=NAME)
    first = run_cases(cases[:2], settings, out=out)
    lines = out.read_text().splitlines()
    assert [CaseResult.from_json(json.loads(line)) for line in lines] == first
    out.write_text(lines[0] + "\n" + lines[1][:40])  # cut off in the middle of a line
    kept = CaseResult.from_json(json.loads(lines[0]))
    marked = json.dumps({**kept.to_json(), "message": "from the file"})
    out.write_text(marked + "\n" + lines[1][:40])
    results = run_cases(cases, settings, out=out)
    assert [result.message == "from the file" for result in results] == [True, False, False]
    assert [result.verdict for result in results] == ["exact", "false_accept", "refused"]
    assert len(out.read_text().splitlines()) == 4
    again = run_cases(cases, settings, out=out)
    assert again == results and len(out.read_text().splitlines()) == 4
    anew = run_cases(cases, settings, out=out, fresh=True)
    assert anew[0].message == "" and len(out.read_text().splitlines()) == 3
    other = run_cases(cases[:1], Settings(backend=NAME, seed=1), out=out)  # other settings, another result
    assert len(out.read_text().splitlines()) == 4 and other[0].verdict == "exact"


def test_progress_is_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    progress = Progress(2, stream=stream, line_seconds=0.0)
    run_cases([make_case("fine"), make_case("wide")], Settings(backend=NAME), progress=progress)
    lines = stream.getvalue().splitlines()
    assert lines and "2/2" in lines[-1] and "1 false accept" in lines[-1] and "\r" not in stream.getvalue()


def test_a_backend_that_cannot_be_had_ends_the_run():
    for name in ("nobody", "constrain.nowhere:Backend", f"{NAME}X"):
        with pytest.raises(InvalidInputError, match=name):
            run_cases([make_case("fine")], Settings(backend=name))
