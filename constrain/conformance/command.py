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
from constrain.grammar_spec import Profile

BEGIN, END = "<!-- conformance:begin -->", "<!-- conformance:end -->"


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says besides the settings. ``select`` keeps cases whose id or name has one of the texts.

    Each of ``profiles`` is a run of its own.
    """

    paths: tuple[Path, ...]
    jobs: int = 1
    out: Path | None = None
    fresh: bool = False
    markdown: Path | None = None
    select: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = ("default",)


def conformance(options: Options, settings: Settings) -> int:
    """Run, print the tables, and return the exit code: 1 with a false accept, a disagreement or a crash."""
    _check(options, settings)
    cases = _selected(load_cases(options.paths), options.select)
    if options.markdown is not None:
        _split_at_markers(options.markdown)  # a mistake at the door, not after an hour
    if settings.remotes is None:
        found = (remotes_beside(path.resolve()) for path in options.paths)
        settings = replace(settings, remotes=next((str(path) for path in found if path is not None), None))
    runs: dict[Profile, list[CaseResult]] = {}
    for profile in options.profiles:
        of_profile = replace(settings, profile=profile)
        progress = Progress(len(cases))
        fresh = options.fresh and not runs
        runs[profile] = run_cases(cases, of_profile, jobs=options.jobs, out=options.out, fresh=fresh, progress=progress)
        print(text_tables(runs[profile]))
        failures = failures_text(runs[profile])
        if failures:
            print(f"\n{failures}")
        print(f"\n{_description(of_profile)}\n")
    if options.markdown is not None:
        _write_markdown(options.markdown, runs, settings)
    sys.stdout.flush()
    return 1 if any(map(has_failures, runs.values())) else 0


def _check(options: Options, settings: Settings) -> None:
    least = {
        "--jobs": (options.jobs, 1),
        "--walks": (settings.num_walks, 0),
        "--walk-tokens": (settings.max_walk_tokens, 1),
        "--memory-mb": (settings.memory_mb, 1),
    }
    for name, (number, smallest) in least.items():
        if number < smallest:
            raise InvalidInputError(f"{name} {number}: want at least {smallest}")
    if not settings.case_seconds > 0:  # nor NaN
        raise InvalidInputError(f"--case-seconds {settings.case_seconds}: want a positive number")
    if settings.remotes is not None and not Path(settings.remotes).is_dir():
        raise InvalidInputError(f"--remotes {settings.remotes} is no folder")


def _selected(cases: list[Case], select: tuple[str, ...]) -> list[Case]:
    if not select:
        return cases
    kept = [case for case in cases if any(text in case.id or text in case.name for text in select)]
    if not kept:
        raise InvalidInputError(f"--select {' '.join(select)}: none of the {len(cases)} cases has that in its name")
    return kept


def _description(settings: Settings) -> str:
    order = "as they stand" if settings.keeps_order else "with their keys in the order of the schema"
    walks = f", and {settings.num_walks} random walks through each" if settings.num_walks else ""
    return (
        f"Backend `{settings.backend}`, profile `{settings.profile}`, {library_versions()}, "
        f"{describe_vocabulary(settings.vocabulary)}. Instances are judged from the masks, {order}{walks}. "
        f"A schema that no value meets is right where it is refused as such. "
        f"{', '.join(NOT_ASSERTED)} of the official suite is left out, since the drafts leave open what it asserts."
    )


def _write_markdown(path: Path, runs: dict[Profile, list[CaseResult]], settings: Settings) -> None:
    before, after = _split_at_markers(path)
    first, *others = runs
    description = _description(replace(settings, profile=first))
    if others:
        description += f" `{'`, `'.join(others)}`: the same under that profile, instances as they stand."
    table = markdown_table(runs[first], description, {profile: runs[profile] for profile in others})
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
