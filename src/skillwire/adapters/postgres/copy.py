"""Everything of a state directory, copied into an empty PostgreSQL database.

The tables are copied in the order of their keys, some rows in each transaction, so what is there already is the
beginning of a table and a copy that was killed continues behind it. No other program may have either database open.
At the end of a table, both sides' rows have to have one digest; each artifact has to have its own. While the table
``unfinished_copy`` exists, the target is not whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Final, NamedTuple

import asyncpg

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.postgres.connection import PostgresConnection
from skillwire.adapters.postgres.database import IN_USE, UNFINISHED_COPY, PostgresDatabase
from skillwire.adapters.sql import database_in_use
from skillwire.adapters.sql.blobs import split
from skillwire.adapters.sqlite.database import ARTIFACTS, DATABASE, OUTPUTS, RUN_BLOBS, Database
from skillwire.errors import ConflictError, StorageError
from skillwire.model.digest import Digest

#: Rows and bytes of one transaction at most, but for a single larger row.
_ROWS: Final = 2_000
_BYTES: Final = 16 * 1024 * 1024
#: Tables that others refer to come first. Not copied are those of the schema, of what a machine leads, and of files on
#: their way.
_FIRST: Final = ("packages",)
_NUMBERED: Final = ("packages", "artifacts", "executions")
_OMITTED: Final = ("migrations", "leaders", "worker_leases", "announced_files")
_TABLES: Final = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_ALONE: Final = f"SELECT pg_try_advisory_lock({IN_USE})"
_CREATE: Final = f"CREATE TABLE IF NOT EXISTS {UNFINISHED_COPY} ()"


class _Table(NamedTuple):
    """A table, its columns, and how many of them, the first ones, are its key."""

    name: str
    columns: Sequence[str]
    keys: int
    flags: frozenset[str]

    @property
    def query(self) -> str:
        """All rows by key: both databases order texts and bytes alike."""
        columns = [f'"{column}"' for column in self.columns]
        return f"SELECT {', '.join(columns)} FROM {self.name} ORDER BY {', '.join(columns[: self.keys])}"  # noqa: S608  # constants


async def copy_state(
    state: Path, target: PostgresDatabase, advance: Callable[[], object] = lambda: None
) -> Mapping[str, int]:
    """Copy a state directory, or what an earlier copy left to do; return table → rows.

    ``advance`` is called now and then.

    Raises ConflictError (``DATABASE_IN_USE``, ``REGISTRY_NOT_EMPTY``), StorageError (``DATABASE``).
    """
    await target.migrate()
    artifacts, outputs, run_blobs = (FileBlobs(state / name) for name in (ARTIFACTS, OUTPUTS, RUN_BLOBS))
    with Database(state / DATABASE).alone() as source:
        async with target.maintenance() as connection:
            if not await connection.fetchval(_ALONE):
                raise database_in_use(target.hosts.place)
            names = [name for (name,) in source.execute(_TABLES) if name not in _OMITTED]
            names.sort(key=lambda name: name not in _FIRST)
            tables = [await _describe(source, connection, name) for name in names]
            if not await connection.fetchval(f"SELECT to_regclass('{UNFINISHED_COPY}') IS NOT NULL"):
                for table in tables:
                    if await connection.fetchval(f"SELECT EXISTS (SELECT 1 FROM {table.name})"):  # noqa: S608  # a constant
                        message = f"there are {table.name} in the database already"
                        raise ConflictError("REGISTRY_NOT_EMPTY", message, fix="Name an empty database.")
                await connection.execute(_CREATE)
            rows = {table.name: await _copy_table(artifacts, source, connection, table, advance) for table in tables}
            kept = "SELECT DISTINCT output_blob FROM executions WHERE output_blob IS NOT NULL AND output_forgotten = 0"
            for query, blobs, name in (
                (kept, outputs, "output_pieces"),
                ("SELECT DISTINCT digest FROM run_blobs", run_blobs, "run_blob_pieces"),
            ):
                rows[name] = await _copy_blobs(source.execute(query), blobs, connection, name, advance)
            for name in _NUMBERED:
                await PostgresConnection(connection, target.hosts).continue_numbers(name)
            await connection.execute(f"DROP TABLE {UNFINISHED_COPY}")
    return rows


async def _describe(source: Connection, connection: asyncpg.Connection, name: str) -> _Table:
    described = source.execute(f"PRAGMA table_info({name})").fetchall()
    keys = [row[1] for row in sorted(described, key=lambda row: row[5]) if row[5]]
    keys = keys or ["digest", "permissions"]  # of grants
    query = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = $1"
    kinds = dict(map(tuple, await connection.fetch(query, name)))
    columns = [*keys, *(row[1] for row in described if row[1] not in keys)]
    if missing := set(columns) - kinds.keys():
        raise StorageError("DATABASE", f"PostgreSQL has no {name} with {', '.join(sorted(missing))}")
    return _Table(name, columns, len(keys), frozenset(one for one in columns if kinds[one] == "boolean"))


async def _copy_table(
    artifacts: FileBlobs,
    source: Connection,
    connection: asyncpg.Connection,
    table: _Table,
    advance: Callable[[], object],
) -> int:
    done = await connection.fetchval(f"SELECT count(*) FROM {table.name}")  # noqa: S608  # a constant
    hashed, number = hashlib.sha256(), 0
    for batch in _batches(_rows(artifacts, source, table)):
        for row in batch:
            _hash(hashed, row)
        new = batch[max(0, done - number) :]
        number += len(batch)
        if new:
            async with connection.transaction():
                await connection.copy_records_to_table(table.name, records=new, columns=table.columns)
        advance()
    found = hashlib.sha256()
    async with connection.transaction():
        async for record in connection.cursor(table.query, prefetch=_ROWS if table.name != "artifacts" else 1):
            _hash(found, record)
    if found.digest() != hashed.digest():
        message = f"the {table.name} there are not those of this machine; did it change after the copy began?"
        raise StorageError("DATABASE", message, fix="Begin again with an empty database.")
    return number


def _rows(artifacts: FileBlobs, source: Connection, table: _Table) -> Iterator[tuple[Any, ...]]:
    flags = [table.columns.index(name) for name in table.flags]
    for found in source.execute(table.query):
        row = list(found)
        for index in flags:
            row[index] = bool(row[index])
        if table.name == "artifacts":
            digest = Digest(f"sha256:{row[table.columns.index('digest')].hex()}")
            index = table.columns.index("content")
            row[index] = artifacts.read(digest) if row[index] is None else row[index]
            if row[index] is None or Digest.of(row[index]) != digest:
                raise StorageError("DATABASE", f"the artifact {digest} is lost or damaged")
        yield tuple(row)


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    batch: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(one) for one in row if isinstance(one, bytes | str))
        if len(batch) == _ROWS or size > _BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _hash(hashed: Any, row: Iterable[Any]) -> None:
    for value in row:
        number = float(value) if isinstance(value, int) else value
        content = number if isinstance(number, bytes) else repr(number).encode("utf-8", "surrogatepass")
        hashed.update(b"%d:%b" % (len(content), content))


async def _copy_blobs(
    digests: Iterator[tuple[str]],
    blobs: FileBlobs,
    connection: asyncpg.Connection,
    name: str,
    advance: Callable[[], object],
) -> int:
    """Copy the files that rows name; those that are lost on this machine stay so."""
    query = f"SELECT 1 FROM {name} WHERE digest = $1 LIMIT 1"  # noqa: S608  # a constant
    put = f"INSERT INTO {name} VALUES ($1, $2, $3)"  # noqa: S608  # a constant
    number = 0
    for (digest,) in digests:
        content = blobs.read(Digest(digest))
        if content is not None and not await connection.fetchval(query, digest):
            await connection.executemany(put, [(digest, place, piece) for place, piece in enumerate(split(content))])
        number += content is not None
        advance()
    return number
