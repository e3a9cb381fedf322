"""The one SQLite file under the state directory, for everything durable that is not a blob.

Each thread has a connection of its own. Writing is in WAL mode and synchronous, so a committed transaction is on the
disk. The steps of the schema that a database lacks are run when it is opened, each in a transaction with its row in the
table ``migrations``.

SQLite lets one process write at a time and has no queue: a process that finds the file locked tries again later, in
the end ten times a second, so beside a busy server a worker might wait for seconds. A lock on a file of its own, which
the system grants at once to the next process, saves that waiting. It adds no guarantee: a process that stops while it
holds the lock costs the others one wait, and then they go on without it.

Event loops read in threads, and write by one thread that commits in groups: a durable commit waits for the disk equally
long whether it holds one row or two hundred. So each write is handed to the writer thread while its caller waits on the
event loop. The thread takes all writes that have come, does them in one transaction, each undone alone when it fails,
and calls back when the transaction is on the disk, never before. One call to the event loop wakes all callers of a
group. Now and then the thread looks whether another process has written, which SQLite shows each connection as one
number. The thread ends when it has been idle for a while and no watcher waits for such changes.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from skillwire.adapters.sql import (
    Connection,
    Migration,
    Values,
    database_in_use,
    pending_migrations,
    read_migrations,
)
from skillwire.errors import SourceLocation, StorageError

_MODE: Final = 0o600
#: Seconds that one waits for its turn.
_TURN_SECONDS: Final = 10.0
#: Databases for which a wait for the turn timed out and still goes on.
_overdue: Final[set[Path]] = set()


@contextmanager
def write_turn(path: Path) -> Iterator[None]:
    """Wait a while for the turn to write to ``path``; a dead process's turn is over. Raises OSError."""
    turn = _Turn(path)
    has_come = turn.take()
    try:
        yield
    finally:
        if has_come:
            turn.give_back()


class _Turn:
    """One turn: the wait, the work and its end. A turn that did not come in time is left to the thread that waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle = os.open(f"{path}-turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        self._lock = threading.Lock()
        self._is_acquired = threading.Event()
        self._is_abandoned = False

    def take(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._wait()
        except BaseException:
            os.close(self._handle)
            raise
        return True

    def give_back(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_UN)  # a child that is just being begun may have the file open, too
        finally:
            os.close(self._handle)

    def _wait(self) -> bool:
        if self._path in _overdue:
            os.close(self._handle)
            return False

        def wait() -> None:
            fcntl.flock(self._handle, fcntl.LOCK_EX)
            with self._lock:
                if self._is_abandoned:
                    _overdue.discard(self._path)
                    self.give_back()
                else:
                    self._is_acquired.set()

        threading.Thread(target=wait, name="skillwire-turn", daemon=True).start()
        try:
            self._is_acquired.wait(_TURN_SECONDS)
        except BaseException:  # no caller is left to give it back
            if not self._abandon():
                self.give_back()
            raise
        return not self._abandon()

    def _abandon(self) -> bool:
        """Let the waiting thread release the lock unless it is acquired; return whether that is so."""
        with self._lock:
            self._is_abandoned = not self._is_acquired.is_set()
            if self._is_abandoned:
                _overdue.add(self._path)
        return self._is_abandoned


#: Seconds that a writer waits for another one.
_BUSY_SECONDS: Final = 10.0
_KIND: Final = 0xFF  # the part of an extended error code
#: Errors that a connection keeps when their cause is gone: of a read-only disk, and of damaged pages in its cache.
_LASTING: Final = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
#: Errors of a wrong statement, such as an unknown column: internal errors, which no later attempt avoids.
_DEFECTS: Final = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)
_SPACE_BYTES: Final = 1024 * 1024
_INCREMENTAL: Final = 2  # of the pragma auto_vacuum
_PAGES_AT_ONCE: Final = 1_000
_REWRITTEN_BYTES: Final = 512 * 1024 * 1024
#: The write-ahead log is cut to this size when it was larger.
_LOG_BYTES: Final = 16 * 1024 * 1024
_PACKAGE: Final = "skillwire.adapters.sqlite"
_TABLE: Final = "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, checksum TEXT NOT NULL) STRICT"
#: How a transaction begins, how it is committed, and how it is undone; and the same of a part of one.
_WHOLE: Final = ("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))
_PART: Final = ("SAVEPOINT part", "RELEASE part", ("ROLLBACK TO part", "RELEASE part"))


#: Its name in the state directory.
DATABASE: Final = "skillwire.db"
#: Folders beside it, for bytes that are too large for a row.
ARTIFACTS: Final = "artifacts"
OUTPUTS: Final = "outputs"
RUN_BLOBS: Final = "run-blobs"
_RESTORE: Final = "Stop the server, and restore a copy of the state directory."


def check_integrity(path: Path, seconds: float) -> bool:
    """Look for damage, changing nothing; return whether ``seconds`` were enough. Raises StorageError."""
    end, place = time.monotonic() + seconds, SourceLocation(str(path))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            connection.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return False
        raise StorageError("DATABASE", str(error), place=place, fix=_RESTORE) from error
    if found != "ok":
        raise StorageError("DATABASE", f"it is damaged: {' '.join(found.split())}", place=place, fix=_RESTORE)
    return True


class Database:
    """The database in ``path``, opened or migrated with the first connection.

    Raises StorageError (``DATABASE``) for every error of the database but that of a wrong statement.
    """

    def __init__(self, path: Path, *, migrations: Sequence[Migration] | None = None) -> None:
        self.path = path
        self._migrations = read_migrations(_PACKAGE) if migrations is None else migrations
        self._local = threading.local()
        self._lock = threading.Lock()
        self._is_current = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give this thread's connection, to read with."""
        with self._errors():
            yield self._connection()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give this thread's connection in a transaction, committed at the end, undone by an error.

        A nested one is a part of the outer one, and undone alone by its own error.
        """
        with self._errors():
            connection = self._connection()
            is_part = connection.in_transaction
            with nullcontext() if is_part else write_turn(self.path):
                begin, commit, undo = _PART if is_part else _WHOLE
                connection.execute(begin)
                try:
                    yield connection
                    connection.execute(commit)
                except BaseException:
                    if connection.in_transaction:  # some errors, such as a full disk, have undone everything already
                        for statement in undo:
                            connection.execute(statement)
                    raise

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """Give this thread's connection while no other one can be opened.

        Raises ConflictError (``DATABASE_IN_USE``) while another one is open, as those of a server always are.
        """
        with self._errors(), write_turn(self.path):
            connection = self._connection()
            try:
                connection.execute("PRAGMA journal_mode = DELETE")  # which SQLite refuses while another one is open
                connection.execute("BEGIN EXCLUSIVE")
                yield connection
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & _KIND != sqlite3.SQLITE_BUSY:
                    raise
                raise database_in_use(str(self.path)) from error
            finally:
                self.close()

    def version(self) -> int:
        """Return a number that changes when another connection than this thread's has written."""
        with self.reading() as connection:
            return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def check_disk_space(self) -> None:
        """Write to a temporary file: a small transaction shows no full disk, because the log may have room left."""
        with self._errors(), tempfile.TemporaryFile(dir=self.path.parent) as file:
            file.write(bytes(_SPACE_BYTES))
            file.flush()  # an unbuffered write may be short without an error

    def shrink(self) -> int:
        """Give free pages at the end of the file back to the disk, some at a time; return how many are left.

        A file of an earlier version is rewritten for that once, unless it is large: nothing else can write meanwhile.
        """
        with self._errors(), write_turn(self.path):
            connection = self._connection()
            (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
            if mode != _INCREMENTAL:
                if self.path.stat().st_size > _REWRITTEN_BYTES:
                    return 0
                connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
                connection.execute("VACUUM")
            connection.executescript(f"PRAGMA incremental_vacuum({_PAGES_AT_ONCE})")  # execute would take one page
            return int(connection.execute("PRAGMA freelist_count").fetchone()[0])

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            self._local.connection = None
            connection.close()

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            return connection
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.path.exists():
            self.path.touch(mode=0o600)
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            deadline = time.monotonic() + _BUSY_SECONDS
            while True:  # SQLite does not wait when several processes switch to WAL at once
                try:
                    if self.path.stat().st_size == 0:  # on one with content it would wait for a writer, and write
                        connection.execute(f"PRAGMA auto_vacuum = {_INCREMENTAL}")
                    connection.execute("PRAGMA journal_mode = WAL")
                    break
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                        raise
                time.sleep(0.01)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES}")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA foreign_keys = ON")
            with self._lock:
                if not self._is_current:
                    self._migrate(connection)
                    self._is_current = True
        except BaseException:
            connection.close()
            raise
        self._local.connection, self._local.is_unusable = connection, not os.access(self.path, os.W_OK)
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        connection.execute(_TABLE)
        connection.execute("BEGIN IMMEDIATE")  # of two processes that begin at once, one waits here for the other
        try:
            done = dict(connection.execute("SELECT number, checksum FROM migrations"))
            for migration in pending_migrations(self._migrations, done, self._error):
                statement = ""  # one after the other: executescript would end the transaction
                for line in migration.script.splitlines(keepends=True):
                    statement += line
                    if sqlite3.complete_statement(statement):
                        connection.execute(statement)
                        statement = ""
                row = (migration.number, migration.checksum)
                connection.execute("INSERT INTO migrations VALUES (?, ?)", row)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.DatabaseError, OSError) as error:
            kind = getattr(error, "sqlite_errorcode", 0) & _KIND
            if kind in _DEFECTS or isinstance(error, sqlite3.ProgrammingError):
                raise
            if kind in _LASTING:
                self._local.is_unusable = True
            raise self._error(getattr(error, "strerror", None) or str(error), None) from error
        finally:
            # A connection of a read-only disk stays read-only, and makes read-only what the process opens beside it.
            connection = getattr(self._local, "connection", None)
            if connection is not None and self._local.is_unusable and not connection.in_transaction:
                self.close()

    def _error(self, message: str, fix: str | None) -> StorageError:
        return StorageError("DATABASE", message, place=SourceLocation(str(self.path)), fix=fix)


T = TypeVar("T")

#: How many writes one transaction holds at most, so that the first of them does not wait for the last of thousands.
_GROUP: Final = 256
#: Seconds between two looks at what other processes write, and until an idle thread ends.
_LOOK_SECONDS: Final = 0.25


def _bound(statement: str, values: Values) -> Values | Mapping[str, Any]:
    """Return values by name for ``?1``: Python 3.12 warns of a sequence for such a placeholder, and 3.14 refuses it."""
    return {str(number): value for number, value in enumerate(values, 1)} if "?1" in statement else values


class SqliteConnection:
    """Fills :class:`skillwire.adapters.sql.Connection`: what it awaits has come already."""

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

    async def run_blocking(self, call: Callable[..., T], *args: Any) -> T:
        return call(*args)  # in this thread

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

    The writer thread begins with the first write or watcher; it ends with :meth:`close`, or when it has been idle.
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
        def read() -> T:
            with self.database.reading() as connection:
                connection.execute("BEGIN")
                try:
                    return finish(call(SqliteConnection(self.database, connection)))
                finally:
                    connection.execute("ROLLBACK")

        return await asyncio.to_thread(read)

    async def write(self, call: Callable[[Connection], Awaitable[T]], turn: str = "") -> T:  # noqa: ARG002  # all have one
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._handed().put(_Write(call, future, time.monotonic()))
        return await future

    def _handed(self) -> _Writes:
        """Return the writes of the thread, which is begun unless it runs; the caller holds the lock."""
        if self._writes is None:
            self._writes = SimpleQueue()
            work = partial(self._work, self._writes, self._thread)
            self._thread = threading.Thread(target=work, name="skillwire-writer", daemon=True)
            self._thread.start()
        return self._writes

    async def exists(self) -> bool:
        return await asyncio.to_thread(self.database.path.exists)

    async def shrink(self) -> int:
        """Give some free pages back to the disk; return how many are left."""
        return await asyncio.to_thread(self.database.shrink)

    async def check(self) -> None:
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
        return {"wait_seconds": self._waited}

    def watch(self, changed: Callable[[], object]) -> None:
        self._watchers.append((asyncio.get_running_loop(), changed))
        with self._lock:
            self._handed()

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
                taken.append(waiting.get(timeout=_LOOK_SECONDS))
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
        if now - self._looked < _LOOK_SECONDS:
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
