"""``constrain generate``: the value on standard output and nothing else, and an exit code that says how it went."""

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from constrain.cli import main

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "id": {"type": "string", "pattern": "^[a-z]{3}$"}},
    "required": ["ok", "id"],
    "additionalProperties": False,
}


@pytest.fixture
def schema_file(tmp_path: Path) -> str:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(SCHEMA))
    return str(path)


@pytest.mark.parametrize("how", [[], ["--stream"]])
def test_a_schema_gives_json_on_standard_output_alone(
    how: list[str], schema_file: str, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--schema", schema_file, "--prompt", "hi", "--model", str(tiny_folder), "--seed", "3", *how]
    assert main(["generate", *arguments]) == 0
    output = capsys.readouterr()
    assert set(json.loads(output.out)) == {"ok", "id"}
    assert "tokens in" in output.err and "enforced by llguidance" in output.err
    assert main(["generate", "--quiet", *arguments]) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (output.out, "")


def test_choices_and_patterns_and_a_prompt_from_standard_input(
    tiny_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("from a pipe"))
    assert main(["generate", "--choice", "yes", "--choice", "no", "--model", str(tiny_folder)]) == 0
    assert capsys.readouterr().out in ("yes\n", "no\n")
    arguments = ["--regex", "[A-Z]{2}-[0-9]{4}", "--prompt", "x", "--temperature", "0", "--model", str(tiny_folder)]
    assert main(["generate", *arguments]) == 0
    assert re.fullmatch("[A-Z]{2}-[0-9]{4}\n", capsys.readouterr().out)


def test_a_type_of_the_callers_module(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shapes_of_a_test.py").write_text(
        "from pydantic import BaseModel, Field\nprint('imported')\n"
        "class Shapes:\n    class Point(BaseModel):\n        x: int = Field(ge=0, le=9)\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["--prompt", "x", "--model", str(tiny_folder)]
    assert main(["generate", "--pydantic", "shapes_of_a_test:Shapes.Point", *arguments]) == 0
    assert 0 <= json.loads(capsys.readouterr().out)["x"] <= 9
    for name, said in (
        ("shapes_of_a_test:Line", "no attribute 'Line'"),
        ("no_such_module:Line", "No module named 'no_such_module'"),
        ("shapes_of_a_test", "MODULE:CLASS"),
    ):
        assert main(["generate", "--pydantic", name, *arguments]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--max-tokens", "2", "--regex", "a{9}"], "no value (length): the text is not finished after 2 tokens"),
        (["--regex", "aé"], "DeadEndError: no value (dead_end)"),
        (["--regex", "a{9}", "--timeout", "0"], "no value (deadline)"),
    ],
)
def test_no_value_is_exit_code_1_and_no_output(
    arguments: list[str], said: str, tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "--prompt", "x", "--quiet", "--model", str(tiny_folder), *arguments]) == 1
    output = capsys.readouterr()
    assert output.out == "" and said in output.err and output.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--regex", "ab(c"], "InvalidGrammarError: --regex, character 2: "),
        (["--choice", ""], "InvalidGrammarError: --choice: "),
        (["--schema", "nowhere.json"], "InvalidInputError: cannot read nowhere.json"),
        (["--schema", "BROKEN"], "InvalidSchemaError: BROKEN:2:9: "),
        (["--schema", "WRONG"], "/properties/a/type"),
        (["--schema", "NOT"], "UnsatisfiableGrammarError: NOT: "),
        (["--temperature", "-1"], "InvalidInputError: temperature=-1.0"),
        (["--backend", "nobody"], "nobody"),
        (["--model", "nowhere"], "'nowhere' is no folder"),
        (["--prompt", " "], "InvalidPromptError: the prompt from --prompt is empty"),
        (["--prompt", "x" * 600], "InvalidPromptError: the prompt has 600 tokens and the context 512"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_line_that_names_the_place(
    arguments: list[str], said: str, tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"BROKEN": '{\n "type" "object"}', "WRONG": '{"properties": {"a": {"type": 5}}}', "NOT": '{"not": {}}'}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        arguments = [str(tmp_path / name) if argument == name else argument for argument in arguments]
        said = said.replace(name, str(tmp_path / name))
    assert main(["generate", "--quiet", "--prompt", "x", "--model", str(tiny_folder), *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err and output.err.count("\n") == 1


def test_a_stream_prints_nothing_that_is_taken_back(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "--stream", "--prompt", "x", "--model", str(tiny_folder), "--temperature", "0"]
    for pattern in ("[a-m]{3}é|[a-z]{2}9", "[n-z]{3}é|[a-z]{2}9"):  # no token writes é: a dead end behind three letters
        code = main([*arguments, "--regex", pattern])
        assert re.fullmatch("[a-z]{3}\n" if code else "[a-z]{2}9\n", capsys.readouterr().out)


def test_sampling_fields_are_options(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["generate", "--prompt", "x", "--model", str(tiny_folder), "--quiet", "--seed", "5"]
    penalties = [f"--{name}-penalty=0.5" for name in ("presence", "frequency")]
    banned = [item for letter in "aeiou" for item in ("--bad-word", letter)]
    options = ["--min-p=0.001", "--repetition-penalty=1.2", *penalties, *banned]
    assert main([*arguments, *options, "--regex", "[a-z]{40}"]) == 0
    assert re.fullmatch("[b-df-hj-np-tv-z]{40}\n", capsys.readouterr().out)
    stops = [item for byte in range(33, 127) for item in ("--stop", chr(byte))]
    assert main([*arguments, "--min-tokens", "20", "--max-tokens", "300", *stops]) == 0
    assert len(capsys.readouterr().out) >= 20
    assert main([*arguments, "--regex", "a", "--stop", "b"]) == 2
    assert "contradicts the constraint" in capsys.readouterr().err


def test_a_broken_model_folder_is_bad_input(
    tiny_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in tiny_folder.iterdir():
        content = b"broken" if file.suffix == ".safetensors" else file.read_bytes()
        (tmp_path / file.name).write_bytes(content)
    assert main(["generate", "--quiet", "--prompt", "x", "--model", str(tmp_path)]) == 2
    assert "InvalidInputError: cannot load a model from" in capsys.readouterr().err


def test_help_shows_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["generate", "--help"], ["mask", "--help"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        output = capsys.readouterr().out
        assert left.value.code == 0 and "exit codes:" in output
        assert arguments == ["--help"] or "examples:" in output


def test_two_constraints_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["generate", "--regex", "a", "--choice", "b", "--prompt", "x"])
    assert left.value.code == 2 and "not allowed with" in capsys.readouterr().err


def test_the_schema_and_the_prompt_cannot_both_be_piped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--schema", "-"]) == 2
    assert "give --prompt" in capsys.readouterr().err


@pytest.mark.model
def test_the_packaged_model_by_default(
    smollm2: tuple[Any, Any], schema_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "--schema", schema_file, "--prompt", "Is it ok?", "--temperature", "0"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"ok", "id"}
