"""Unit tests open no socket, start no process and do not sleep; a test that needs one of these is an integration test.

What is refused here raises where it is called. Sockets in pairs are allowed, an event loop has one to wake itself. A
sleep of an event loop is allowed in code under test, where it is a timer in the background, and in a test whose time is
virtual (``tests/support/virtual_time.py``). So is the sleep of a background thread, which waits for a lock of SQLite.
A wait with a time limit is a sleep once the limit runs out, and none when what it waits for comes earlier.
"""

import _posixsubprocess
import asyncio
import os
import pty
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from tests.support.virtual_time import VirtualTimeLoop

TESTS = str(Path(__file__).parents[1])
STANDARD_LIBRARY = str(Path(threading.__file__).parent)
_sleep = asyncio.sleep
_timeout = asyncio.timeout
_wait_for = asyncio.wait_for
_sleep_of_thread = time.sleep
_wait_of_thread = threading.Condition.wait


def refused(what: str) -> Callable[..., NoReturn]:
    """Return what stands in for a function that a unit test does without."""

    def refuse(*_: object, **__: object) -> NoReturn:
        # A BaseException passes code that is ready for an error of the system, and so fails the test all the same.
        pytest.fail(f"a unit test {what}: move it to tests/integration, or give it virtual time", pytrace=False)

    return refuse


_sleeps = refused("sleeps")
_waits = refused("waits until a time limit runs out")


def _is_of_test(depth: int) -> bool:
    """Whether the caller of that depth is a test, itself or by way of the standard library (a queue, a future)."""
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None and frame.f_code.co_filename.startswith(STANDARD_LIBRARY):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(TESTS)


def _is_in_earnest(delay: float | None) -> bool:
    return delay is not None and delay > 0 and not isinstance(asyncio.get_running_loop(), VirtualTimeLoop)


async def _sleep_in_virtual_time(delay: float, result: Any = None) -> Any:
    if sys._getframe(1).f_code.co_filename.startswith(TESTS) and _is_in_earnest(delay):
        _sleeps()
    return await _sleep(delay, result)


def _timeout_in_virtual_time(delay: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    is_bounded = _is_of_test(1) and _is_in_earnest(delay)
    return _bounded(delay) if is_bounded else _timeout(delay)


@asynccontextmanager
async def _bounded(delay: float | None) -> AsyncIterator[asyncio.Timeout]:
    timeout = None
    try:
        async with _timeout(delay) as timeout:
            yield timeout
    except TimeoutError:
        if timeout is not None and timeout.expired():
            _waits()
        raise


async def _wait_for_in_virtual_time(awaitable: Any, timeout: float | None) -> Any:  # noqa: ASYNC109  # as asyncio has it
    if not sys._getframe(1).f_code.co_filename.startswith(TESTS) or not _is_in_earnest(timeout):
        return await _wait_for(awaitable, timeout)
    async with _bounded(timeout):
        return await awaitable


def _sleep_in_background(seconds: float) -> None:
    if threading.current_thread() is threading.main_thread() or _is_of_test(1):
        _sleeps()
    _sleep_of_thread(seconds)


def _wait_in_background(condition: threading.Condition, timeout: float | None = None) -> bool:
    is_notified = _wait_of_thread(condition, timeout)
    runs_out = not is_notified and timeout is not None and timeout > 0
    if runs_out and (threading.current_thread() is threading.main_thread() or _is_of_test(1)):
        _waits()
    return is_notified


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a unit test do nothing that depends on the system around it."""
    for name in ("connect", "connect_ex", "bind", "sendto", "sendmsg"):
        monkeypatch.setattr(socket.socket, name, refused("opens a socket"))
    for name in ("getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refused("looks up a host"))
    for owner, name in [
        (subprocess.Popen, "__init__"),
        (_posixsubprocess, "fork_exec"),  # by which multiprocessing starts one
        (os, "fork"),
        (os, "forkpty"),
        (os, "posix_spawn"),
        (os, "posix_spawnp"),
        (os, "system"),
        (pty, "fork"),
    ]:
        monkeypatch.setattr(owner, name, refused("starts a process"))
    monkeypatch.setattr(time, "sleep", _sleep_in_background)
    monkeypatch.setattr(threading.Condition, "wait", _wait_in_background)
    monkeypatch.setattr(asyncio, "sleep", _sleep_in_virtual_time)
    monkeypatch.setattr(asyncio, "timeout", _timeout_in_virtual_time)
    monkeypatch.setattr(asyncio, "wait_for", _wait_for_in_virtual_time)
