"""``constrain mask``: what may come next, and where a text leaves its constraint."""

import json
from pathlib import Path
from typing import Any

import pytest

from constrain.backends.trie import TrieBackend
from constrain.cli import main
from constrain.commands.mask import next_tokens
from constrain.grammar_spec import GrammarSpec, choice, regex
from tests.tiny import AB, EOS, ONE, TWO, A, B, tiny_vocabulary


def after(grammar_spec: GrammarSpec, text: bytes) -> Any:
    vocabulary = tiny_vocabulary()
    return next_tokens(TrieBackend(vocabulary).compile(grammar_spec).start(), vocabulary, text)


def report(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["mask", "--json", "--model", str(folder), *arguments])
    return code, json.loads(capsys.readouterr().out)


def test_the_mask_is_the_grammars_own() -> None:
    found = after(regex("(ab)+1?"), b"ab")
    assert (found.num_legal_bytes, found.token_ids, found.may_end) == (2, (A, AB, ONE), True)
    found = after(choice(["ab1", "ab2"]), b"")
    assert (found.token_ids, found.may_end, found.forced) == ((A, AB), False, "ab")


def test_a_text_that_leaves_shows_what_was_legal_there() -> None:
    found = after(regex("ab[12]b"), b"aba2")
    assert (found.num_legal_bytes, found.token_ids, found.may_end) == (2, (ONE, TWO), False)
    assert EOS not in found.token_ids and B not in found.token_ids


def test_json_says_everything(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = report(capsys, tiny_folder, "--regex", "x[0-9]+", "--text", "x1", "--limit", "3")
    assert code == 0
    assert said == {
        "text": "x1",
        "legal": True,
        "num_legal_characters": 2,
        "may_end": True,
        "forced": "",
        "num_tokens": 10,
        "tokens": [{"id": ord(digit), "text": digit} for digit in "012"],
        "backend": "llguidance",
    }


def test_the_place_where_a_text_leaves_is_counted_in_characters(
    tiny_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = report(capsys, tiny_folder, "--regex", "yes|no", "--text", "yeah")
    assert (code, said["legal"], said["num_legal_characters"], said["forced"]) == (1, False, 2, "s")
    assert main(["mask", "--choice", "yes", "--text", "yeah", "--model", str(tiny_folder)]) == 1
    shown = capsys.readouterr().out
    assert "leaves the constraint at character 2: behind 'ye' comes 'ah'" in shown and "115  's'" in shown


def test_a_dead_end_is_named(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "--regex", "aé", "--text", "a", "--model", str(tiny_folder)]) == 1
    assert "tokens: 0 (a dead end)" in capsys.readouterr().out


def test_a_finished_text_may_end(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", "--choice", "yes", "--text", "yes", "--model", str(tiny_folder)]) == 0
    shown = capsys.readouterr().out
    assert "may end: yes" in shown and "tokens: 0\n" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--regex", "(", "--text", ""], "--regex, character 0"),
        (["--regex", "a", "--text", "", "--limit", "-1"], "--limit -1"),
        (["--regex", "a", "--text", "", "--model", "nowhere"], "'nowhere' is no folder"),
        (["--pydantic", "nowhere:X", "--text", ""], "No module named 'nowhere'"),
        (["--regex", "a(?=b)", "--text", ""], "UnsupportedGrammarError: --regex"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mask", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == "" and said in output.err and output.err.count("\n") == 1


@pytest.mark.model
def test_the_packaged_vocabulary_by_default(smollm2: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--choice", "naïve 😀", "--choice", "naïve 😁", "--json"]
    assert main(["mask", "--text", "naïve", *arguments]) == 0
    said = json.loads(capsys.readouterr().out)
    # A token of the space and the first bytes of the emoji may come, so that not even the space is a token for sure.
    assert said["forced"] == "" and {"id": 216, "text": " "} in said["tokens"]
    assert main(["mask", "--text", "naïve 😂", *arguments]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["legal"], said["num_legal_characters"]) == (False, 6)
    assert all("bytes" in token for token in said["tokens"]) and said["num_tokens"] == 2
