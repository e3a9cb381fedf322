"""What the servers of one database have to agree on, as rows.

That is their key, the signed requests that count once, and how many servers share the rate limits of callers.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from skillwire.adapters.sql.connection import Connection, Store, writes
from skillwire.errors import SourceLocation, StorageError

_PURPOSE: Final = b"skillwire server key 1"


class SqlServers(Store):
    """The servers of a database."""

    async def check_key(self, key: bytes, path: str) -> None:
        """Check that all servers have one key; the first one stores its hash. Raises StorageError (``SERVER_KEY``).

        ``path`` is its file.
        """
        if not await self._has_key(hmac.digest(key, _PURPOSE, hashlib.sha256)):
            fix = f"Copy the server.key of another server to {path}, for its owner alone, and start this one again."
            message = "the servers of this database have another key"
            raise StorageError("SERVER_KEY", message, place=SourceLocation(path), fix=fix)

    @writes
    async def _has_key(self, connection: Connection, check: bytes) -> bool:
        await connection.run("INSERT INTO server_key VALUES (1, ?) ON CONFLICT DO NOTHING", (check,))
        stored: bytes = await connection.value("SELECT digest FROM server_key")
        return hmac.compare_digest(stored, check)

    @writes
    async def use_signature(self, connection: Connection, digest: bytes, now: float, ends: float) -> bool:
        """Store a signature until it ``ends``; False when a server has it already."""
        await connection.run("DELETE FROM used_signatures WHERE ends < ?", (now,))
        statement = "INSERT INTO used_signatures VALUES (?, ?) ON CONFLICT DO NOTHING"
        return await connection.run(statement, (digest, ends)) == 1

    @writes
    async def count(self, connection: Connection, server: str, now: float, seconds: float) -> int:
        """Store that ``server`` is up until ``now + seconds``; return how many servers are."""
        statement = "INSERT INTO present_servers VALUES (?, ?) ON CONFLICT (server) DO UPDATE SET ends = excluded.ends"
        await connection.run(statement, (server, now + seconds))
        await connection.run("DELETE FROM present_servers WHERE ends < ?", (now,))
        number: int = await connection.value("SELECT count(*) FROM present_servers")
        return number

    @writes
    async def leave(self, connection: Connection, server: str) -> None:
        """Store that ``server`` is not up any more."""
        await connection.run("DELETE FROM present_servers WHERE server = ?", (server,))
