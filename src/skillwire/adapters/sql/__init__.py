"""The stores of a server, and what they ask of a database.

A store's statements are written once and run on SQLite and on PostgreSQL: placeholders are ``?``, or ``?1`` for a value
that occurs twice; a conflict is ``ON CONFLICT``; flags are the numbers 0 and 1. ``INDEXED BY`` is read by SQLite alone.
SQLite has one writer at a time and PostgreSQL many. So a store whose rules span several rows names its
:attr:`Store.turn`, which one transaction at a time holds, and one that changes single rows locks them
(:attr:`Connection.locked`).

The schema of a database is a row of numbered steps, each an SQL file that never changes once it was released. Its table
``migrations`` names the steps that were run, with their checksums. A database with a step that this version does not
know was written by a newer one, and is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from importlib import resources
from typing import Any, ClassVar, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar

from skillwire.errors import ConflictError, SourceLocation, StorageError

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="Store")

Values = Sequence[Any]


#: The turn of all writes to the audit log, where each entry is chained to the one before.
AUDIT_TURN: Final = "packages"


class Connection(Protocol):
    """A connection within a read, or within a transaction."""

    @property
    def locked(self) -> str:
        """What ends a query whose rows stay as they are until the transaction ends, such as `` FOR UPDATE``."""

    @property
    def skip_locked(self) -> str:
        """The same for a query that leaves out the rows which another transaction keeps, instead of waiting."""

    @property
    def is_usable(self) -> bool:
        """Whether the transaction still stands. A full disk and a lost connection have undone all of it."""

    @property
    def refusals(self) -> tuple[type[Exception], ...]:
        """What it raises for values that break a rule of the schema."""

    async def rows(self, query: str, values: Values = ()) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a query."""

    async def row(self, query: str, values: Values = ()) -> Any:  # a tuple of as many as were asked for
        """Return the first row of a query; None without one."""

    async def value(self, query: str, values: Values = ()) -> Any:  # of any column
        """Return the first value of the first row; None without a row."""

    async def run(self, statement: str, values: Values = ()) -> int:
        """Run a statement; return how many rows it changed."""

    async def run_many(self, statement: str, rows: Iterable[Values]) -> None:
        """Run a statement for each of ``rows``."""

    async def run_blocking(self, call: Callable[..., T], *args: Any) -> T:
        """Return the result of ``call``, made in a thread that may wait for a disk or a network."""

    async def continue_numbers(self, table: str) -> None:
        """Let the numbers of new rows follow those that were inserted with theirs."""

    def part(self) -> AbstractAsyncContextManager[None]:
        """Begin a part of the transaction, which its own error undoes alone."""


class Database(Protocol):
    """A database that event loops read and write.

    Raises StorageError (``DATABASE``); for a wrong statement, which is a defect of ours, the error of its library.
    """

    async def read(self, call: Callable[[Connection], Awaitable[T]]) -> T:
        """Return what ``call`` returns; its queries see one moment. It may be called twice."""

    async def write(self, call: Callable[[Connection], Awaitable[T]], turn: str = "") -> T:
        """Return the result of ``call`` once its writes are on the disk; cancelling the caller undoes nothing.

        It may be called several times, after what an earlier call wrote was undone.
        Of the transactions with one ``turn``, none begins before the one before it has ended.
        """

    async def exists(self) -> bool:
        """Whether it was created."""

    async def shrink(self) -> int:
        """Give some free space back to the disk; return 0 when there is no more."""

    async def check(self) -> None:
        """Try to write if the last attempt failed."""

    async def find_obstacle(self) -> str:
        """Return why a write would fail now: a full disk, a pending migration; empty when nothing is known."""

    def statistics(self) -> Mapping[str, float]:
        """Return totals since the start: ``wait_seconds``, ``reconnects``, ``failovers``, ``notifications``."""

    def watch(self, changed: Callable[[], object]) -> None:
        """Call ``changed`` on the running event loop whenever another process has written."""

    async def close(self) -> None:
        """Finish what was begun."""


def database_in_use(place: str) -> ConflictError:
    """Return the error for work that needs a database alone, at ``place``, which a server or another program uses."""
    return ConflictError(
        "DATABASE_IN_USE", "a server, a worker or another program uses the database", place=SourceLocation(place)
    )


class Store:
    """What keeps its rows in a database: :func:`reads` and :func:`writes` give its methods a connection."""

    #: The name of the turn that its writes wait for; empty where each of them changes single rows.
    turn: ClassVar[str] = ""

    def __init__(self, database: Database) -> None:
        self._database = database


def reads(
    method: Callable[Concatenate[S, Connection, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Let a store's method read."""

    @wraps(method)
    async def read(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await store._database.read(lambda connection: method(store, connection, *args, **kwargs))  # noqa: SLF001  # its own

    return read


def writes(
    method: Callable[Concatenate[S, Connection, P], Awaitable[T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Let a store's method write in one transaction; one with a ``change`` for the audit log has the turn of that."""

    @wraps(method)
    async def write(store: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        def call(connection: Connection) -> Awaitable[T]:
            return method(store, connection, *args, **kwargs)

        turn = store.turn if kwargs.get("change") is None else AUDIT_TURN
        return await store._database.write(call, turn)  # noqa: SLF001  # its own

    return write


class Migration(NamedTuple):
    """One numbered step of the schema."""

    number: int
    name: str
    script: str

    @property
    def checksum(self) -> str:
        """The SHA-256 of its text, in hexadecimal."""
        return hashlib.sha256(self.script.encode()).hexdigest()


def read_migrations(package: str) -> list[Migration]:
    """Return the steps of the schema beside ``package``, in order."""
    folder = resources.files(package) / "migrations"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return [Migration(int(name[:4]), name, (folder / name).read_text("utf-8")) for name in files]


def pending_migrations(
    migrations: Sequence[Migration], done: Mapping[int, str], error: Callable[[str, str | None], StorageError]
) -> list[Migration]:
    """Return the steps that are not ``done``. Raises ``error`` where a database has others than this version."""
    known = {migration.number: migration for migration in migrations}
    for number, checksum in done.items():
        if number not in known:
            message = f"its schema has step {number}, which this version does not know"
            raise error(message, "Use the version of skillwire that wrote it, or a newer one.")
        if known[number].checksum != checksum:
            message = f"{known[number].name} was run with another text, of a build between releases"
            fix = "With that build: skillwire registry export; with this one, registry import into a new database."
            raise error(message, fix)
    return [migration for migration in migrations if migration.number not in done]
