"""Group commit: one thread writes, and what is handed in while it commits is committed together.

A durable commit waits for the disk, for as long whether it holds one row or two hundred. So each write is handed to
the thread with its caller waiting on the event loop; the thread takes all that there are, does them in one transaction,
each undone alone when it fails, and tells their callers when the transaction is on the disk, never before. It tells all
of them with one call to their event loop.

Now and then the thread looks whether other processes have written, which SQLite tells each connection with one number.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

from skillwire.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from sqlite3 import Connection

    from skillwire.adapters.sqlite.database import Database

T = TypeVar("T")

#: How many writes one transaction holds at most, so that the first of them does not wait for ever.
_TOGETHER: Final = 256
#: Seconds between two looks at what others write.
_LOOK: Final = 0.25


class _Write(NamedTuple):
    """What is to be done, and who is told of it, on which event loop: the result, and the error where there is one."""

    call: Callable[[], Any]
    told: Callable[[Any, BaseException | None], object]
    loop: asyncio.AbstractEventLoop


class _WriterRun:
    """What one thread has to write, and whether it ends then. The next thread begins when it has ended."""

    def __init__(self) -> None:
        self.waiting: deque[_Write] = deque()
        self.is_closing = False


class _Done(NamedTuple):
    """What came of a write."""

    write: _Write
    result: Any
    error: BaseException | None


class GroupCommit:
    """Writes to ``database``, from any number of callers of one event loop.

    The thread begins with the first write and ends with :meth:`close`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._version = 0
        self._looked = 0.0
        self._wanted = threading.Condition()
        self._shift: _WriterRun | None = None
        self._thread: threading.Thread | None = None
        self._watcher: tuple[asyncio.AbstractEventLoop, Callable[[], object]] | None = None

    def watch(self, changed: Callable[[], object]) -> None:
        """Let the running event loop call ``changed`` whenever another connection has written."""
        self._watcher = asyncio.get_running_loop(), changed

    async def run(self, call: Callable[[], T], *, then: Callable[[T], object] = lambda _: None) -> T:
        """Return what ``call`` returns, once all that it wrote is on the disk.

        ``then`` is called with that before, on the event loop: also when whoever waits here was cancelled meanwhile,
        since what is written stands.

        Raises:
            StorageError: ``DATABASE`` when it could not be committed. Whatever ``call`` raises: it wrote nothing then.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def told(result: T | None, error: BaseException | None) -> None:
            if error is None:
                then(cast("T", result))
            _settle(future, result, error)

        self.hand_in(call, told)
        return await future

    def hand_in(self, call: Callable[[], T], told: Callable[[T | None, BaseException | None], object]) -> None:
        """Let ``call`` be done as :meth:`run` does; ``told`` is called with what it returned, or with the error.

        Both belong to the running event loop: it calls ``told``, and never before this returns.
        """
        write = _Write(call, told, asyncio.get_running_loop())
        with self._wanted:
            if self._shift is None:
                self._shift = _WriterRun()
                work = partial(self._work, self._shift, self._thread)
                self._thread = threading.Thread(target=work, name="skillwire-writer", daemon=True)
                self._thread.start()
            self._shift.waiting.append(write)
            self._wanted.notify_all()

    def close(self) -> None:
        """Write what was handed in, and end the thread; what is handed in later has another one."""
        with self._wanted:
            thread, shift, self._shift = self._thread, self._shift, None
            if shift is not None:
                shift.is_closing = True
            self._wanted.notify_all()
        if thread is not None:
            thread.join()

    def _work(self, shift: _WriterRun, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        waiting = shift.waiting
        while True:
            with self._wanted:
                if not waiting and not shift.is_closing:
                    self._wanted.wait(_LOOK)
                is_closing = shift.is_closing and not waiting
                writes = [waiting.popleft() for _ in range(min(len(waiting), _TOGETHER))]
            if is_closing:
                self._database.close()
                return
            if writes:
                _notify_callers(self._write(writes))
            self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            version = self._database.version()
        except StorageError:  # whoever writes next is told
            return
        if version != self._version:
            self._version = version
            if self._watcher is not None:
                _call(*self._watcher)

    def _write(self, writes: list[_Write]) -> list[_Done]:
        try:
            with self._database.writing() as connection:
                return [self._do(write, connection) for write in writes]
        except Exception as error:  # noqa: BLE001  # nothing was committed: each caller is told so
            return [_Done(write, None, error) for write in writes]

    def _do(self, write: _Write, connection: Connection) -> _Done:
        try:
            with self._database.writing():  # a part, so that all of it is undone when it fails
                return _Done(write, write.call(), None)
        except Exception as error:
            if not connection.in_transaction:  # it undid the others too, as a full disk does
                raise
            return _Done(write, None, error)


def _notify_callers(done: list[_Done]) -> None:
    """Wake the callers, with one call to each event loop."""
    for loop in {one.write.loop for one in done}:
        _call(loop, partial(_call_back, loop, [one for one in done if one.write.loop is loop]))


def _call(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nobody waits there any more
        loop.call_soon_threadsafe(call)


def _call_back(loop: asyncio.AbstractEventLoop, done: list[_Done]) -> None:
    for write, result, error in done:
        loop.call_soon(write.told, result, error)


def _settle(future: asyncio.Future[T], result: T | None, error: BaseException | None) -> None:
    if future.done():  # its caller was cancelled; what it wrote stands
        return
    if error is None:
        future.set_result(cast("T", result))
    else:
        future.set_exception(error)
