"""Unit tests open no socket, start no process and do not sleep; a test that needs one of these is an integration test.

What is refused here raises where it is called. Sockets in pairs are allowed, an event loop has one to wake itself. A
sleep of an event loop is allowed in code under test, where it is a timer in the background, and in a test whose time is
virtual (``tests/support/virtual_time.py``). So is the sleep of a background thread, which waits for a lock of SQLite.
"""

import asyncio
import os
import pty
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
from tests.support.virtual_time import VirtualTimeLoop

TESTS = str(Path(__file__).parents[1])
_sleep = asyncio.sleep
_sleep_of_thread = time.sleep


def refused(what: str) -> Callable[..., NoReturn]:
    """Return what stands in for a function that a unit test does without."""

    def refuse(*_: object, **__: object) -> NoReturn:
        # A BaseException passes code that is ready for an error of the system, and so fails the test all the same.
        pytest.fail(f"a unit test {what}: move it to tests/integration, or give it virtual time", pytrace=True)

    return refuse


async def _sleep_in_virtual_time(delay: float, result: Any = None) -> Any:
    caller = sys._getframe(1).f_code.co_filename
    if delay > 0 and caller.startswith(TESTS) and not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
        refused("sleeps")()
    return await _sleep(delay, result)


def _sleep_in_background(seconds: float) -> None:
    if threading.current_thread() is threading.main_thread() or sys._getframe(1).f_code.co_filename.startswith(TESTS):
        refused("sleeps")()
    _sleep_of_thread(seconds)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a unit test do nothing that depends on the system around it."""
    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, refused("opens a socket"))
    for owner, name in [
        (subprocess.Popen, "__init__"),
        (os, "fork"),
        (os, "forkpty"),
        (os, "posix_spawn"),
        (os, "posix_spawnp"),
        (pty, "fork"),
    ]:
        monkeypatch.setattr(owner, name, refused("starts a process"))
    monkeypatch.setattr(time, "sleep", _sleep_in_background)
    monkeypatch.setattr(asyncio, "sleep", _sleep_in_virtual_time)
