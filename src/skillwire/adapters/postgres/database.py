"""A PostgreSQL database that any number of servers share.

Each write is one transaction. Those of a store with a turn hold an advisory lock of its name until they are committed,
so their numbers rise in the order of the commits, in all servers. While one of them is under way, the next ones of this
server gather, and are done together in one transaction: they share the waits for the lock and for the disk. When one of
them fails, all are undone and done again, each in a part of its own.

The other servers are notified a moment after a commit, outside the transaction, because PostgreSQL lets only one
transaction with a notification commit at a time. They also look by themselves once in a while.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

import asyncpg

from skillwire import limits
from skillwire.adapters.postgres.connection import (
    FAILED,
    LOST,
    PASSING,
    Hosts,
    Pool,
    PostgresConnection,
    ReadConnection,
    SecondQuery,
)
from skillwire.adapters.sql import Connection, Migration, pending_migrations, read_migrations
from skillwire.errors import StorageError
from skillwire.model.execution import Moment

T = TypeVar("T")

#: How many writes one transaction holds at most.
_GROUP: Final = 256
#: How often a transaction is tried that conflicts with others.
_TRIES: Final = 5
_CHANNEL: Final = "skillwire"
#: Seconds in which the writes of a server become one notification.
_DEBOUNCE: Final = 0.02
#: Seconds between two looks for what was written without one.
_POLL: Final = 1.0
#: Seconds for a statement that changes the schema or copies a table, which may be large.
_MAINTENANCE_SECONDS: Final = 3600.0
#: The advisory lock that each server shares, and a copy into the database has alone.
IN_USE: Final = "hashtextextended('skillwire copy', 0)"
#: There is such a table until a copy is complete.
UNFINISHED_COPY: Final = "unfinished_copy"
_TABLE: Final = "CREATE TABLE IF NOT EXISTS migrations (number BIGINT PRIMARY KEY, checksum TEXT NOT NULL)"
#: The start of the database's clock, the same in all servers.
BOOT: Final = "postgresql"
#: Seconds between two measurements of it, and between two looks whether a connection was lost.
_MEASURED_SECONDS: Final = 60.0
_LOOK: Final = 1.0
#: How often one measurement asks; the quickest answer counts.
_ASKS: Final = 3
_NOW: Final = "SELECT CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"
#: It goes on while a machine sleeps, which time.monotonic does not everywhere.
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Schema(NamedTuple):
    """The version of PostgreSQL, and the steps of the schema that were run and that were not, by name."""

    server: str
    done: Sequence[str]
    pending: Sequence[str]


class _Write(NamedTuple):
    """A write, and the future of its caller."""

    call: Callable[[Connection], Awaitable[Any]]
    future: asyncio.Future[Any]


class _Loop:
    """What belongs to one event loop: its connections, and the writes that wait for each turn."""

    def __init__(self, hosts: Hosts, connections: int) -> None:
        self.pool = Pool(hosts, connections)
        self.turns: dict[str, deque[_Write]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.watchers: list[Callable[[], object]] = []
        self.watching: asyncio.Task[None] | None = None
        self.is_notifying = False

    def start(self, work: Callable[[], Any]) -> asyncio.Task[None]:
        """Run ``work`` beside its caller, who may be cancelled."""
        task = asyncio.get_running_loop().create_task(work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


class PostgresDatabase:
    """Fills :class:`skillwire.adapters.sql.Database` with the database at ``url``.

    Args:
        url: of PostgreSQL, with several hosts where one of them is the primary at a time.
        connections: how many each event loop opens at most.
        may_migrate: whether missing steps of the schema are run when it is opened.
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int = limits.POSTGRES_CONNECTIONS,
        may_migrate: bool = True,
        migrations: Sequence[Migration] | None = None,
    ) -> None:
        self.hosts = Hosts(url)
        self.counters = self.hosts.counters
        self._connections = connections
        self._may_migrate = may_migrate
        self._migrations = read_migrations("skillwire.adapters.postgres") if migrations is None else migrations
        self._loops: dict[asyncio.AbstractEventLoop, _Loop] = {}
        self._lock = threading.Lock()
        self._is_open = self._is_current = False
        self._has_failed = False
        self._name = secrets.token_hex(8)

    async def read(self, call: Callable[[Connection], Awaitable[T]]) -> T:
        loop = await self._opened()
        while True:
            async with loop.pool.connection() as connection:
                reading = ReadConnection(connection, self.hosts)
                try:
                    return await call(reading)
                except SecondQuery:
                    continue
                finally:
                    await reading.end()

    async def write(self, call: Callable[[Connection], Awaitable[T]], turn: str = "") -> T:
        loop = await self._opened()
        write = _Write(call, asyncio.get_running_loop().create_future())
        if not turn:
            loop.start(lambda: self._work(loop, "", deque([write])))
        elif turn in loop.turns:
            loop.turns[turn].append(write)
        else:
            waiting = loop.turns[turn] = deque([write])
            loop.start(lambda: self._work(loop, turn, waiting))
        result: T = await write.future
        return result

    async def exists(self) -> bool:
        async with self._loop().pool.connection() as connection:
            return bool(await connection.fetchval("SELECT to_regclass('migrations') IS NOT NULL"))

    async def pending(self) -> Sequence[str]:
        """Return the names of the steps of the schema that were not run yet."""
        async with self._loop().pool.connection() as connection:
            return [migration.name for migration in await self._pending(connection)]

    async def describe(self) -> Schema:
        """Return what is there, without changing it. Raises StorageError for what this version cannot use."""
        async with self._loop().pool.connection() as connection:
            version = await connection.fetchval("SHOW server_version")
            pending = [migration.name for migration in await self._pending(connection)]
            await self._refuse_unfinished(connection)
        return Schema(version, [one.name for one in self._migrations if one.name not in pending], pending)

    async def migrate(self) -> None:
        """Run the missing steps of the schema; one server at a time does."""
        async with self.maintenance() as connection, connection.transaction():
            await connection.execute(_take_turn("migrations"))
            await connection.execute(_TABLE)
            for migration in await self._pending(connection):
                await connection.execute(migration.script)
                row = (migration.number, migration.checksum)
                await connection.execute("INSERT INTO migrations VALUES ($1, $2)", *row)

    @asynccontextmanager
    async def maintenance(self) -> AsyncIterator[asyncpg.Connection]:
        """Give a connection whose statements may take long. Raises StorageError (``DATABASE``)."""
        try:
            connection = await self.hosts.connect(_MAINTENANCE_SECONDS)
            try:
                for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
                    await connection.execute(f"SET {name} = 0")
                yield connection
            finally:
                connection.terminate()
        except FAILED as error:
            raise self.hosts.error(error) from error

    async def shrink(self) -> int:
        """Return 0: the database gives space back by itself."""
        return 0

    async def check(self) -> None:
        if self._has_failed:
            self._has_failed = False
            await self.write(lambda connection: connection.run("UPDATE migrations SET checksum = checksum"))

    async def find_obstacle(self) -> str:
        """Return which migration is pending. Raises StorageError where the database does not answer."""
        if not self._is_current and (pending := await self.pending()):  # later ones are of a newer server
            return f"the migration {pending[0]} is pending"
        await self.check()
        async with self._loop().pool.connection() as connection:
            await connection.fetchval("SELECT 1")
        return ""

    def statistics(self) -> Mapping[str, float]:
        counters = asdict(self.counters)
        return {"wait_seconds": counters.pop("waited"), **counters}

    @cached_property
    def clock(self) -> PostgresClock:
        """Its time, which is known after :meth:`PostgresClock.measure`."""
        return PostgresClock(self)

    def watch(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` on the running event loop whenever another server has written, and at other times."""
        loop = self._loop()
        loop.watchers.append(changed)
        if loop.watching is None:
            loop.watching = loop.start(lambda: self._watch(loop.watchers))
        else:  # the others have heard of what is there
            asyncio.get_running_loop().call_soon(changed)

    async def close(self) -> None:
        """Finish the writes that were handed in on this event loop, and close its connections."""
        with self._lock:
            loop = self._loops.pop(asyncio.get_running_loop(), None)
        if loop is not None:
            if loop.watching is not None:
                loop.watching.cancel()
            await asyncio.gather(*loop.tasks, return_exceptions=True)
            await loop.pool.close()

    def _loop(self) -> _Loop:
        running = asyncio.get_running_loop()
        loop = self._loops.get(running)
        if loop is None:
            with self._lock:
                for ended in [one for one in self._loops if one.is_closed()]:
                    del self._loops[ended]
                loop = self._loops[running] = _Loop(self.hosts, self._connections)
        return loop

    async def _opened(self) -> _Loop:
        """Return what belongs to the running event loop, once the schema is there."""
        if not self._is_open:
            pending = await self.pending()
            if pending and self._may_migrate:
                await self.migrate()
            elif pending and not await self.exists():
                raise self.hosts.error(f"its schema lacks {pending[0]}", "Run the migrations first.")
            async with self._loop().pool.connection() as connection:
                await self._refuse_unfinished(connection)
            self._is_open, self._is_current = True, self._may_migrate or not pending
        return self._loop()

    async def _refuse_unfinished(self, connection: asyncpg.Connection) -> None:
        if await connection.fetchval(f"SELECT to_regclass('{UNFINISHED_COPY}') IS NOT NULL"):
            raise self.hosts.error("a copy into it is not complete", "Run skillwire registry migrate again.")

    async def _pending(self, connection: asyncpg.Connection) -> list[Migration]:
        is_new = await connection.fetchval("SELECT to_regclass('migrations') IS NULL")
        try:
            done = [] if is_new else await connection.fetch("SELECT number, checksum FROM migrations")
        except asyncpg.UndefinedColumnError as error:
            message = "its table migrations is that of another program"
            raise self.hosts.error(message, "Create a database for skillwire alone, and name it.") from error
        return pending_migrations(self._migrations, dict(map(tuple, done)), self.hosts.error)

    async def _work(self, loop: _Loop, turn: str, waiting: deque[_Write]) -> None:
        while waiting:
            writes = [waiting.popleft() for _ in range(min(len(waiting), _GROUP))]
            try:
                results = await self._transact(loop, turn, writes)
            except Exception as error:  # noqa: BLE001  # nothing was committed, and each caller gets the error
                if isinstance(error, StorageError) and isinstance(error.__cause__, LOST):
                    self._has_failed = True
                    writes += waiting  # the next one would wait for as long
                    waiting.clear()
                results = [error] * len(writes)
            for write, result in zip(writes, results, strict=True):
                if write.future.done():
                    continue  # its caller was cancelled; the write stands
                if isinstance(result, Exception):
                    write.future.set_exception(result)
                else:
                    write.future.set_result(result)
        loop.turns.pop(turn, None)

    async def _transact(self, loop: _Loop, turn: str, writes: Sequence[_Write]) -> Sequence[Any]:
        are_parts, tries = False, 0
        while True:
            async with loop.pool.connection() as connection:
                try:
                    return await self._commit(loop, connection, turn, writes, are_parts=are_parts)
                except PASSING:
                    tries += 1
                    if tries == _TRIES:
                        raise
                except Exception as error:
                    if are_parts or len(writes) == 1 or isinstance(error, LOST):
                        raise
                    are_parts = True
            if tries:
                await asyncio.sleep(random.random() * _DEBOUNCE)  # noqa: S311  # so that two servers do not conflict again

    async def _commit(
        self, loop: _Loop, connection: asyncpg.Connection, turn: str, writes: Sequence[_Write], *, are_parts: bool
    ) -> Sequence[Any]:
        transaction = PostgresConnection(connection, self.hosts)
        await connection.execute(f"BEGIN; {_take_turn(turn)}" if turn else "BEGIN")
        try:
            results = [await self._do(transaction, write, is_part=are_parts) for write in writes]
        except Exception as error:
            if not isinstance(error, LOST) and not connection.is_closed():
                await connection.execute("ROLLBACK")
            raise
        if await connection.execute("COMMIT") != "COMMIT":
            raise asyncpg.InFailedSQLTransactionError("a part of it had failed")
        if transaction.has_written:  # else servers that look for work would wake each other for ever
            self._notify(loop)
        return results

    async def _do(self, transaction: PostgresConnection, write: _Write, *, is_part: bool) -> Any:
        if not is_part:
            return await write.call(transaction)
        try:
            async with transaction.part():
                return await write.call(transaction)
        except (*LOST, *PASSING):
            raise
        except Exception as error:  # noqa: BLE001  # its caller gets it
            return error

    def _notify(self, loop: _Loop) -> None:
        if loop.is_notifying:
            return
        loop.is_notifying = True

        async def notify() -> None:
            await asyncio.sleep(_DEBOUNCE)
            loop.is_notifying = False
            with suppress(StorageError):  # the others look by themselves
                async with loop.pool.connection() as connection:
                    await connection.execute("SELECT pg_notify($1, $2)", _CHANNEL, self._name)

        loop.start(notify)

    async def _watch(self, watchers: Sequence[Callable[[], object]]) -> None:
        def call_all() -> None:
            for changed in watchers:
                changed()

        def notified(_connection: object, _process: int, _channel: str, name: object) -> None:
            if name != self._name:
                self.counters.notifications += 1
                call_all()

        while True:
            with suppress(*FAILED):
                connection, seen = await self.hosts.connect(), ""
                try:
                    await connection.execute(f"SELECT pg_advisory_lock_shared({IN_USE})")
                    await connection.add_listener(_CHANNEL, notified)
                    while True:
                        now = await connection.fetchval("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
                        if now != seen:
                            seen = now
                            call_all()
                        await asyncio.sleep(_POLL)
                finally:
                    connection.terminate()
            self.counters.reconnects += 1
            await asyncio.sleep(_POLL)


def _take_turn(name: str) -> str:
    number = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big", signed=True)
    return f"SELECT pg_advisory_xact_lock({number})"


class PostgresClock:
    """The time of a shared database, for the servers that share it. Fills :class:`skillwire.ports.Clock`.

    Leases and deadlines are compared by several machines, whose clocks differ. So the time is that of the database: its
    distance from the local steady clock is measured at the start, every minute and after each lost connection. What the
    local wall clock shows changes nothing. ``steady`` returns the seconds of a local clock that is never set.
    """

    def __init__(
        self, database: PostgresDatabase, steady: Callable[[], float] = lambda: time.clock_gettime(_STEADY)
    ) -> None:
        self._database = database
        self._steady = steady
        self._offset: float | None = None

    def __call__(self) -> Moment:
        if self._offset is None:
            raise RuntimeError("the clock of the database was not measured yet")
        now = self._steady() + self._offset
        return Moment(now, now, BOOT)

    async def measure(self) -> None:
        """Measure the clock of the database. Raises StorageError (``DATABASE``)."""

        async def ask(connection: Connection) -> tuple[float, float]:
            best = float("inf"), 0.0
            for _ in range(_ASKS):
                began = self._steady()
                there: float = await connection.value(_NOW)
                took = self._steady() - began
                best = min(best, (took, there - began - took / 2))
            return best

        self._offset = (await self._database.read(ask))[1]

    async def keep(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Measure every minute and after each lost connection, until it is cancelled."""
        counters, measured, lost = self._database.counters, self._steady(), -1
        while True:
            await sleep(_LOOK)
            if self._steady() - measured >= _MEASURED_SECONDS or counters.reconnects != lost:
                lost = counters.reconnects
                try:
                    await self.measure()
                except StorageError:  # it is measured when the database is back
                    lost = -1
                measured = self._steady()
