"""A run: many cases over a few workers, each result written as soon as it is known."""

import json
from collections import deque
from collections.abc import Container, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import wait
from pathlib import Path

from constrain.conformance.case import Case, Settings, case_key
from constrain.conformance.progress import Progress
from constrain.conformance.results import CaseResult
from constrain.conformance.worker import Worker
from constrain.errors import InvalidInputError

_TICK = 0.1  # seconds between two looks at the limits


def run_cases(
    cases: Sequence[Case],
    settings: Settings,
    *,
    jobs: int = 1,
    out: Path | None = None,
    fresh: bool = False,
    progress: Progress | None = None,
) -> list[CaseResult]:
    """The result of every case, in their order.

    ``out`` is a file of JSON lines: results that it holds of the same cases under the same settings are taken from
    there unless ``fresh``, new ones are appended at once, so that an interrupted run can go on.
    """
    versions = library_versions()
    keys = {case_key(case, settings, versions): case for case in cases}
    results = {} if fresh or out is None else _known(out, keys.keys())
    todo = [(case, key) for key, case in keys.items() if key not in results]
    progress = progress or Progress(0)
    for result in results.values():
        progress.add(result, is_new=False)
    if out is not None:
        _prepare(out, fresh)
    for result in _work_off(todo, settings, min(jobs, len(todo))):
        results[result.key] = result
        progress.add(result)
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result.to_json(), separators=(",", ":")) + "\n")
    progress.close()
    return [results[key] for key in keys]


def library_versions() -> str:
    """The grammar libraries of this run, for reports."""
    return ", ".join(f"{name} {_version(name)}" for name in ("llguidance", "xgrammar"))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"


def _work_off(todo: list[tuple[Case, str]], settings: Settings, jobs: int) -> Iterator[CaseResult]:
    waiting, num_open = deque(todo), len(todo)
    workers: list[Worker] = []
    try:
        workers.extend(Worker(settings) for _ in range(jobs))
        while num_open:
            for worker in workers:
                result = worker.poll()
                if result is not None:
                    num_open -= 1
                    yield result
                if worker.is_free and waiting:
                    worker.submit(*waiting.popleft())
            if num_open:
                wait([worker.connection for worker in workers], timeout=_TICK)
    finally:
        for worker in workers:
            worker.close()


def _known(out: Path, keys: Container[str]) -> dict[str, CaseResult]:
    """The results in ``out`` whose keys are wanted; a line that was cut off is passed over."""
    found: dict[str, CaseResult] = {}
    if not out.exists():
        return found
    for line in out.read_text("utf-8").split("\n"):
        try:
            result = CaseResult.from_json(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if result.key in keys:
            found[result.key] = result
    return found


def _prepare(out: Path, fresh: bool) -> None:
    """Make the file, and end a line that an earlier run left open."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        if fresh or not out.exists():
            out.write_text("", "utf-8")
        elif (text := out.read_text("utf-8")) and not text.endswith("\n"):
            with out.open("a", encoding="utf-8") as file:
                file.write("\n")
    except OSError as exc:
        raise InvalidInputError(f"cannot write {out}: {exc}") from exc
