"""Bytes that are too large for the row they belong to: outputs of executions, and blobs of runs.

They are in files beside the database, or in rows of pieces. Files serve the one machine that has them, and several
machines share the rows. A file is written and removed while the transaction holds the database, so none goes that a row
needs. Of pieces, the first one is locked before the rows that may need it are looked at, so no other transaction can
begin to need them meanwhile.

The rows of a run's blobs say which caller owns them. The bytes are on the disk under the name of their digest before
the row is committed, and a file is removed in the transaction that removes the last row of its digest. A crash leaves
at worst a file without a row, which a later call of ``expire`` removes when it is old enough that no process still
writes it. Where several machines share the blobs, a file is a copy of the pieces: of what this machine was sent, or
fetched for a run.

An expired blob is gone, even before its file is removed. A run keeps its blobs by their expiry, which the transaction
that accepts the run moves behind its deadline. A blob keeps the media type that its owner gave first: storing the same
bytes again changes nothing that the first upload relies on.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from skillwire import limits
from skillwire.adapters.files.atomic import make_folder, storage_errors
from skillwire.adapters.files.blobs import NEW, FileBlobs, FileBlobWriting
from skillwire.adapters.sql import Connection, Database, Store, reads, writes
from skillwire.errors import ConflictError
from skillwire.model.digest import Digest
from skillwire.model.execution import BlobHold, RunBlob, RunSettings, blob_not_found
from skillwire.model.ref import BLOB_PREFIX

#: Bytes of one row.
PIECE_BYTES: Final = 1024 * 1024


class Outputs(Protocol):
    """The outputs of executions that are too large for a row of the ledger."""

    async def put(self, connection: Connection, content: bytes) -> Digest:
        """Store an output with the transaction, and return its digest."""

    async def read(self, digest: Digest) -> bytes | None:
        """Return an output."""

    async def path(self, digest: Digest) -> Path | None:
        """Return a local file with an output, where there is one."""

    async def remove(self, connection: Connection, digest: Digest) -> object:
        """Remove an output that no execution needs any more."""

    async def remove_orphans(self, database: Database) -> int:
        """Remove what a crash left; return how many."""


async def _is_output(connection: Connection, blob: Digest) -> bool:
    query = "SELECT 1 FROM executions WHERE output_blob = ? AND output_forgotten = 0 LIMIT 1"
    return await connection.row(query, (str(blob),)) is not None


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

    async def remove(self, connection: Connection, digest: Digest) -> None:
        if not await _is_output(connection, digest):
            self._blobs.remove(digest)

    async def remove_orphans(self, database: Database) -> int:
        async def find(connection: Connection) -> list[Path]:
            return [file for file, digest in self._blobs.files() if not await _is_output(connection, digest)]

        async def remove(file: Path, connection: Connection) -> bool:  # outputs are written in a transaction, too
            if await _is_output(connection, Digest(f"sha256:{file.parent.name}{file.name}")):
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
        """Store the bytes, which may be read from a file, or keep others from removing those that are there."""
        lock = "ON CONFLICT (digest, number) DO UPDATE SET number = excluded.number"
        put = f"INSERT INTO {self._table} VALUES (?, ?, ?) {lock}"  # noqa: S608  # constants
        rest, number = iter(pieces), 0
        while (piece := await asyncio.to_thread(next, rest, None)) is not None:
            await connection.run(put, (str(digest), number, piece))
            number += 1

    async def read(self, connection: Connection, digest: Digest) -> list[bytes]:
        """Return the pieces in order; none where there are no such bytes."""
        query = f"SELECT content FROM {self._table} WHERE digest = ? ORDER BY number"  # noqa: S608  # a constant
        return [row[0] for row in await connection.rows(query, (str(digest),))]

    async def remove(
        self, connection: Connection, digest: Digest, is_needed: Callable[[Connection, Digest], Awaitable[bool]]
    ) -> bool:
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

    async def put(self, connection: Connection, content: bytes) -> Digest:
        digest = Digest.of(content)
        await self._pieces.put(connection, digest, split(content))
        return digest

    async def read(self, digest: Digest) -> bytes | None:
        return b"".join(await self._database.read(lambda connection: self._pieces.read(connection, digest))) or None

    async def path(self, digest: Digest) -> Path | None:  # noqa: ARG002  # there is no file
        return None

    async def remove(self, connection: Connection, digest: Digest) -> None:
        await self._pieces.remove(connection, digest, _is_output)

    async def remove_orphans(self, database: Database) -> int:  # noqa: ARG002  # a crash undoes them
        return 0


_EXPIRED_AT_ONCE: Final = 500
#: Seconds after which a file that is no blob is left over: none is written for so long.
_LEFT_SECONDS: Final = 3600.0
#: Seconds between two looks for what is left over.
_TIDY_SECONDS: Final = 3600.0
#: What a row counts as.
_COUNTED: Final = f"CASE WHEN size > {int(limits.BLOB_LEAST_BYTES)} THEN size ELSE {int(limits.BLOB_LEAST_BYTES)} END"
_KEEP: Final = (
    "INSERT INTO run_blobs VALUES (?, ?, ?, ?, ?) ON CONFLICT (owner, digest) DO UPDATE SET"
    " kind = CASE WHEN run_blobs.expires > ? THEN run_blobs.kind ELSE excluded.kind END,"
    " expires = CASE WHEN run_blobs.expires > excluded.expires THEN run_blobs.expires ELSE excluded.expires END"
    " RETURNING kind, expires"
)
_HOLD: Final = (
    "UPDATE run_blobs SET expires = CASE WHEN expires > ?1 THEN expires ELSE ?1 END"
    " WHERE owner = ?2 AND digest = ?3 AND expires > ?4"
)


class SqlRunBlobs(Store):
    """Fills :class:`skillwire.ports.RunBlobs`; ``in_all`` bounds the bytes of all owners."""

    turn = "run blobs"

    def __init__(
        self,
        database: Database,
        folder: Path,
        settings: RunSettings,
        *,
        in_all: int = limits.BLOBS_BYTES,
        pieces: Pieces | None = None,
    ) -> None:
        super().__init__(database)
        self._pieces = pieces
        self._folder = folder
        self._settings = settings
        self._in_all = in_all
        self._tidied = float("-inf")

    async def store(
        self, owner: str, contents: Sequence[tuple[AsyncIterable[bytes], str]], now: float
    ) -> Sequence[RunBlob]:
        files: list[FileBlobWriting] = []

        def close() -> None:
            for file in files:
                file.close()

        try:
            for content, _ in contents:
                files.append(await asyncio.to_thread(FileBlobWriting, self._folder, self._settings.blob_bytes))
                async for piece in content:
                    await asyncio.to_thread(files[-1].write, piece)
            for file in files:
                await asyncio.to_thread(file.finish)
            kept = await self._store(owner, list(zip(files, [kind for _, kind in contents], strict=True)), now)
            if self._pieces is not None:  # the transaction may have been done twice
                for file in files:
                    await asyncio.to_thread(file.move, self._place(file.digest))
            return kept
        finally:
            await asyncio.shield(asyncio.to_thread(close))

    @writes
    async def _store(
        self, connection: Connection, owner: str, files: Sequence[tuple[FileBlobWriting, str]], now: float
    ) -> Sequence[RunBlob]:
        kept = []
        for file, given in files:
            row = (owner, str(file.digest), given, file.size, now + self._settings.blob_seconds, now)
            kind, expires = await connection.row(_KEEP, row)
            kept.append(RunBlob(file.digest, kind, file.size, expires))
        query = f"SELECT coalesce(sum({_COUNTED}), 0) FROM run_blobs WHERE owner = ? AND expires > ?"  # noqa: S608  # constants
        if await connection.value(query, (owner, now)) > self._settings.blobs_per_owner:
            message = f"your blobs have more than {self._settings.blobs_per_owner:,} bytes together"
            raise ConflictError("BLOB_ROOM", message, details={"limit": "blobs_per_owner"})
        query = f"SELECT coalesce(sum({_COUNTED}), 0) FROM run_blobs"  # noqa: S608  # constants
        if await connection.value(query) > self._in_all:
            raise ConflictError("BLOB_ROOM", "the blobs of all callers are as many as there may be")
        for file, _ in files:
            if self._pieces is None:
                file.move(self._place(file.digest))
            else:
                await self._pieces.put(connection, file.digest, file.pieces(PIECE_BYTES))
        return kept

    async def find(self, owner: str, digest: Digest, now: float) -> RunBlob | None:
        blob = await self._find(owner, digest, now)
        if blob is not None and blob.expires - now < self._settings.blob_seconds / 2:
            blob = blob._replace(expires=now + self._settings.blob_seconds)
            await self._renew(owner, digest, now, blob.expires)
        return blob

    @reads
    async def _find(self, connection: Connection, owner: str, digest: Digest, now: float) -> RunBlob | None:
        query = "SELECT kind, size, expires FROM run_blobs WHERE owner = ? AND digest = ? AND expires > ?"
        row = await connection.row(query, (owner, str(digest), now))
        return None if row is None else RunBlob(digest, *row)

    @writes
    async def _renew(self, connection: Connection, owner: str, digest: Digest, now: float, expires: float) -> None:
        await connection.run(_HOLD, (expires, owner, str(digest), now))

    async def file_of(self, digest: Digest) -> Path | None:
        path = self._place(digest)
        if self._pieces is not None and not await asyncio.to_thread(path.is_file):
            await self._fetch(self._pieces, digest)
        return path if await asyncio.to_thread(path.is_file) else None

    async def _fetch(self, pieces: Pieces, digest: Digest) -> None:
        """Make a local file of bytes that another machine stored."""
        found = await self._database.read(lambda connection: pieces.read(connection, digest))
        if not found:
            return

        def write() -> None:
            file = FileBlobWriting(self._folder, sum(map(len, found)))
            try:
                for piece in found:
                    file.write(piece)
                file.finish()
                if file.digest == digest:
                    file.move(self._place(digest))
            finally:
                file.close()

        await asyncio.to_thread(write)

    @writes
    async def remove(self, connection: Connection, owner: str, digest: Digest) -> bool:
        query = "DELETE FROM run_blobs WHERE owner = ? AND digest = ?"
        is_removed = await connection.run(query, (owner, str(digest))) > 0
        if is_removed:
            await self._remove_unowned(connection, digest)
        return is_removed

    def spool(self) -> BinaryIO:
        with storage_errors(self._folder):
            make_folder(self._folder, mode=0o700)
            return tempfile.TemporaryFile(dir=self._folder, buffering=0)

    async def expire(self, now: float) -> int:
        query = "SELECT 1 FROM run_blobs WHERE expires <= ? LIMIT 1"  # mostly there is none, which needs no lock
        is_any = await self._database.read(lambda connection: connection.value(query, (now,)))
        number = await self._expire(now) if is_any else 0
        if not 0 <= now - self._tidied < _TIDY_SECONDS:  # a clock may be set back
            self._tidied = now
            for digest in await self._unowned(await asyncio.to_thread(self._old_files)):
                await self._remove_leftover(digest)
        return number

    @writes
    async def _expire(self, connection: Connection, now: float) -> int:
        query = "SELECT owner, digest FROM run_blobs WHERE expires <= ? ORDER BY expires LIMIT ?"
        rows = await connection.rows(query, (now, _EXPIRED_AT_ONCE))
        await connection.run_many("DELETE FROM run_blobs WHERE owner = ? AND digest = ?", rows)
        for digest in {digest for _, digest in rows}:
            await self._remove_unowned(connection, Digest(digest))
        return len(rows)

    async def _remove_unowned(self, connection: Connection, digest: Digest) -> None:
        if self._pieces is None:
            is_removed = not await _is_owned(connection, digest)
        else:
            is_removed = await self._pieces.remove(connection, digest, _is_owned)
        if is_removed:
            await connection.run_blocking(partial(self._place(digest).unlink, missing_ok=True))

    def _old_files(self) -> list[Digest]:
        """Remove old files that are half written; return the digests of the others that are old."""
        with storage_errors(self._folder):
            for path in self._folder.glob(f"{NEW}*"):
                if _is_left(path):
                    path.unlink(missing_ok=True)
            files = self._folder.glob("[0-9a-f][0-9a-f]/*")
            return [Digest(f"sha256:{path.parent.name}{path.name}") for path in files if _is_left(path)]

    @reads
    async def _unowned(self, connection: Connection, digests: Sequence[Digest]) -> list[Digest]:
        return [digest for digest in digests if not await _is_owned(connection, digest)]

    @writes
    async def _remove_leftover(self, connection: Connection, digest: Digest) -> None:
        with storage_errors(self._folder):
            await self._remove_unowned(connection, digest)

    def _place(self, digest: Digest) -> Path:
        return self._folder / digest.hex[:2] / digest.hex[2:]


async def hold_blobs(connection: Connection, hold: BlobHold) -> None:
    """Keep blobs at least until a time. Raises NotFoundError (``BLOB_NOT_FOUND``)."""
    for digest in hold.digests:
        if await connection.run(_HOLD, (hold.until, hold.owner, str(digest), hold.now)) == 0:
            raise blob_not_found(BLOB_PREFIX + digest.hex)


async def _is_owned(connection: Connection, digest: Digest) -> bool:
    query = "SELECT 1 FROM run_blobs WHERE digest = ? LIMIT 1"
    return await connection.row(query, (str(digest),)) is not None


def _is_left(path: Path) -> bool:
    try:
        return path.lstat().st_mtime <= time.time() - _LEFT_SECONDS
    except FileNotFoundError:  # another process was here
        return False
