"""Processes that write to one database take turns.

SQLite lets one write at a time, but nobody queues: whoever finds it locked looks again later, in the end ten times a
second, and whoever comes at the right moment goes first. Beside a busy server a worker may then wait for seconds,
while the disk has nothing to do. A lock on a file of its own is given by the system, at once, to one of those who wait.
It saves waiting and nothing else: what SQLite guarantees it guarantees without it, also beside a program that does not
know of it. So nobody waits for it for ever: one that is stopped in its turn costs the others one wait, then they go on
without turns until it has given its own back.

The system has no such lock with a time, so that a thread waits for it, where somebody has it.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MODE: Final = 0o600
#: Seconds that one waits for its turn.
_PATIENCE: Final = 10.0
#: The databases at which somebody waited for longer than that, and whose turn has not come yet.
_stuck: Final[set[Path]] = set()


@contextmanager
def turn_at(path: Path) -> Iterator[None]:
    """Wait for the turn to write to the database in ``path``, for a while, and give it back at the end.

    The turn of a process that dies is over.

    Raises:
        OSError: the lock file beside the database cannot be opened.
    """
    turn = _Turn(path)
    has_come = turn.take()
    try:
        yield
    finally:
        if has_come:
            turn.give_back()


class _Turn:
    """One turn, from the wait for it to its end. Whose turn did not come in time leaves it to the thread that waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        self._lock = threading.Lock()
        self._has_come = threading.Event()
        self._is_left = False

    def take(self) -> bool:
        """Wait for the turn; return whether it came in time."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._wait()
        except BaseException:
            os.close(self._handle)
            raise
        return True

    def give_back(self) -> None:
        """End the turn."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # a child that is just being begun may have the file open, too
        finally:
            os.close(self._handle)

    def _wait(self) -> bool:
        if self._path in _stuck:
            os.close(self._handle)
            return False
        threading.Thread(target=self._await, name="skillwire-turn", daemon=True).start()
        try:
            self._has_come.wait(_PATIENCE)
        except BaseException:  # nobody is left to give it back
            if not self._leave():
                self.give_back()
            raise
        return not self._leave()

    def _leave(self) -> bool:
        """Leave the turn to the thread that waits for it, unless it has come; return whether it is left."""
        with self._lock:
            self._is_left = not self._has_come.is_set()
            if self._is_left:
                _stuck.add(self._path)
        return self._is_left

    def _await(self) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_EX)
        with self._lock:
            if self._is_left:
                _stuck.discard(self._path)
                self.give_back()
            else:
                self._has_come.set()
