"""A process that checks cases: it may hang, grow or die, and nobody else does."""

import multiprocessing
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from constrain.conformance.case import Case, Settings
from constrain.conformance.results import CaseResult, Verdict
from constrain.errors import ConstrainError, InvalidInputError

_START_SECONDS = 300.0


@dataclass(slots=True)
class _Job:
    case: Case
    key: str
    started: float
    result: CaseResult
    """As far as the worker got."""


class Worker:
    """The parent's side of one process. ``poll`` watches the limits; a process that broke one is replaced."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._job: _Job | None = None
        self._start()

    @property
    def connection(self) -> Connection:
        """What becomes readable when there is something to poll, the end of the process included."""
        return self._connection

    @property
    def is_free(self) -> bool:
        return self._job is None and self._ready

    def submit(self, case: Case, key: str) -> None:
        """Hand ``case`` to the free process."""
        assert self._job is None
        result = CaseResult(key, case.id, case.family, case.collection, case.group, case.name, "crash")
        self._job = _Job(case, key, time.monotonic(), result)
        with suppress(OSError):  # it died while it had nothing to do; poll sees that
            self._connection.send((case, key))

    def poll(self) -> CaseResult | None:
        """The result of the case, if it is done or its process is at an end. Never waits.

        Raises ``InvalidInputError`` if no process can be made, which no case is to blame for.
        """
        try:
            while self._connection.poll():
                done = self._receive(*self._connection.recv())
                if done is not None:
                    return done
        except (EOFError, OSError):
            return self._ended("crash", f"the process died: {self._exit()}")
        if not self._ready and time.monotonic() - self._started > _START_SECONDS:
            raise InvalidInputError(f"a worker was not ready after {_START_SECONDS:.0f} s")
        if self._job is not None:
            if time.monotonic() - self._job.started > self._settings.case_seconds:
                return self._ended("timeout", f"not done after {self._settings.case_seconds:g} s")
            if _resident_mb(self._process.pid) > self._settings.memory_mb:
                return self._ended("memory", f"more than {self._settings.memory_mb} MB")
        return None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._connection.close()

    def _start(self) -> None:
        context = multiprocessing.get_context("forkserver")
        # Imported once, by a server without threads; each worker is a fork of it and starts in no time.
        context.set_forkserver_preload(["constrain.conformance.check"])
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, self._settings), daemon=True)
        self._process.start()
        theirs.close()
        self._ready, self._started = False, time.monotonic()

    def _receive(self, kind: str, content: Any) -> CaseResult | None:
        if kind == "unusable":
            self.close()
            raise InvalidInputError(content)
        if kind == "ready":
            self._ready = True
            return None
        assert self._job is not None
        result: CaseResult = content
        if kind == "partial":
            self._job.result = result
            return None
        self._job = None
        return result

    def _ended(self, verdict: Verdict, message: str) -> CaseResult | None:
        """The result of a case whose process is at an end. What is known to be a false accept stays one."""
        self.close()
        job, self._job = self._job, None
        if not self._ready:
            raise InvalidInputError(f"a worker cannot start: {message}")
        self._start()
        if job is None:  # it died while it had nothing to do
            return None
        stage = "compiling" if not job.result.backend else "judging" if not job.result.instances else "walking"
        kept = job.result.verdict if job.result.verdict == "false_accept" else verdict
        seconds = round(time.monotonic() - job.started, 3)
        return replace(job.result, verdict=kept, error=verdict, message=f"{message}, while {stage}", seconds=seconds)

    def _exit(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _work(connection: Connection, settings: Settings) -> None:
    """The process itself: cases in, results out, until the other side closes."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from constrain.conformance.check import Checker

    try:
        checker = Checker(settings)
    except ConstrainError as exc:
        connection.send(("unusable", str(exc)))
        return
    connection.send(("ready", None))
    while True:
        try:
            case, key = connection.recv()
        except EOFError:
            return
        result = None
        for result in checker.check(case, key):
            connection.send(("partial", result))
        connection.send(("done", result))


def _resident_mb(pid: int | None) -> float:
    """Memory of a process, 0 where the system does not tell."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except (OSError, ValueError, IndexError):
        return 0.0
