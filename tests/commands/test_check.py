"""The command check: what it prints, and its exit codes."""

import io
import json
import sys

import pytest

from constrain.cli import main

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture
def schema_file(tmp_path):
    def write(schema):
        path = tmp_path / "schema.json"
        path.write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return str(path)

    return write


def test_check_of_an_enforced_schema_is_0(schema_file, capsys):
    assert main(["check", schema_file(ORDER)]) == 0
    printed = capsys.readouterr()
    assert "every keyword is enforced" in printed.out and printed.err == ""


def test_check_of_what_is_not_enforced_is_1_unless_ignored(schema_file, capsys):
    path = schema_file({"type": "array", "uniqueItems": True})
    assert main(["check", path, "--backend", "llguidance"]) == 1
    assert "/uniqueItems" in capsys.readouterr().out
    assert main(["check", path, "--backend", "llguidance", "--unsupported", "ignore"]) == 0
    assert "/uniqueItems" in capsys.readouterr().out


def test_check_prints_json(schema_file, capsys):
    assert main(["check", schema_file(ORDER), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["exact"] is True
    assert {"/type", "/properties", "/required"} <= {entry["pointer"] for entry in report["keywords"]}


def test_check_asserts_formats_when_asked(schema_file, capsys):
    path = schema_file({"type": "string", "format": "date"})
    for options, fate in (([], "annotation"), (["--assert-formats"], "grammar")):
        assert main(["check", path, "--json", *options]) == 0
        report = json.loads(capsys.readouterr().out)
        assert {entry["pointer"]: entry["enforcement"] for entry in report["keywords"]}["/format"] == fate


def test_check_reads_standard_input_and_documents(monkeypatch, tmp_path, capsys):
    (tmp_path / "b.json").write_text('{"type": "integer"}')
    text = json.dumps({"$ref": "https://example.com/b.json?v=1"})
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["check", "-", "--document", f"https://example.com/b.json?v=1={tmp_path / 'b.json'}"]) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["check", "-"]) == 2
    assert "/$ref" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"type":\n  "object",}', "schema.json:2:1"),
        ('{"type": "integre"}', "/type"),
        ("[]", "JSON object"),
    ],
)
def test_bad_input_is_2_with_its_place_and_no_traceback(schema_file, capsys, content, message):
    assert main(["check", schema_file(content)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and "Traceback" not in printed.err and printed.out == ""


def test_a_document_that_is_no_json_is_named_by_its_own_file_and_line(schema_file, tmp_path, capsys):
    (tmp_path / "b.json").write_text('{"type": "integer",\n "title": "b",\n}')
    path = schema_file({"$ref": "https://example.com/b.json"})
    assert main(["check", path, "--document", f"https://example.com/b.json={tmp_path / 'b.json'}"]) == 2
    [error] = capsys.readouterr().err.splitlines()
    assert f"{tmp_path / 'b.json'}:3:1: not JSON" in error and "schema.json" not in error


def test_what_cannot_be_read_is_2(schema_file, capsys):
    assert main(["check", "absent.json"]) == 2
    assert main(["check", schema_file(ORDER), "--backend", "nobody"]) == 2
    assert main(["check", schema_file(ORDER), "--document", "no-equals"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [word in line for word, line in zip(["absent.json", "nobody", "URI=FILE"], errors, strict=True)] == [
        True
    ] * 3
