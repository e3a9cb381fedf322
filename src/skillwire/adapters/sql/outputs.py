"""Where bytes are that are too large for the row they belong to: in files beside the database, or in rows of pieces.

Files serve the one machine that has them, and several machines share the rows. A file is written and removed while the
transaction holds the database, so none goes that a row needs. Of pieces, the first one is locked before the rows that
may need it are looked at, so no other transaction can begin to need them meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from skillwire.adapters.files.blobs import FileBlobs
from skillwire.adapters.sql.connection import Connection, Database
from skillwire.model.digest import Digest

#: Bytes of one row.
PIECE_BYTES: Final = 1024 * 1024

#: Whether a row needs the bytes of a digest.
IsNeeded = Callable[[Connection, Digest], Awaitable[bool]]


class Outputs(Protocol):
    """The outputs of executions that are too large for a row of the ledger."""

    async def put(self, connection: Connection, content: bytes) -> Digest:
        """Store an output with the transaction, and return its digest."""

    async def read(self, digest: Digest) -> bytes | None:
        """Return an output."""

    async def path(self, digest: Digest) -> Path | None:
        """Return a local file with an output, where there is one."""

    async def remove(self, connection: Connection, digest: Digest, is_needed: IsNeeded) -> object:
        """Remove an output that no row needs any more."""

    async def remove_orphans(self, database: Database, is_needed: IsNeeded) -> int:
        """Remove what a crash left; return how many."""


class FileOutputs:
    """Fills :class:`Outputs` with files."""

    def __init__(self, blobs: FileBlobs) -> None:
        self._blobs = blobs

    async def put(self, connection: Connection, content: bytes) -> Digest:  # noqa: ARG002  # its thread may wait for the disk
        return self._blobs.put(content)

    async def read(self, digest: Digest) -> bytes | None:
        return await asyncio.to_thread(self._blobs.read, digest)

    async def path(self, digest: Digest) -> Path | None:
        return await asyncio.to_thread(self._blobs.path, digest)

    async def remove(self, connection: Connection, digest: Digest, is_needed: IsNeeded) -> None:
        if not await is_needed(connection, digest):
            self._blobs.remove(digest)

    async def remove_orphans(self, database: Database, is_needed: IsNeeded) -> int:
        async def find(connection: Connection) -> list[Path]:
            return [file for file, digest in self._blobs.files() if not await is_needed(connection, digest)]

        async def remove(file: Path, connection: Connection) -> bool:  # outputs are written in a transaction, too
            if await is_needed(connection, Digest(f"sha256:{file.parent.name}{file.name}")):
                return False
            file.unlink(missing_ok=True)  # noqa: ASYNC240  # in the thread that writes
            return True

        return sum([await database.write(partial(remove, file)) for file in await database.read(find)])


def split(content: bytes) -> Iterator[bytes]:
    """Yield the pieces of ``content``."""
    return (content[start : start + PIECE_BYTES] for start in range(0, len(content), PIECE_BYTES))


class Pieces:
    """Bytes in the rows of ``table``: their digest, the number of a piece, and the piece."""

    def __init__(self, table: str) -> None:
        self._table = table

    async def put(self, connection: Connection, digest: Digest, pieces: Iterable[bytes]) -> None:
        """Store the bytes, or keep others from removing those that are there."""
        lock = "ON CONFLICT (digest, number) DO UPDATE SET number = excluded.number"
        put = f"INSERT INTO {self._table} VALUES (?, ?, ?) {lock}"  # noqa: S608  # constants
        for number, piece in enumerate(pieces):
            await connection.run(put, (str(digest), number, piece))

    async def read(self, connection: Connection, digest: Digest) -> list[bytes]:
        """Return the pieces in order; none where there are no such bytes."""
        query = f"SELECT content FROM {self._table} WHERE digest = ? ORDER BY number"  # noqa: S608  # a constant
        return [row[0] for row in await connection.rows(query, (str(digest),))]

    async def remove(self, connection: Connection, digest: Digest, is_needed: IsNeeded) -> bool:
        """Remove bytes that no row needs any more; return whether that is so."""
        of_digest = f"FROM {self._table} WHERE digest = ?"
        await connection.row(f"SELECT number {of_digest} AND number = 0{connection.locked}", (str(digest),))
        if await is_needed(connection, digest):
            return False
        await connection.run(f"DELETE {of_digest}", (str(digest),))
        return True


class RowOutputs:
    """Fills :class:`Outputs` with rows."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pieces = Pieces("output_pieces")
        self.remove = self._pieces.remove

    async def put(self, connection: Connection, content: bytes) -> Digest:
        digest = Digest.of(content)
        await self._pieces.put(connection, digest, split(content))
        return digest

    async def read(self, digest: Digest) -> bytes | None:
        return b"".join(await self._database.read(lambda connection: self._pieces.read(connection, digest))) or None

    async def path(self, digest: Digest) -> Path | None:  # noqa: ARG002  # there is no file
        return None

    async def remove_orphans(self, database: Database, is_needed: IsNeeded) -> int:  # noqa: ARG002  # a crash undoes them
        return 0
