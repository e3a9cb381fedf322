"""The database from an event loop: reads in threads, and writes by one thread that commits them in groups.

A durable commit waits for the disk equally long whether it holds one row or two hundred. So each write is handed to
the writer thread while its caller waits on the event loop. The thread takes all writes that have come, does them in one
transaction, each undone alone when it fails, and calls back when the transaction is on the disk, never before. One call
to the event loop wakes all callers of a group.

Now and then the thread looks whether another process has written, which SQLite shows each connection as one number. The
thread ends when it has been idle for a while and no watcher waits for such changes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from skillwire.adapters.sql.connection import Connection, Values
from skillwire.adapters.sqlite.database import Database
from skillwire.errors import StorageError

T = TypeVar("T")

#: How many writes one transaction holds at most, so that the first of them does not wait for the last of thousands.
_GROUP: Final = 256
#: Seconds between two looks at what other processes write, and until an idle thread ends.
_LOOK: Final = 0.25


def _bound(statement: str, values: Values) -> Values | Mapping[str, Any]:
    """Return values by name for ``?1``: Python 3.12 warns of a sequence for such a placeholder, and 3.14 refuses it."""
    return {str(number): value for number, value in enumerate(values, 1)} if "?1" in statement else values


class SqliteConnection:
    """Fills :class:`skillwire.adapters.sql.connection.Connection`: what it awaits has come already."""

    locked: Final = ""  # there is one writer at a time
    skip_locked: Final = ""
    refusals: Final = (sqlite3.IntegrityError, sqlite3.DataError)

    def __init__(self, database: Database, connection: sqlite3.Connection) -> None:
        self._database = database
        self._connection = connection

    @property
    def is_usable(self) -> bool:
        return self._connection.in_transaction

    async def rows(self, query: str, values: Values = ()) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(query, _bound(query, values)).fetchall()

    async def row(self, query: str, values: Values = ()) -> Any:  # as the protocol has it
        return self._connection.execute(query, _bound(query, values)).fetchone()

    async def value(self, query: str, values: Values = ()) -> Any:  # of any column
        row = self._connection.execute(query, _bound(query, values)).fetchone()
        return None if row is None else row[0]

    async def run(self, statement: str, values: Values = ()) -> int:
        return self._connection.execute(statement, _bound(statement, values)).rowcount

    async def run_many(self, statement: str, rows: Iterable[Values]) -> None:
        self._connection.executemany(statement, (_bound(statement, row) for row in rows))

    async def continue_numbers(self, table: str) -> None:
        """Do nothing: the next number is always behind the greatest."""

    @asynccontextmanager
    async def part(self) -> AsyncIterator[None]:
        with self._database.writing():
            yield


def finish(awaitable: Awaitable[T]) -> T:
    """Return the result of a call that waits for nothing, since its connection is a :class:`SqliteConnection`."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a store waited for something else than its database")


class _Write(NamedTuple):
    """A write, the future of its caller, and since when it waits."""

    call: Callable[[Connection], Awaitable[Any]]
    future: asyncio.Future[Any]
    since: float


#: The writes that one thread does, in their order; None is the last.
_Writes = SimpleQueue["_Write | None"]
_Result = tuple["asyncio.Future[Any]", Any, BaseException | None]


class AsyncDatabase:
    """Reads and writes ``database`` for event loops. Raises StorageError (``DATABASE``).

    The writer thread begins with the first write and ends with :meth:`close`, or when it has been idle.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._version = 0
        self._looked = 0.0
        self._lock = threading.Lock()
        self._writes: _Writes | None = None
        self._thread: threading.Thread | None = None
        self._watchers: list[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = []
        self._has_failed = False
        self._waited = 0.0

    async def read(self, call: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what ``call`` returns, done in a thread; its queries see one moment."""

        def read() -> T:
            with self.database.reading() as connection:
                connection.execute("BEGIN")
                try:
                    return finish(call(SqliteConnection(self.database, connection)))
                finally:
                    connection.execute("ROLLBACK")

        return await asyncio.to_thread(read)

    async def write(self, call: Callable[[Connection], Awaitable[T]], turn: str = "") -> T:  # noqa: ARG002  # all have one
        """Return the result of ``call`` once its writes are on the disk; cancelling the caller undoes nothing."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._writes is None:
                self._writes = SimpleQueue()
                work = partial(self._work, self._writes, self._thread)
                self._thread = threading.Thread(target=work, name="skillwire-writer", daemon=True)
                self._thread.start()
            self._writes.put(_Write(call, future, time.monotonic()))
        return await future

    async def exists(self) -> bool:
        """Whether there is a file."""
        return await asyncio.to_thread(self.database.path.exists)

    async def shrink(self) -> int:
        """Give some free pages back to the disk; return how many are left."""
        return await asyncio.to_thread(self.database.shrink)

    async def check(self) -> None:
        """Write something if a write failed since this last succeeded. Raises StorageError (``DATABASE``)."""
        if self._has_failed:
            await asyncio.to_thread(self.database.check_disk_space)
            self._has_failed = False  # a failing write sets it again
            await self.write(lambda connection: connection.run("UPDATE migrations SET checksum = checksum"))

    async def find_obstacle(self) -> str:
        """Return whether the disk is full, or cannot be written."""

        def look() -> str:
            try:
                if self.database.path.parent.exists():
                    self.database.check_disk_space()
            except StorageError as error:
                return f"the disk cannot be written: {error.message}"
            return ""

        return await asyncio.to_thread(look)

    def statistics(self) -> Mapping[str, float]:
        """Return the seconds that writes waited for the writer."""
        return {"wait_seconds": self._waited}

    def watch(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` on the running event loop whenever another connection has written."""
        self._watchers.append((asyncio.get_running_loop(), changed))

    async def close(self) -> None:
        """Finish the writes that were handed in, and end the thread. A later write begins another one."""
        self._watchers.clear()
        with self._lock:
            thread, waiting, self._writes = self._thread, self._writes, None
            if waiting is not None:
                waiting.put(None)
        if thread is not None:
            await asyncio.to_thread(thread.join)

    def _work(self, waiting: _Writes, before: threading.Thread | None) -> None:
        if before is not None:  # its transactions come first
            before.join()
        is_closing = False
        while not is_closing:
            taken: list[_Write | None] = []
            with suppress(Empty):
                taken.append(waiting.get(timeout=_LOOK))
                while len(taken) < _GROUP:
                    taken.append(waiting.get(block=False))
            if not taken and not self._watchers:
                with self._lock:
                    if self._writes is waiting and waiting.empty():
                        self._writes, is_closing = None, True
            writes = [one for one in taken if one is not None]
            is_closing |= len(writes) < len(taken)
            if writes:
                now = time.monotonic()
                self._waited += sum(now - one.since for one in writes)
                results = self._write(writes)
                for loop in {future.get_loop() for future, _, _ in results}:  # one call wakes all callers of a loop
                    _call(loop, partial(_deliver, [one for one in results if one[0].get_loop() is loop]))
            self._look()
        self.database.close()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            version = self.database.version()
        except StorageError:  # the next write reports it
            return
        if version != self._version:
            self._version = version
            for watcher in tuple(self._watchers):
                _call(*watcher)

    def _write(self, writes: list[_Write]) -> list[_Result]:
        try:
            with self.database.writing() as connection:
                results = [self._do(write, connection) for write in writes]
        except Exception as error:  # noqa: BLE001  # nothing was committed, and each caller gets the error
            results = [(write.future, None, error) for write in writes]
        self._has_failed |= any(isinstance(error, StorageError) for _, _, error in results)
        return results

    def _do(self, write: _Write, connection: sqlite3.Connection) -> _Result:
        try:
            with self.database.writing():  # a part, so that all of it is undone when it fails
                return write.future, finish(write.call(SqliteConnection(self.database, connection))), None
        except Exception as error:
            if not connection.in_transaction:  # it undid the others too, as a full disk does
                raise
            return write.future, None, error


def _call(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop is closed, and nothing waits on it any more
        loop.call_soon_threadsafe(call)


def _deliver(results: list[_Result]) -> None:
    for future, value, error in results:
        if future.done():  # its caller was cancelled; the write stands
            continue
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)
