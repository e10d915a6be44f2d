"""Processors are found by name, and one that is not says which."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from constrain.errors import InvalidInputError
from constrain.sampling.loading import load_processors
from constrain.sampling.params import SamplingParams
from constrain.sampling.processors import LogitsProcessor, RowView


class Plain(LogitsProcessor):
    """Does nothing."""

    def add(self, slot: int, params: SamplingParams, prompt_ids: Sequence[int], output_ids: Sequence[int]) -> bool:
        return False

    def process(self, logits: torch.Tensor, rows: Sequence[RowView]) -> torch.Tensor:
        return logits

    class Inner(LogitsProcessor):
        """Abstract, so that it cannot be made."""


class Broken(Plain):
    """Cannot be made."""

    def __init__(self) -> None:
        raise OSError("no file")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages, with one distribution whose entry points a test writes."""
    info = tmp_path / "plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return info / "entry_points.txt"


def test_a_processor_loads_by_module_and_class() -> None:
    own = Plain()
    loaded = load_processors([f"{__name__}:Plain", own, Plain])
    assert [type(each) for each in loaded] == [Plain, Plain] and loaded[1] is own and loaded[0] is not own


def test_installed_processors_load_by_their_entry_points(installed: Path) -> None:
    installed.write_text(f"[constrain.logits_processors]\nplain = {__name__}:Plain\n")
    assert [type(each) for each in load_processors()] == [Plain]
    assert [type(each) for each in load_processors(["plain", Plain])] == [Plain], "made once"
    assert load_processors(installed=False) == []
    assert [type(each) for each in load_processors(["plain"], installed=False)] == [Plain]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("no_such_module_here:Class", "ModuleNotFoundError"),
        (f"{__name__}:Missing", "AttributeError"),
        (f"{__name__}:SamplingParams", "want a subclass of LogitsProcessor"),
        (f"{__name__}:Broken", "OSError: no file"),
        (f"{__name__}:Plain.Inner", "abstract"),
        ("nothing", "no entry point"),
        (":Class", "no entry point"),
    ],
)
def test_one_that_does_not_load_is_an_error_that_names_it(name: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=f"logits processor '{name}' .*{why}"):
        load_processors([name])


def test_an_installed_one_that_does_not_load_is_an_error_that_names_it(installed: Path) -> None:
    installed.write_text("[constrain.logits_processors]\nbad = no_such_module_here:Class\n")
    with pytest.raises(InvalidInputError, match="logits processor 'bad' cannot be loaded: ModuleNotFoundError"):
        load_processors()


def test_two_packages_that_name_different_processors_alike_are_an_error(tmp_path: Path, installed: Path) -> None:
    installed.write_text(f"[constrain.logits_processors]\nplain = {__name__}:Plain\n")
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text(f"[constrain.logits_processors]\nplain = {__name__}:Broken\n")
    with pytest.raises(InvalidInputError, match="'plain' is named by two packages"):
        load_processors()


def test_a_module_that_raises_when_imported_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raising_plugin.py").write_text("raise RuntimeError('at import')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"raising_plugin:Class.*RuntimeError: at import"):
        load_processors(["raising_plugin:Class"])
    assert "raising_plugin" not in sys.modules
