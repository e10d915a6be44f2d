"""How far a run is, on standard error."""

import sys
import time
from collections import Counter
from typing import TextIO

from constrain.conformance.results import CaseResult

_WIDTH = 30


class Progress:
    """A bar that redraws itself on a terminal; elsewhere a line every few seconds. A ``total`` of 0 shows nothing."""

    def __init__(self, total: int, *, stream: TextIO | None = None, line_seconds: float = 10.0) -> None:
        self._total, self._stream = total, stream if stream is not None else sys.stderr
        self._is_terminal = self._stream.isatty()
        self._pause = 0.1 if self._is_terminal else line_seconds
        self._counts: Counter[str] = Counter()
        self._num_new = 0
        self._started = self._shown = time.monotonic()

    def add(self, result: CaseResult, *, is_new: bool = True) -> None:
        """Count one result; ``is_new`` is false for one of an earlier run."""
        self._counts[result.verdict] += 1
        self._num_new += is_new
        if time.monotonic() - self._shown >= self._pause:
            self._show()

    def close(self) -> None:
        """Show the end."""
        if self._total:
            self._show()
            if self._is_terminal:
                self._stream.write("\n")

    def _show(self) -> None:
        if not self._total:
            return
        self._shown = time.monotonic()
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{self._text()}")
        else:
            self._stream.write(f"{self._text()}\n")
        self._stream.flush()

    def _text(self) -> str:
        done = self._counts.total()
        filled = _WIDTH * done // self._total
        counts = ", ".join(f"{count} {verdict.replace('_', ' ')}" for verdict, count in self._counts.most_common())
        elapsed = self._shown - self._started
        left = elapsed / self._num_new * (self._total - done) if self._num_new else 0.0
        bar = "#" * filled + "." * (_WIDTH - filled)
        return f"[{bar}] {done}/{self._total}  {elapsed:.0f} s, {left:.0f} s left  {counts}"
