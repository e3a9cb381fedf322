"""Archives on their way to a registry of several servers, as rows: any server takes the next bytes of an upload.

Files that are announced one by one are rows in either database, so any server takes them, after a restart too.
The bodies of single requests are files of the server that receives them, as in :mod:`skillwire.adapters.files.uploads`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterable, Callable, Collection, Sequence
from typing import Any, Final

from skillwire import limits
from skillwire.adapters.files.uploads import (
    check_capacity,
    check_complete,
    check_end,
    check_offset,
    check_size,
    digest_mismatch,
    make_upload,
    upload_not_found,
)
from skillwire.adapters.sql import Connection, Database, Store, reads, writes
from skillwire.model.digest import Digest
from skillwire.model.package import UPLOAD, AnnouncedFile, Upload, upload_number

#: Bytes of a row; the last row of a request has fewer.
_ROW_BYTES: Final = limits.MIB
_COLUMNS: Final = "ticket, account, path, size, digest, ends"
_NAMED: Final = "ticket IN (SELECT value FROM json_each(?))"
_TOTAL: Final = "SELECT coalesce(sum(held), 0) FROM uploads"


class SqlUploads(Store):
    """Fills :class:`skillwire.ports.UploadStore`; ``clock`` is seconds since the epoch."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        super().__init__(database)
        self._clock = clock

    async def begin(self, account: str, size: int, digest: Digest) -> Upload:
        check_size(size)
        return await self._begin(account, upload_number(size, digest))

    @writes
    async def _begin(self, connection: Connection, account: str, number: str) -> Upload:
        await connection.run("DELETE FROM uploads WHERE account = ? AND expires <= ?", (account, self._clock()))
        query = "SELECT count(*) FROM uploads WHERE account = ? AND number <> ?"
        others = await connection.value(query, (account, number))
        check_capacity(account, others, await connection.value(_TOTAL))
        statement = "INSERT INTO uploads (account, number, held, expires) VALUES (?, ?, 0, ?) ON CONFLICT DO NOTHING"
        await connection.run(statement, (account, number, self._clock() + limits.REGISTRY_UPLOAD_SECONDS))
        return await self._look_up(connection, account, number)

    @reads
    async def find(self, connection: Connection, account: str, number: str) -> Upload:
        return await self._look_up(connection, account, number)

    async def append(self, account: str, number: str, offset: int, pieces: AsyncIterable[bytes]) -> Upload:
        upload, waiting = await self.find(account, number), bytearray()
        check_offset(upload.offset, offset)
        try:
            async for piece in pieces:
                waiting += piece
                check_end(upload, offset + len(waiting))
                if len(waiting) >= _ROW_BYTES:
                    offset = await self._append(account, number, offset, bytes(waiting))
                    waiting.clear()
        finally:  # what came stays
            if waiting:
                await self._append(account, number, offset, bytes(waiting[: upload.size - offset]))
        return await self.find(account, number)

    @writes
    async def _append(self, connection: Connection, account: str, number: str, offset: int, content: bytes) -> int:
        check_capacity(account, 0, await connection.value(_TOTAL))
        query = f"SELECT held FROM uploads WHERE account = ? AND number = ?{connection.locked}"  # noqa: S608  # a constant
        held = await connection.value(query, (account, number))
        if held is None:
            raise upload_not_found(number)
        check_offset(held, offset)
        await connection.run("INSERT INTO upload_pieces VALUES (?, ?, ?, ?)", (account, number, offset, content))
        end, expires = offset + len(content), self._clock() + limits.REGISTRY_UPLOAD_SECONDS
        statement = "UPDATE uploads SET held = ?, expires = ? WHERE account = ? AND number = ?"
        await connection.run(statement, (end, expires, account, number))
        return end

    async def read(self, account: str, number: str) -> bytes:
        upload, pieces = await self._read(account, number)
        content = await asyncio.to_thread(b"".join, pieces)
        digest = await asyncio.to_thread(Digest.of, content)
        if digest != upload.digest:
            await self.remove(account, number)
            raise digest_mismatch(digest)
        return content

    @reads
    async def _read(self, connection: Connection, account: str, number: str) -> tuple[Upload, list[bytes]]:
        check_complete(upload := await self._look_up(connection, account, number))
        query = "SELECT content FROM upload_pieces WHERE account = ? AND number = ? ORDER BY start"
        return upload, [content for (content,) in await connection.rows(query, (account, number))]

    @writes
    async def remove(self, connection: Connection, account: str, number: str) -> None:
        await self._look_up(connection, account, number)
        await connection.run("DELETE FROM uploads WHERE account = ? AND number = ?", (account, number))

    @writes
    async def expire(self, connection: Connection) -> None:
        await connection.run("DELETE FROM uploads WHERE expires <= ?", (self._clock(),))

    async def _look_up(self, connection: Connection, account: str, number: str) -> Upload:
        query = "SELECT held, expires FROM uploads WHERE account = ? AND number = ? AND expires > ?"
        row = await connection.row(query, (account, number, self._clock())) if UPLOAD.fullmatch(number) else None
        if row is None:
            raise upload_not_found(number)
        return make_upload(number, *row)


class SqlAnnouncedFiles(Store):
    """Fills :class:`skillwire.ports.AnnouncedFileStore`."""

    @writes
    async def announce(self, connection: Connection, file: AnnouncedFile) -> float | None:
        query = "SELECT count(*), coalesce(sum(size), 0), min(ends) FROM announced_files WHERE account = ?"
        number, size, first_end = await connection.row(query, (file.account,))
        if number >= limits.ARCHIVE_ENTRIES or (number and size + file.size > limits.ARCHIVE_TOTAL_BYTES):
            return float(first_end)
        values = (*file[:4], str(file.digest), file.ends)
        await connection.run("INSERT INTO announced_files VALUES (?, ?, ?, ?, ?, ?)", values)
        return None

    @reads
    async def find(
        self, connection: Connection, account: str, tickets: Collection[str], now: float
    ) -> Sequence[AnnouncedFile]:
        query = f"SELECT {_COLUMNS} FROM announced_files WHERE account = ? AND ends >= ? AND {_NAMED}"  # noqa: S608  # constants
        return [_read(row) for row in await connection.rows(query, (account, now, json.dumps(list(tickets))))]

    @writes
    async def remove(self, connection: Connection, tickets: Collection[str]) -> None:
        await connection.run(f"DELETE FROM announced_files WHERE {_NAMED}", (json.dumps(list(tickets)),))  # noqa: S608  # a constant

    @writes
    async def remove_ended(self, connection: Connection, now: float) -> Sequence[AnnouncedFile]:
        query = f"DELETE FROM announced_files WHERE ends < ? RETURNING {_COLUMNS}"  # noqa: S608  # a constant
        return [_read(row) for row in await connection.rows(query, (now,))]


def _read(row: Sequence[Any]) -> AnnouncedFile:
    ticket, account, path, size, digest, ends = row
    return AnnouncedFile(ticket, account, path, size, Digest(digest), ends)
