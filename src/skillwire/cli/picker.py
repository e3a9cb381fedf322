"""A list on the terminal in which the user selects rows.

Keys are read with click, which is imported anyway: a library of prompts would cost more to import than an installation.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import click

from skillwire.cli.options import shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOVES: Final = {"\x1b[A": -1, "\x1bOA": -1, "k": -1, "\x1b[B": 1, "\x1bOB": 1, "j": 1}
_ENTER: Final = frozenset({"\r", "\n"})
_CANCEL: Final = frozenset({"q", "\x1b", "\x04"})
_KEYS: Final = "space selects, a selects all, enter accepts, q cancels"
_AROUND: Final = 3  # lines beside the rows: the question, the keys, and the cursor's


def pick(question: str, rows: Sequence[tuple[str, str]]) -> list[int]:
    """Return the numbers of the rows, each a name and a description, that the user selects; none when cancelled."""
    chosen: set[int] = set()
    at = 0
    while True:
        size = shutil.get_terminal_size((80, 24))
        shown = max(min(len(rows), size.lines - _AROUND), 1)
        first = max(min(at - shown // 2, len(rows) - shown), 0)
        lines = [question]
        for number, (name, description) in enumerate(rows[first : first + shown], first):
            mark = f"{'>' if number == at else ' '} [{'x' if number in chosen else ' '}] "
            lines.append(mark + shortened(f"{name}: {description}", size.columns - len(mark) - 1))
        lines.append(f"{len(chosen)} of {len(rows)}: {_KEYS}")
        click.echo("\n".join(line[: size.columns - 1] for line in lines), err=True)
        key = click.getchar()
        click.echo(f"\x1b[{len(lines)}A\x1b[J", err=True, nl=False)
        if key in _CANCEL or (key in _ENTER and chosen):
            return [] if key in _CANCEL else sorted(chosen)
        at = (at + _MOVES.get(key, 0)) % len(rows)
        if key == " ":
            chosen ^= {at}
        elif key == "a":
            chosen = set() if len(chosen) == len(rows) else {*range(len(rows))}
