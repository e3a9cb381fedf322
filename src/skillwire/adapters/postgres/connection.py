"""Connections to PostgreSQL: the statements of the stores in its words, and a pool for each event loop.

Each statement has a deadline, so a database that hangs is reported like one that is down. Its connection is closed
then, since the answer might still come.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import asyncpg

from skillwire import limits
from skillwire.adapters.sql import Values
from skillwire.errors import SourceLocation, StorageError, UsageError

T = TypeVar("T")

_SETTINGS: Final = {
    "idle_in_transaction_session_timeout": f"{limits.POSTGRES_IDLE_SECONDS}s",
    "client_connection_check_interval": "1s",  # a statement of a server that died ends with it
    "jit": "off",  # the statements are short
}
#: Quoted texts, which stay as they are, and what is translated: lists in one value, values, and names of indexes.
_SQLITE: Final = re.compile(r"'[^']*'|json_each\(\?(\d*)\)|\?(\d*)| INDEXED BY \w+")
_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
#: Errors after which a connection and the idle ones beside it are closed.
LOST: Final = (
    OSError,  # also of the time
    asyncpg.PostgresConnectionError,
    asyncpg.ReadOnlySQLTransactionError,  # it was the primary
)
#: Errors of a pooler that gives each transaction another connection.
_POOLED: Final = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
#: What an operator does about an error of the database, and about any other one.
_FIXES: Final = (
    (_POOLED, "Let the pooler keep a connection for a whole session, such as PgBouncer with pool_mode = session."),
    (asyncpg.InvalidCatalogNameError, "Create the database with createdb, or correct its name in the URL."),
    (asyncpg.InvalidAuthorizationSpecificationError, "Correct the user and the password in the URL of the database."),
    (asyncpg.InsufficientPrivilegeError, "Make the user of the URL the owner of the database."),
)
_FIX: Final = "Check that PostgreSQL answers there, and the URL of the database."
#: Every error of the database, and of the way there.
FAILED: Final = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
#: Errors of a statement that are no defect of it.
_OF_PLACE: Final = (asyncpg.InsufficientPrivilegeError, *_POOLED)
#: Errors of a transaction that conflicts with another one, and may succeed when it is tried again.
PASSING: Final = (
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    asyncpg.InvalidCachedStatementError,  # another server changed the schema
)


def is_defect(error: BaseException) -> bool:
    """Whether the statement is wrong, as with an unknown column: an internal error, which no later attempt avoids."""
    return isinstance(error, asyncpg.SyntaxOrAccessError) and not isinstance(error, _OF_PLACE)


@cache
def translate(statement: str) -> str:
    """Return a statement of the stores as PostgreSQL has it."""
    numbers = count(1)

    def replace(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith("json_each"):
            return f"json_array_elements_text(${found[1] or next(numbers)}::json) AS json_each (value)"
        return f"${found[2] or next(numbers)}" if text.startswith("?") else "" if text.startswith(" ") else text

    return _SQLITE.sub(replace, statement)


class SecondQuery(BaseException):
    """A read asks more than once, so it begins again in a transaction. No ``except`` of a store keeps it."""


class PostgresConnection:
    """Fills :class:`skillwire.adapters.sql.Connection`."""

    locked: Final = " FOR UPDATE"
    skip_locked: Final = " FOR UPDATE SKIP LOCKED"
    refusals: Final = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)

    def __init__(self, connection: asyncpg.Connection, hosts: Hosts) -> None:
        self._connection = connection
        self._hosts = hosts
        self._is_over = False
        self.has_written = False  # whether other servers have a reason to look

    @property
    def is_usable(self) -> bool:
        return not (self._is_over or self._connection.is_closed())

    async def rows(self, query: str, values: Values = ()) -> Sequence[tuple[Any, ...]]:
        found = await self._connection.fetch(await self._begin(query), *values)
        self._note(query, found or None)
        return [tuple(record) for record in found]

    async def row(self, query: str, values: Values = ()) -> Any:  # as the protocol has it
        record = await self._connection.fetchrow(await self._begin(query), *values)
        self._note(query, record)
        return None if record is None else tuple(record)

    async def value(self, query: str, values: Values = ()) -> Any:  # of any column
        found = await self._connection.fetchval(await self._begin(query), *values)
        self._note(query, found)
        return found

    async def run(self, statement: str, values: Values = ()) -> int:
        status = await self._connection.execute(translate(statement), *values)
        number = int(status.rpartition(" ")[2])
        self._note(statement, number or None)
        return number

    async def run_many(self, statement: str, rows: Iterable[Values]) -> None:
        if listed := list(rows):
            await self._connection.executemany(translate(statement), listed)
            self.has_written = True

    def _note(self, statement: str, found: object) -> None:
        """Note whether a statement has changed a row, by what it returned."""
        self.has_written |= found is not None and not statement.startswith("SELECT")

    async def _begin(self, query: str) -> str:
        """Return the text of a query that is about to be run."""
        return translate(query)

    async def run_blocking(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.to_thread(call, *args)

    async def continue_numbers(self, table: str) -> None:
        greatest = f"(SELECT coalesce(max(number), 0) + 1 FROM {table})"  # noqa: S608  # a constant
        await self._connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', 'number'), {greatest}, FALSE)")

    @asynccontextmanager
    async def part(self) -> AsyncIterator[None]:
        await self._connection.execute("SAVEPOINT part")
        try:
            yield
        except BaseException as error:
            self._is_over |= isinstance(error, (*LOST, *PASSING))
            if self.is_usable:
                await self._connection.execute("ROLLBACK TO part; RELEASE part")
                if isinstance(error, asyncpg.PostgresError) and not is_defect(error):
                    raise self._hosts.error(error) from error
            raise
        await self._connection.execute("RELEASE part")


class ReadConnection(PostgresConnection):
    """A connection of a read: one query sees one moment by itself, and more of them in a transaction.

    Which first queries are followed by others is remembered, so that a read begins again once, not each time.
    """

    _followed: Final[set[str]] = set()

    def __init__(self, connection: asyncpg.Connection, hosts: Hosts) -> None:
        super().__init__(connection, hosts)
        self._first = ""
        self._has_begun = False

    async def end(self) -> None:
        """End the transaction if there is one."""
        if self._has_begun:
            await self._connection.execute("COMMIT")

    async def _begin(self, query: str) -> str:
        if not self._has_begun:
            if self._first:
                self._followed.add(self._first)
                raise SecondQuery
            self._first = query
            if query in self._followed:
                await self._connection.execute(_SNAPSHOT)
                self._has_begun = True
        return translate(query)


@dataclass
class Counters:
    """What the metrics of a server show about its database."""

    waited: float = 0.0  # seconds that calls waited for a connection
    reconnects: int = 0  # connections that were lost
    failovers: int = 0  # times that another host was the primary
    notifications: int = 0  # that other servers sent


class Hosts:
    """The database at ``url``, which may name several hosts; one of them is the primary.

    Raises UsageError (``USAGE``) for a URL that cannot be read.
    """

    def __init__(self, url: str) -> None:
        try:
            # urlsplit refuses several addresses in brackets, so each host gets a URL of its own.
            scheme, separator, rest = url.partition("://")
            authority = re.split("[/?#]", rest, maxsplit=1)[0]
            user, at, hosts = authority.rpartition("@")
            end = rest[len(authority) :]
            self._urls = [f"{scheme}{separator}{user}{at}{host}{end}" for host in hosts.split(",")]
            for one in self._urls:
                _ = urlsplit(one).port
        except ValueError:
            fix = "Write postgresql://USER@HOST:PORT/DATABASE."
            raise UsageError("USAGE", "the URL of the database has an invalid host or port", fix=fix) from None
        self._primary = ""
        self.place = f"{scheme}://{hosts}{urlsplit(self._urls[0]).path}"
        self.counters = Counters()

    async def connect(self, seconds: float | None = None) -> asyncpg.Connection:
        """Return a connection to the primary, tried first where it was found last; each statement has ``seconds``."""
        seconds = limits.POSTGRES_STATEMENT_SECONDS if seconds is None else seconds
        settings = {**_SETTINGS, "statement_timeout": f"{seconds}s", "lock_timeout": f"{seconds}s"}
        # Not when it connects: PgBouncer refuses such parameters.
        script = "; ".join(f"SET {name} = '{value}'" for name, value in settings.items())
        problem: Exception | None = None
        for url in sorted(self._urls, key=lambda one: one != self._primary):
            connection = None
            try:
                connection = await asyncpg.connect(
                    url,
                    timeout=limits.POSTGRES_CONNECT_SECONDS,
                    command_timeout=seconds,
                    server_settings={"application_name": "skillwire"},
                    target_session_attrs="primary",
                )
                await connection.execute(script)
            except FAILED as error:
                if connection is not None:
                    connection.terminate()
                problem = error if isinstance(problem, asyncpg.TargetServerAttributeNotMatched) else problem or error
                continue
            self.counters.failovers += self._primary not in {"", url}
            self._primary = url
            return connection
        raise problem or OSError("no host is named")

    def error(self, error: Exception | str, fix: str | None = None) -> StorageError:
        """Return an error of the database as one of ours, without the password."""
        if isinstance(error, TimeoutError):
            message = "it did not answer in time"
        elif isinstance(error, socket.gaierror):
            message = f"its host was not found: {error.strerror}"
        elif isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
            message = os.strerror(error.errno)  # a library puts the address into the text of its own
        else:
            message = str(error).partition("\n")[0]  # no rows
        fix = fix or next((text for kinds, text in _FIXES if isinstance(error, kinds)), _FIX)
        return StorageError("DATABASE", message, place=SourceLocation(self.place), fix=fix)


class Pool:
    """The connections of one event loop."""

    def __init__(self, hosts: Hosts, connections: int) -> None:
        self._hosts = hosts
        self._idle: list[asyncpg.Connection] = []
        self._places = asyncio.Semaphore(connections)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection]:
        """Give a connection; one that failed, or whose transaction is open, is closed afterwards.

        Raises StorageError (``DATABASE``) for every error of the database but that of a wrong statement.
        """
        try:
            await self._wait_for_place()
            try:
                connection = await self._take()
                try:
                    yield connection
                except LOST:
                    self._hosts.counters.reconnects += 1
                    for one in (connection, *self._idle):
                        one.terminate()
                    raise
                except asyncio.CancelledError:  # an answer is still to come
                    connection.terminate()
                    raise
                finally:
                    if not connection.is_closed() and connection.is_in_transaction():
                        connection.terminate()
                    if not connection.is_closed():
                        self._idle.append(connection)
            finally:
                self._places.release()
        except FAILED as error:
            if is_defect(error):
                raise
            raise self._hosts.error(error) from error

    async def _wait_for_place(self) -> None:
        begin = time.monotonic()
        try:
            async with asyncio.timeout(limits.POSTGRES_CONNECT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            message = f"all connections were in use for {limits.POSTGRES_CONNECT_SECONDS} seconds"
            raise self._hosts.error(message) from None
        finally:
            self._hosts.counters.waited += time.monotonic() - begin

    async def _take(self) -> asyncpg.Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._hosts.counters.reconnects += 1
        return await self._hosts.connect()

    async def close(self) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            with suppress(*FAILED):
                await self._idle.pop().close(timeout=limits.POSTGRES_CONNECT_SECONDS)
