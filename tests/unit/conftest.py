"""Unit tests open no socket, start no process and do not sleep; a test that needs one of these is an integration test.

What is refused here raises where it is called. Sockets in pairs are allowed, an event loop has one to wake itself. A
sleep of an event loop is allowed in code under test, where it is a timer in the background, and in a test whose time is
virtual (``tests/support/virtual_time.py``). So is the sleep of a background thread, which waits for a lock of SQLite.
A wait with a time limit is a sleep once the limit runs out, and none when what it waits for comes earlier. Locks are
not covered, and neither are queues that a module imported as ``SimpleQueue``: both are types written in C.
"""

import _posixsubprocess
import asyncio
import os
import pty
import queue
import select
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest
from tests.support.virtual_time import VirtualTimeLoop, VirtualTimeSelector

TESTS = str(Path(__file__).parents[1])
STANDARD_LIBRARY = str(Path(threading.__file__).parent)
_sleep = asyncio.sleep
_timeout = asyncio.timeout
_wait_for = asyncio.wait_for
_sleep_of_thread = time.sleep
_wait_of_thread = threading.Condition.wait
_join = threading.Thread.join
_select = select.select
_poll = select.poll
_epoll = select.epoll
EVENT_LOOP = asyncio.base_events.__file__
#: Seconds that code under test may wait in vain: how long it leaves a call alone before it starts a second thread.
PATIENCE = 0.01


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
    if not is_notified:
        _check_run_out(timeout)
    return is_notified


def _check_run_out(timeout: float | None, *, patience: float = 0.0) -> None:
    """Refuse a wait that ran out, of the main thread or of a test; its caller is what stands in for the function."""
    is_of_test = _is_of_test(2)
    is_long = timeout is not None and timeout > (0 if is_of_test else patience)
    if is_long and (is_of_test or threading.current_thread() is threading.main_thread()):
        _waits()


def _join_in_background(thread: threading.Thread, timeout: float | None = None) -> None:
    _join(thread, timeout)
    if thread.is_alive():
        _check_run_out(timeout)


class _Queue(queue.SimpleQueue[Any]):
    def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002  # as queues have it
        try:
            return super().get(block, timeout)
        except queue.Empty:
            if block:
                _check_run_out(timeout, patience=PATIENCE)
            raise


def _select_in_background(reads: Any, writes: Any, errors: Any, timeout: float | None = None) -> Any:
    found = _select(reads, writes, errors, timeout)
    if not any(found):
        _check_run_out(timeout)
    return found


class _Poll:
    """Stands in for ``select.poll`` and ``select.epoll``."""

    def __init__(self, make: Callable[..., Any], *options: int) -> None:
        self._poll = make(*options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._poll, name)

    def poll(self, timeout: float | None = None, *most: int) -> Any:
        found = self._poll.poll(timeout, *most)
        if not found:
            _check_run_out(timeout)
        return found


def _selector_in_background(select_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return what stands in for the method ``select`` of a selector; an event loop waits in it for its timers."""

    def select(selector: selectors.BaseSelector, timeout: float | None = None) -> Any:
        found, caller = select_of(selector, timeout), sys._getframe(1)
        is_loop = caller.f_code.co_filename == EVENT_LOOP or isinstance(selector, VirtualTimeSelector)
        if not found and not is_loop:
            _check_run_out(timeout)
        return found

    return select


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
    monkeypatch.setattr(threading.Thread, "join", _join_in_background)
    monkeypatch.setattr(queue, "SimpleQueue", _Queue)
    monkeypatch.setattr(select, "select", _select_in_background)
    monkeypatch.setattr(select, "poll", partial(_Poll, _poll))
    monkeypatch.setattr(select, "epoll", partial(_Poll, _epoll))
    for kind in (selectors.SelectSelector, selectors.PollSelector, selectors.EpollSelector):
        monkeypatch.setattr(kind, "select", _selector_in_background(kind.select))
    monkeypatch.setattr(asyncio, "sleep", _sleep_in_virtual_time)
    monkeypatch.setattr(asyncio, "timeout", _timeout_in_virtual_time)
    monkeypatch.setattr(asyncio, "wait_for", _wait_for_in_virtual_time)
