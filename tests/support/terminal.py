"""A program on a pseudo-terminal, and the screen that a person in front of it sees.

What the program writes goes through a terminal emulator (pyte), so a test looks at the screen and not at the bytes:
what was overwritten is gone, and what scrolled off the top is kept above. Waiting is for a condition, with a bound.
"""

import errno
import fcntl
import functools
import os
import struct
import subprocess
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pyte
from tests.support.eventually import PATIENCE, eventually, readable
from tests.support.forked import ForkedPython, can_fork

_COLORS = {"red": "red", "green": "green", "brown": "yellow", "blue": "blue", "cyan": "cyan", "magenta": "magenta"}


class _FadingScreen(pyte.HistoryScreen):
    """A screen that knows dim text, which pyte leaves out: it is kept as if it were in italics."""

    def select_graphic_rendition(self, *attributes: int, **private: bool) -> None:
        super().select_graphic_rendition(*(3 if number == 2 else number for number in attributes), **private)


class Shown:
    """What a person sees of what was written to a terminal of this size."""

    def __init__(self, columns: int = 80, lines: int = 24, raw: bytes = b"") -> None:
        self.screen = _FadingScreen(columns, lines, history=10_000, ratio=0.5)
        self.raw = raw
        self._stream = pyte.ByteStream(self.screen)
        self._stream.feed(raw)

    def text(self) -> str:
        """Return what scrolled off and what is on the screen, without the space at the ends of lines."""
        return "\n".join("".join(char.data for char in row).rstrip() for row in self.rows()).rstrip("\n")

    def styled(self) -> str:
        """Return :meth:`text` with styles written out, such as ``<red bold>error</>``."""
        return "\n".join(_styled(row) for row in self.rows()).rstrip("\n")

    def show_anew(self, rewrite: Callable[[bytes], bytes]) -> Self:
        """Show everything that was written once more, rewritten first, on an empty screen."""
        self.screen.reset()
        self.screen.history.top.clear()
        self._stream.feed(rewrite(self.raw))
        return self

    def rows(self) -> list[list[pyte.screens.Char]]:
        columns = range(self.screen.columns)
        buffer = self.screen.buffer
        above = [[row[column] for column in columns] for row in self.screen.history.top]
        return above + [[buffer[line][column] for column in columns] for line in range(self.screen.lines)]


class Terminal(Shown):
    """Runs ``command`` on a terminal of its own; a context manager that ends it.

    Args:
        command: program and arguments.
        cwd: the folder to run it in.
        environment: the whole environment.
        columns, lines: the size of the screen.
    """

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environment: dict[str, str], columns: int = 80, lines: int = 24
    ) -> None:
        super().__init__(columns, lines)
        self.program = command[0]
        self.exit_code: int | None = None
        self._handle, end = os.openpty()
        fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.initial_settings = self.settings()
        of_shell = functools.partial(subprocess.Popen, preexec_fn=_own_terminal)
        start: Any = ForkedPython if can_fork(command) else of_shell
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), end)
        self._process = start(command, cwd=cwd, env=environment, start_new_session=True, **streams)
        os.close(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.exit_code is None:
            self._process.kill()
            self._process.wait()
        os.close(self._handle)

    def type(self, text: str) -> Self:
        """Press these keys."""
        os.write(self._handle, text.encode())
        return self

    def until(self, accept: Callable[[str], bool] | str) -> str:
        """Wait until the text of the screen is accepted, or holds a text; return it."""
        accepts = (lambda text: accept in text) if isinstance(accept, str) else accept

        def text() -> str:
            alive = accepts(self.text()) or self._read(0.2)
            assert alive or accepts(self.text()), f"it ended before {accept!r} showed; the screen:\n{self.text()}"
            return self.text()

        shown: str = eventually(text, accepts, lambda: f"{accept!r} on the screen\n{self.text()}\n", every=0)
        return shown

    def wait(self) -> int:
        """Wait for the end of the program; return its exit code."""
        eventually(lambda: not self._read(0.2), what=lambda: f"its end, on the screen\n{self.text()}\n,", every=0)
        self.exit_code = self._process.wait(PATIENCE)
        return self.exit_code

    def shows_within(self, seconds: float) -> bool:
        return bool(readable(self._handle, seconds=seconds))

    def is_waiting(self) -> bool:
        """Whether the program waits for something, such as a key, and does not run."""
        state = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "S"

    def settings(self) -> list[object]:
        """Return the terminal's modes: echo, line by line and so on; also when the program has ended."""
        return termios.tcgetattr(self._handle)

    def _read(self, patience: float) -> bool:
        """Read what is there; return False when there will be nothing any more."""
        if not readable(self._handle, seconds=patience):
            return True
        try:
            data = os.read(self._handle, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # Linux says so when the other end is closed
                raise
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def _own_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _styled(row: Sequence[pyte.screens.Char]) -> str:
    pieces: list[tuple[str, str]] = []
    for char in row:
        style = _style_of(char) if char.data != " " else (pieces[-1][0] if pieces else "")
        if pieces and pieces[-1][0] == style:
            pieces[-1] = (style, pieces[-1][1] + char.data)
        else:
            pieces.append((style, char.data))
    line = "".join(_marked(style, text) for style, text in pieces)
    return line.rstrip()


def _marked(style: str, text: str) -> str:
    bare = text.rstrip(" ")
    return f"<{style}>{bare}</>{text[len(bare) :]}" if style else text


def _style_of(char: pyte.screens.Char) -> str:
    marks = [_COLORS.get(char.fg, ""), "bold" if char.bold else "", "dim" if char.italics else ""]
    return " ".join(filter(None, marks))
