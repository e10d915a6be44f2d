"""The official JSON-Schema-Test-Suite: its folder of tests, and the documents that its schemas refer to."""

from pathlib import Path
from typing import Any

from constrain.conformance.case import Case, Instance
from constrain.conformance.lines import read_json
from constrain.errors import InvalidInputError
from constrain.schema import DIALECTS, Documents

_DRAFTS = tuple(dialect.name for dialect in DIALECTS)
_FAMILY = "official suite"
# It asserts contentMediaType and contentEncoding, which draft 7 leaves to the implementation and constrain does not.
NOT_ASSERTED = ("optional/content.json",)
_REMOTE_ROOT = "http://localhost:1234/"


def is_suite(path: Path) -> bool:
    """Whether ``path`` is the suite, its ``tests`` folder, or a folder or a file of one draft in it."""
    return _draft_folder(path) is not None or _tests_folder(path) is not None


def suite_cases(path: Path) -> list[Case]:
    """The cases of drafts 4 to 2020-12 below ``path``, required and optional.

    Formats are asserted in the files that say so: those of ``optional/format`` and ``format-assertion.json``. The
    files in ``NOT_ASSERTED`` are left out.
    """
    folder = _draft_folder(path)
    if folder is not None:
        return _draft_cases(path, folder)
    tests = _tests_folder(path)
    assert tests is not None, path
    return [case for name in _DRAFTS if (tests / name).is_dir() for case in _draft_cases(tests / name, tests / name)]


def remotes_beside(path: Path) -> Path | None:
    """The suite's own ``remotes`` folder, which lies beside ``tests``."""
    folder = _draft_folder(path)
    tests = folder.parent if folder is not None else _tests_folder(path)
    remotes = tests.parent / "remotes" if tests is not None else None
    return remotes if remotes is not None and remotes.is_dir() else None


def remote_documents(remotes: str | Path) -> Documents:
    """Every file below ``remotes`` under the address that the suite's schemas use."""
    root = Path(remotes)
    files = sorted(root.rglob("*.json"))
    return Documents({_REMOTE_ROOT + file.relative_to(root).as_posix(): file.read_text("utf-8") for file in files})


def needs_remotes(schema_text: str) -> bool:
    """Whether a schema can refer to one of the ``remote_documents``."""
    return _REMOTE_ROOT.rstrip("/") in schema_text


def _draft_folder(path: Path) -> Path | None:
    return next((place for place in (path, *path.parents) if place.name in _DRAFTS and place.is_dir()), None)


def _tests_folder(path: Path) -> Path | None:
    return next((place for place in (path, path / "tests") if any((place / name).is_dir() for name in _DRAFTS)), None)


def _draft_cases(path: Path, folder: Path) -> list[Case]:
    files = [path] if path.is_file() else sorted(path.rglob("*.json"))
    wanted = [file for file in files if file.relative_to(folder).as_posix() not in NOT_ASSERTED]
    return [case for file in wanted for case in _file_cases(file, folder)]


def _file_cases(file: Path, folder: Path) -> list[Case]:
    place = file.relative_to(folder).as_posix()
    content = read_json(file)
    if not isinstance(content, list):
        raise InvalidInputError(f"{file} is no file of the test suite: a list of cases is wanted")
    return [_case(entry, f"{folder.name}/{place}#{index}", place, folder.name) for index, entry in enumerate(content)]


def _case(entry: Any, case_id: str, place: str, draft: str) -> Case:
    part = "formats" if place.startswith("optional/format/") else "optional" if "/" in place else "required"
    try:
        instances = tuple(Instance(test["data"], test["valid"], test["description"]) for test in entry["tests"])
        return Case(
            id=case_id,
            family=_FAMILY,
            collection=f"{draft}, {part}",
            group=place.removesuffix(".json"),
            name=entry["description"],
            schema=entry["schema"],
            instances=instances,
            dialect=draft,
            assert_formats=part == "formats" or place == "optional/format-assertion.json",
        )
    except (KeyError, TypeError) as exc:
        raise InvalidInputError(f"{case_id} is no case of the test suite: {exc!r}") from exc
