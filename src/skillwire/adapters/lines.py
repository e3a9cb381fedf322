"""Lines of standard input and output, each bounded in length.

The streams may be pipes, terminals or files, so a daemon thread reads them and another writes. The reader waits when
its lines are not consumed, so only a few are in memory. Daemon threads do not keep the process alive when the host
leaves its end of a pipe open. Trust: lines are hostile; only their length is bounded here.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Final

_PIECE: Final = 64 * 1024
_WAITING: Final = 4
_LINE_END: Final = b"\n"


class LineSplitter:
    """Splits bytes into lines of at most ``most`` bytes, without their ends; a longer line yields None once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> list[bytes | None]:
        """Return the lines that have ended with ``data``."""
        *ended, rest = data.split(_LINE_END)
        lines = [self._end(part) for part in ended]
        self._keep(rest)
        return lines

    def end(self) -> list[bytes | None]:
        """Return the last line, if it has no end of its own."""
        return [self._end(b"")] if self._begun or self._is_too_long else []

    def _keep(self, part: bytes) -> None:
        if len(self._begun) + len(part) > self._most:
            self._is_too_long = True
            self._begun.clear()
        elif not self._is_too_long:
            self._begun += part

    def _end(self, part: bytes) -> bytes | None:
        self._keep(part)
        line = None if self._is_too_long else bytes(self._begun)
        self._begun.clear()
        self._is_too_long = False
        return line


async def lines_of(descriptor: int, most: int) -> AsyncIterator[bytes | None]:
    """Yield the lines of a file; None for one that is longer than ``most`` bytes. They end with the file."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[bytes | EOFError | None] = asyncio.Queue(_WAITING)

    def put(line: bytes | EOFError | None) -> None:
        putting = waiting.put(line)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        finally:
            putting.close()  # not awaited when the loop is closed

    def read() -> None:
        splitter = LineSplitter(most)
        # The loop ends or has ended, so nothing consumes the lines.
        with suppress(RuntimeError, CancelledError):
            while data := _read(descriptor):
                for line in splitter.feed(data):
                    put(line)
            for line in splitter.end():
                put(line)
            put(EOFError())

    threading.Thread(target=read, name="standard input", daemon=True).start()
    while not isinstance(line := await waiting.get(), EOFError):
        yield line


async def input_lines(most: int) -> AsyncIterator[bytes | None]:
    """Yield the lines of standard input as :func:`lines_of`; skills that run in this process then read an empty one."""
    async for line in lines_of(_take_input(), most):
        yield line


def _take_input() -> int:
    """Return a descriptor of standard input, and put an empty one in its place."""
    taken = os.dup(sys.stdin.fileno())
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123  # a descriptor is wanted
        os.dup2(nothing.fileno(), 0)
    return taken


class LineWriter:
    """Writes to a file descriptor, in order."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._waiting: queue.SimpleQueue[tuple[bytes, Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="standard output", daemon=True).start()

    async def write(self, data: bytes) -> None:
        """Return when ``data`` is written. Raises OSError; ``BrokenPipeError`` when the reader is gone."""
        done: Future[None] = Future()
        self._waiting.put((data, done))
        await asyncio.wrap_future(done)

    def _work(self) -> None:
        while True:
            data, done = self._waiting.get()
            if not done.set_running_or_notify_cancel():
                continue
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError as error:
                done.set_exception(error)
            else:
                done.set_result(None)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE)
    except OSError:  # a terminal that was closed
        return b""
