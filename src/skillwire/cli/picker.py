"""Keys of the terminal, each read at once, and a list in which the user selects rows.

A library of prompts would cost more to import than an installation takes. The terminal passes keys on for as long as
the list is shown, so that no key between two is lost.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

from skillwire.cli.options import shortened

_KEY: Final = re.compile(r"\x1b(?:\[|O).|.", re.DOTALL)
MOVES: Final = {"\x1b[A": -1, "\x1bOA": -1, "k": -1, "\x1b[B": 1, "\x1bOB": 1, "j": 1}
_ENTER: Final = frozenset({"\r", "\n"})
_CANCEL: Final = frozenset({"q", "\x1b", "\x04", ""})
_KEYS: Final = "space selects, a selects all, enter accepts, q cancels"
_AROUND: Final = 3  # lines beside the rows: the question, the keys, and the cursor's


@contextmanager
def single_keys() -> Iterator[int]:
    """Let the terminal pass on each key without the return key, and without showing it; return its descriptor."""
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal)
    try:
        yield terminal
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def read_keys(terminal: int) -> list[str]:
    """Return the keys that were pressed; one empty text at the end of the input."""
    return _KEY.findall(os.read(terminal, 64).decode(errors="replace")) or [""]


def pick(question: str, rows: Sequence[tuple[str, str]]) -> list[int]:
    """Return the numbers of the rows, each a name and a description, that the user selects; none when cancelled."""
    chosen: set[int] = set()
    at = 0
    with single_keys() as terminal:
        while True:
            number = _draw(question, rows, chosen, at)
            keys = read_keys(terminal)
            click.echo(f"\x1b[{number}A\x1b[J", err=True, nl=False)
            for key in keys:
                if key in _CANCEL or (key in _ENTER and chosen):
                    return [] if key in _CANCEL else sorted(chosen)
                at = (at + MOVES.get(key, 0)) % len(rows)
                if key == " ":
                    chosen ^= {at}
                elif key == "a":
                    chosen = set() if len(chosen) == len(rows) else {*range(len(rows))}


def _draw(question: str, rows: Sequence[tuple[str, str]], chosen: set[int], at: int) -> int:
    """Print as many rows as fit, around the one at the cursor; return the number of lines."""
    size = shutil.get_terminal_size((80, 24))
    shown = max(min(len(rows), size.lines - _AROUND), 1)
    first = max(min(at - shown // 2, len(rows) - shown), 0)
    lines = [question]
    for number, (name, description) in enumerate(rows[first : first + shown], first):
        mark = f"{'>' if number == at else ' '} [{'x' if number in chosen else ' '}] "
        lines.append(mark + shortened(f"{name}: {description}", size.columns - len(mark) - 1))
    lines.append(f"{len(chosen)} of {len(rows)}: {_KEYS}")
    click.echo("\n".join(line[: size.columns - 1] for line in lines), err=True)
    return len(lines)
