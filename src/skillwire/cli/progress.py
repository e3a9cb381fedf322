"""Progress for anything that takes more than a second: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, Self

import click

if TYPE_CHECKING:
    from types import TracebackType

    from click._termui_impl import ProgressBar

_PATIENCE: Final = 1.0  # seconds before a bar appears


class Progress:
    """Counts steps of work; shows a bar with rate and time left once a second has passed.

    Args:
        label: what is being done, such as ``"building"``.
        total: how many steps there are.
        shown: False with ``--quiet`` or ``--json``.
    """

    def __init__(self, label: str, total: int, *, shown: bool = True) -> None:
        self._label = label
        self._total = total
        self._shown = shown and sys.stderr.isatty()
        self._done = 0
        self._started = time.monotonic()
        self._bar: ProgressBar[int] | None = None

    def __enter__(self) -> Self:
        return self

    def advance(self, steps: int = 1) -> None:
        """Count ``steps`` as done."""
        self._done += steps
        if self._bar is not None:
            self._bar.update(steps)
        elif self._shown and time.monotonic() - self._started > _PATIENCE:
            bar = click.progressbar(length=self._total, label=self._label, show_pos=True, file=sys.stderr)
            bar.__enter__()
            bar.update(self._done)
            self._bar = bar

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)
