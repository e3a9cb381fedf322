"""A screen that a command draws anew while something changes, and that is gone when the command ends.

It is the other screen of the terminal, as pagers use it: what stood there before comes back. Nothing is written while
nothing has changed, and lines are overwritten where they stand, so it neither flickers nor moves.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Self

from skillwire.cli.output import drawn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from skillwire.cli.output import Part

_ENTER: Final = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[J"
_LEAVE: Final = "\x1b[H\x1b[J\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_REST_OF_LINE: Final = "\x1b[K"
_REST: Final = "\x1b[J"
_COLUMNS: Final = 80
_LINES: Final = 24


class Screen:
    """A context manager that has the terminal of standard output meanwhile."""

    def __init__(self) -> None:
        self._shown = ""

    @staticmethod
    def is_possible() -> bool:
        """Whether standard output goes to a terminal that can be drawn on."""
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @staticmethod
    def size() -> tuple[int, int]:
        """Return columns and lines."""
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return _COLUMNS, _LINES
        return columns or _COLUMNS, lines or _LINES

    def __enter__(self) -> Self:
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(_LEAVE)

    def draw(self, lines: Sequence[Sequence[Part]]) -> None:
        """Show these lines, of which none is wider than the terminal, nor are there more than it has."""
        text = f"{_REST_OF_LINE}\r\n".join(map(drawn, lines))
        state = f"{self.size()}{text}"
        if state != self._shown:
            self._shown = state
            self._write(f"{_HOME}{text}{_REST_OF_LINE}{_REST}")

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
