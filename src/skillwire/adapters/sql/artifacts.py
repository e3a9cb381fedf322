"""The artifacts of a registry: the packed files of its versions, by digest.

An artifact of usual size is a row of the database, so that its publication is one durable transaction, committed
together with others. A large one is a file beside the database of SQLite, or with PostgreSQL an object of a bucket of
S3, if one is configured. It is written durably before the transaction. Old ones without a version are removed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from skillwire import limits
from skillwire.adapters.sql import AUDIT_TURN, Connection, Database, Store, reads, writes
from skillwire.adapters.sql.package_rows import raw_digest
from skillwire.errors import StorageError
from skillwire.model.digest import Digest

_HEX: Final = 64  # characters of a digest; leftovers of writes have others
#: The digest of an old artifact, and what removes it.
Aged: TypeAlias = tuple[Digest, Callable[[], bool]]


class LargeArtifacts(Protocol):
    """Artifacts that are too large for a row, by digest. Raises StorageError (``STORAGE``)."""

    def put(self, content: bytes) -> Digest:
        """Store an artifact durably; the age of one that is there begins anew."""

    def has(self, digest: Digest, size: int) -> bool:
        """Whether an artifact of this size is there."""

    def read(self, digest: Digest) -> bytes | None:
        """Return an artifact, verified; None if it is lost or damaged."""

    def aged(self, before: float) -> Iterable[Aged]:
        """Give those older than ``before``, each with what removes it if it still is, and returns whether it did."""


class SqlArtifacts(Store):
    """The part of :class:`skillwire.ports.PackageStore` about artifacts; ``large`` holds those too large for a row."""

    turn = AUDIT_TURN

    def __init__(self, database: Database, large: LargeArtifacts | None = None) -> None:
        super().__init__(database)
        self._large = large

    async def artifact(self, digest: Digest) -> bytes | None:
        found = await self._artifact(digest)
        large = self._large if found == (None,) else None
        return await asyncio.to_thread(large.read, digest) if large else found and found[0]

    @reads
    async def _artifact(self, connection: Connection, digest: Digest) -> Any:  # a row
        return await connection.row("SELECT content FROM artifacts WHERE digest = ?", (raw_digest(digest),))

    async def _put(self, large: LargeArtifacts, artifact: bytes) -> float:
        """Store an artifact; return the time until which a version that refers to it may be stored."""
        begun, digest = time.time(), await asyncio.to_thread(large.put, artifact)
        # A removal that began before is over after the next transaction, and a later one finds the artifact too young.
        if not await self._owns(digest) and not await asyncio.to_thread(large.has, digest, len(artifact)):
            await asyncio.to_thread(large.put, artifact)
        return begun + limits.REGISTRY_UNOWNED_SECONDS / 2

    @writes
    async def _owns(self, connection: Connection, digest: Digest) -> bool:
        return await _is_owned(connection, digest)

    async def remove_unowned(self, before: float) -> int:
        aged = await asyncio.to_thread(list, self._large.aged(before)) if self._large else []
        return sum([await self._remove_unowned(*one) for one in await self._unowned(aged)])

    @reads
    async def _unowned(self, connection: Connection, aged: Iterable[Aged]) -> Sequence[Aged]:
        return [one for one in aged if not await _is_owned(connection, one[0])]

    @writes
    async def _remove_unowned(self, connection: Connection, digest: Digest, remove: Callable[[], bool]) -> bool:
        # In the transaction, so that no version comes, and one for each: a publication waits for a single removal.
        return not await _is_owned(connection, digest) and await connection.run_blocking(remove)

    async def move_artifacts(self, *, to_rows: bool, advance: Callable[[], object] = lambda: None) -> int:
        """Move the large artifacts into rows of the database, or out of them; return how many.

        Each is verified where it is afterwards. Raises StorageError (``DATABASE``, ``STORAGE``).
        """
        number, found = 0, await self._next_large(b"", to_rows=to_rows)
        while found is not None:
            digest = Digest(f"sha256:{found.hex()}")
            content = await self.artifact(digest)
            if content is not None and self._large and not to_rows:
                await asyncio.to_thread(self._large.put, content)
                content = await asyncio.to_thread(self._large.read, digest)
            if content is None or Digest.of(content) != digest:
                raise StorageError("DATABASE", f"the artifact {digest} is lost or damaged")
            await self._set_content(found, content if to_rows else None)
            number += 1
            advance()
            found = await self._next_large(found, to_rows=to_rows)
        return number

    @reads
    async def _next_large(self, connection: Connection, after: bytes, *, to_rows: bool) -> Any:  # a digest, or None
        condition = f"digest > ? AND size > ? AND content IS {'' if to_rows else 'NOT'} NULL"
        query = f"SELECT digest FROM artifacts WHERE {condition} ORDER BY digest LIMIT 1"  # noqa: S608  # constants
        return await connection.value(query, (after, limits.REGISTRY_ROW_BYTES))

    @writes
    async def _set_content(self, connection: Connection, digest: bytes, content: bytes | None) -> None:
        await connection.run("UPDATE artifacts SET content = ? WHERE digest = ?", (content, digest))


async def _is_owned(connection: Connection, digest: Digest) -> bool:
    """Return whether an artifact is that of a version."""
    query = "SELECT 1 FROM artifacts WHERE digest = ?"
    return len(digest.hex) == _HEX and await connection.row(query, (raw_digest(digest),)) is not None
