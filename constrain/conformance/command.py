"""``constrain conformance``: the run behind the command line."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from constrain.conformance.case import Case, Settings
from constrain.conformance.load import load_cases
from constrain.conformance.progress import Progress
from constrain.conformance.results import CaseResult
from constrain.conformance.run import library_versions, run_cases
from constrain.conformance.suite import NOT_ASSERTED, remotes_beside
from constrain.conformance.table import failures_text, has_failures, markdown_table, text_tables
from constrain.conformance.vocabulary import describe_vocabulary
from constrain.errors import InvalidInputError

BEGIN, END = "<!-- conformance:begin -->", "<!-- conformance:end -->"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says besides the settings. ``select`` keeps cases whose id or name has one of the texts."""

    paths: tuple[Path, ...]
    jobs: int = 1
    out: Path | None = None
    fresh: bool = False
    markdown: Path | None = None
    select: tuple[str, ...] = ()


def conformance(options: Options, settings: Settings) -> int:
    """Run, print the tables, and return the exit code: 1 with a false accept, a disagreement or a crash."""
    if options.jobs < 1:
        raise InvalidInputError(f"--jobs {options.jobs}: want at least 1")
    cases = _selected(load_cases(options.paths), options.select)
    if options.markdown is not None:
        _split_at_markers(options.markdown)  # a mistake at the door, not after an hour
    if settings.remotes is None:
        found = (remotes_beside(path.resolve()) for path in options.paths)
        settings = replace(settings, remotes=next((str(path) for path in found if path is not None), None))
    progress = Progress(len(cases))
    results = run_cases(cases, settings, jobs=options.jobs, out=options.out, fresh=options.fresh, progress=progress)
    print(text_tables(results))
    failures = failures_text(results)
    if failures:
        print(f"\n{failures}")
    print(f"\n{_description(settings)}")
    if options.markdown is not None:
        _write_markdown(options.markdown, results, settings)
    sys.stdout.flush()
    return 1 if has_failures(results) else 0


def _selected(cases: list[Case], select: tuple[str, ...]) -> list[Case]:
    if not select:
        return cases
    kept = [case for case in cases if any(text in case.id or text in case.name for text in select)]
    if not kept:
        raise InvalidInputError(f"--select {' '.join(select)}: none of the {len(cases)} cases has that in its name")
    return kept


def _description(settings: Settings) -> str:
    order = "with their keys in the order of the schema" if settings.instance_order == "schema" else "as they stand"
    walks = f", and {settings.num_walks} random walks through each" if settings.num_walks else ""
    return (
        f"Backend `{settings.backend}`, `key_order={settings.key_order!r}`, {library_versions()}, "
        f"{describe_vocabulary(settings.vocabulary)}. Instances are judged from the masks, {order}{walks}. "
        f"{', '.join(NOT_ASSERTED)} of the official suite is left out, since the drafts leave open what it asserts."
    )


def _write_markdown(path: Path, results: list[CaseResult], settings: Settings) -> None:
    before, after = _split_at_markers(path)
    table = markdown_table(results, _description(settings))
    path.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", "utf-8")


def _split_at_markers(path: Path) -> tuple[str, str]:
    """What stands before and behind the table; a file that is not there will hold nothing else."""
    try:
        text = path.read_text("utf-8") if path.exists() else f"{BEGIN}\n{END}\n"
    except (OSError, ValueError) as exc:
        raise InvalidInputError(f"cannot read {path}: {exc}") from exc
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InvalidInputError(f"{path} has no place for the table: put {BEGIN} and {END} on lines of their own")
    return before, after
