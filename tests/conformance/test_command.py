"""The command as a whole: tables, the README's table, exit codes."""

import json
from dataclasses import replace

import pytest

from constrain.cli import main
from constrain.conformance.results import CaseResult, InstanceResult, WalkResults
from constrain.conformance.table import failures_text, has_failures, markdown_table, text_tables

from .fakes import NAME


def write_lines(path, *titles):
    lines = [
        {"name": title, "schema": {"title": title, "type": "integer"},
         "tests": [{"data": 1, "valid": True}, {"data": "x", "valid": False}]}
        for title in titles
    ]  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def test_the_suite_gives_tables_and_a_readme_that_a_rerun_does_not_change(suite_folder, tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("# top\n<!-- conformance:begin -->\nold\n<!-- conformance:end -->\nbottom\n")
    arguments = ["conformance", str(suite_folder), "--backend", "llguidance", "--walks", "3", "--markdown", str(readme)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "draft2020-12, formats" in printed.out and "optional/format/ipv4" in printed.out
    assert "refusals name: not 1" in printed.out
    assert "5/5" in printed.err
    text = readme.read_text()
    assert text.startswith("# top\n<!-- conformance:begin -->\n| ") and text.endswith(
        "<!-- conformance:end -->\nbottom\n"
    )
    assert "| draft7, required | 1 | 0 | 1 |" in text and "old" not in text and "llguidance 1." in text
    assert main(arguments) == 0
    assert readme.read_text() == text


@pytest.mark.parametrize(
    ("title", "code"), [("fine", 0), ("refuse", 0), ("narrow", 0), ("wide", 1), ("raise", 1), ("die", 1), ("lie", 1)]
)
def test_exit_codes_tell_failures_from_refusals(tmp_path, capsys, title, code):
    path = write_lines(tmp_path / "x.jsonl", "fine", title)
    assert main(["conformance", path, "--backend", NAME]) == code
    printed = capsys.readouterr().out
    assert (f"x#2 ({title})" in printed) == bool(code)


def test_select_out_and_bad_input(tmp_path, capsys):
    path = write_lines(tmp_path / "x.jsonl", "fine", "wide")
    out = tmp_path / "out.jsonl"
    assert main(["conformance", path, "--backend", NAME, "--select", "fine", "--out", str(out)]) == 0
    assert [json.loads(line)["name"] for line in out.read_text().splitlines()] == ["fine"]
    bad = [
        (["--select", "nothing"], "--select nothing"),
        (["--backend", "nobody"], "nobody"),
        (["--backend", "json:loads"], "json:loads"),
        (["--backend", "no.such.module:Class"], "no.such"),
        (["--jobs", "0"], "--jobs 0"),
        (["--walks", "-1"], "--walks -1"),
        (["--walk-tokens", "0"], "--walk-tokens 0"),
        (["--case-seconds", "nan"], "--case-seconds nan"),
        (["--memory-mb", "0"], "--memory-mb 0"),
        (["--remotes", str(tmp_path / "absent")], "--remotes"),
        (["--markdown", path], "conformance:begin"),
        (["--tokenizer", str(tmp_path / "absent")], "absent"),
    ]
    capsys.readouterr()
    for options, message in bad:
        assert main(["conformance", path, *options]) == 2
        [error] = capsys.readouterr().err.splitlines()
        assert message in error
    assert main(["conformance", str(tmp_path / "absent")]) == 2


def result(verdict, collection="c", group="g", instances=()):
    return CaseResult("k", f"{collection}#1", "fam", collection, group, "n", verdict, instances=tuple(instances))


def test_tables_count_what_is_there():
    accepted = [InstanceResult("", True, True, "1"), InstanceResult("", True, False, "2", 0)]
    results = [
        result("exact"),
        result("false_reject", instances=accepted),
        result("limit", "d", "d"),
        result("timeout"),
    ]
    table = text_tables(results).splitlines()
    assert table[0].split()[:3] == ["collection", "schemas", "exact"]
    assert table[1].split()[:5] == ["c", "3", "1", ".", "."] and "50.0 %" in table[1]
    assert table[3].startswith("all") and not has_failures(results)
    assert has_failures([*results, result("disagreement")])
    assert "| fam | 1 | 0 | 1 | 0 | 0 | 0 | – |" in markdown_table(results, "")
    assert "| c | 3 | 1 | 0 | 1 | 0 | 1 | 50.0 % |" in markdown_table(results, "")


def test_false_accepts_are_summed_by_what_shows_them():
    wrong = InstanceResult("", False, True, "1")
    walks = WalkResults(finished=2, invalid=(("1", "at /a: 'x' is bad"), ("2", "at /: 'y' is bad")))
    walked = replace(result("false_accept"), walks=walks)
    text = failures_text([result("false_accept", instances=[wrong]), walked])
    assert "false accepts: 1 by instances, 1 by walks alone\n    2 walks: … is bad" in text
