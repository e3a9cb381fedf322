"""A progress line on terminals for work that takes more than a second.

A timer draws the line, so that it also appears while a server is silent. It shows a bar and the remaining time if the
number of steps is known, and bytes and rate if there is traffic. It is erased before other output and at the end.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

from skillwire.cli.output import one_line

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE: Final = 1.0  # seconds before the line appears
_INTERVAL: Final = 0.2  # seconds between two drawings of it
_BAR: Final = 20  # characters
_CLEAR: Final = "\r\x1b[K"
_KILO: Final = 1000


class Progress:
    """Counts steps and bytes; a context manager that :meth:`during` prepares for further work.

    Args:
        label: the work, such as ``"building"``.
        total: the number of steps; 0 if unknown.
        shown: False with ``--quiet`` or ``--json``.
    """

    def __init__(self, label: str = "", total: int = 0, *, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._timer: threading.Thread | None = None
        self._ended = threading.Event()
        self._drawn = False
        self._begin(label, total)

    def _begin(self, label: str, total: int, *, counts_bytes: bool = True) -> None:
        self._label, self._total, self._counts_bytes = label, total, counts_bytes
        self._done, self._bytes, self._host = 0, 0, ""
        self._started = time.monotonic()

    def during(self, label: str, total: int = 0) -> Self:
        """Return this progress, to be entered for ``total`` steps of other work."""
        self._begin(label, total)
        return self

    def waiting(self, label: str) -> Self:
        """Return this progress, to be entered for a wait without traffic; see :meth:`relabel`."""
        self._begin(label, 0, counts_bytes=False)
        return self

    def relabel(self, label: str) -> None:
        """Change the label, and keep the elapsed time."""
        with self._lock:
            self._label = label

    def __enter__(self) -> Self:
        if self._shown:
            self._ended = threading.Event()
            self._timer = threading.Thread(target=self._draw_until, args=(self._ended,), daemon=True)
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._ended.set()
            self._timer.join()
            self._timer = None
            self._clear()

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` as done."""
        with self._lock:
            self._done += steps

    def traffic(self, host: str, size: int) -> None:
        """Count ``size`` bytes from ``host``, 0 for a request; thread-safe."""
        with self._lock:
            if self._counts_bytes:
                self._host = host
                self._bytes += size

    @property
    def has_traffic(self) -> bool:
        """Whether there was a request since this work began."""
        return bool(self._host)

    def beside(self, print_value: Callable[[T], R]) -> Callable[[T], R]:
        """Return ``print_value``, which prints, wrapped so that it erases the progress line first."""

        def print_beside(value: T) -> R:
            with self._lock:
                self._clear()
                return print_value(value)

        return print_beside

    def _draw_until(self, ended: threading.Event) -> None:
        wait = _PATIENCE
        while not ended.wait(wait):
            wait = _INTERVAL
            with self._lock:
                line = self._line(time.monotonic() - self._started, columns() - 1)
                sys.stderr.write(_CLEAR + line)
                sys.stderr.flush()
                self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
            self._drawn = False

    def _line(self, seconds: float, width: int) -> str:
        """Return the progress after ``seconds`` in at most ``width`` characters."""
        what = one_line(f"{self._label} {self._host}" if self._host and not self._total else self._label)
        parts = [f"{what} … {seconds:.0f} s"]
        if self._total:
            filled = _BAR * min(self._done, self._total) // self._total
            parts = [f"{what} [{'#' * filled}{'-' * (_BAR - filled)}] {self._done}/{self._total}"]
        if self._bytes:
            parts += [_size(self._bytes), f"{_size(self._bytes / seconds)}/s"]
        if self._total and 0 < self._done < self._total:
            parts.append(f"{seconds / self._done * (self._total - self._done):.0f} s left")
        elif self._total:
            parts.append(f"{seconds:.0f} s")
        return "  ".join(parts)[:width]


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < _KILO:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _KILO
    return f"{count:.1f} GB"


def columns(default: int = 80) -> int:
    """Return the width of the terminal."""
    import shutil  # noqa: PLC0415  # only for what takes long, and for lines that are cut

    return shutil.get_terminal_size((default, 24)).columns
